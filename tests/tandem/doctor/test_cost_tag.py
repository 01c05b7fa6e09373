"""`tandem doctor` asks for the cost allocation tag that `scope: stack` needs."""

import pytest
from botocore.exceptions import ClientError

from sharing.stack.budget import Alert, AlertScope
from tandem.doctor.account import wants_cost_tag
from tandem.doctor.case import Case, Stack
from tests.sharing.builders import replace
from tests.tandem.aws.emulated import Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, summary

ACTIVATE = (
    "aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey=tandem:stack,Status=Active "
    "--region us-east-1"
)
UNCOUNTED = "tandem:stack is not an active cost allocation tag, so the alert counts nothing"
LATER = "AWS lists it up to 24 hours after the first `up`. Then run doctor again."
NEW = "AWS does not know the tag tandem:stack yet, so the alert counts nothing"


def with_alert(case: Case, scope: AlertScope | None) -> Case:
    assert case.stack
    plan = case.stack.plan
    alert = scope and Alert(emails=["ops@example.com"], max_usd=400, period="monthly", scope=scope)
    case.stack = Stack(replace(plan, config=replace(plan.config, alert=alert)), case.stack.planned)
    return case


@pytest.mark.parametrize(
    ("tags", "verdict", "text", "fix"),
    [
        ({"tandem:stack": "Active"}, "ok", "tandem:stack is an active cost allocation tag", ""),
        ({"tandem:stack": "Inactive"}, "warning", UNCOUNTED, ACTIVATE),
        ({"team": "Active"}, "warning", NEW, LATER),
    ],
)
def test_a_tag_that_is_not_active_is_a_warning(
    emulated: Emulated, case: Cases, tags: dict[str, str], verdict: str, text: str, fix: str
) -> None:
    emulated.cost_tags = tags
    found = finding("cost-tag", with_alert(case("timeslice"), "stack"))
    assert (found.verdict, found.text, found.fix) == (verdict, text, fix)


def test_a_member_of_an_organization_cannot_see_it(emulated: Emulated, case: Cases) -> None:
    message = "Failed to list Cost Allocation Tags: Linked account doesn't have access to cost allocation tags."
    refusal = {"Error": {"Code": "AccessDeniedException", "Message": message}}
    emulated.faults["ListCostAllocationTags"] = [ClientError(refusal, "ListCostAllocationTags")]  # type: ignore[arg-type]  # boto's stubs want more keys
    said = "only the account that pays for this one can see its cost allocation tags"
    assert summary("cost-tag", with_alert(case("timeslice"), "stack")) == [("unknown", said)]


@pytest.mark.parametrize(("scope", "wanted"), [("stack", True), ("account", False), (None, False)])
def test_the_question_costs_a_cent_so_only_such_an_alert_asks_it(
    case: Cases, scope: AlertScope | None, wanted: bool
) -> None:
    assert wants_cost_tag(with_alert(case("timeslice"), scope)) is wanted
