"""The e-mail from AWS Budgets: which limits and regions are refused, and what the warnings say."""

import math

import pytest

from sharing.section import is_email
from sharing.sections.budget import Alert, AlertPeriod, AlertScope
from sharing.sections.config import StackConfig
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from sharing.verdict.full import judge_fully
from tests.sharing.builders import pool, replace, setup
from tests.sharing.test_bill_of_a_parked_week import NIGHTS, PARKED, REPLACED, SYSTEM_REPLACED


def alerted(
    max_usd: float, period: AlertPeriod = "monthly", scope: AlertScope = "account", **more: object
) -> StackConfig:
    return setup(alert=Alert(emails=["ops@example.com"], max_usd=max_usd, period=period, scope=scope), **more)


@pytest.mark.parametrize("limit", [0.009, math.inf, math.nan])
def test_an_alert_has_a_limit_of_a_cent_at_least(limit: float) -> None:
    with pytest.raises(ValueError, match="max_usd"):
        alerted(limit)


@pytest.mark.parametrize(
    ("period", "usd", "unit", "fix"),
    [
        (
            "monthly",
            730 * PARKED + SYSTEM_REPLACED,
            "month",
            "Write `max-usd: {}`; or, if you destroy the stack after use, `period: daily`.",
        ),
        ("daily", 24 * PARKED, "day", "Write `max-usd: {}`."),
    ],
)
def test_a_limit_below_the_price_of_the_parked_stack_is_an_error(
    period: AlertPeriod, usd: float, unit: str, fix: str
) -> None:
    [found] = judge_fully(alerted(usd - 0.01, period)).problems
    assert (found.path, found.found) == ("budget.alert.max-usd", f"{usd - 0.01:g}")
    assert found.rule == f"is less than the stack costs in a {unit} with every GPU pool parked: ${usd:,.2f}"
    assert found.fix == fix.format(math.ceil(usd))
    assert judge_fully(alerted(usd + 0.01, period)).problems == ()


def test_a_limit_below_the_price_of_the_running_stack_is_a_warning() -> None:
    bill = judge_fully(setup()).cost
    assert bill is not None
    month = bill.usd_per_hour * 730 + REPLACED
    [found] = judge_fully(alerted(month - 0.01)).warnings
    assert found.rule == f"is less than a month of this stack costs: ${month:,.2f}"
    # 80 % of 730 hours.
    assert found.fix == "80 % of it is spent after 24.3 days. Park or destroy the stack before then."
    [found] = judge_fully(alerted(bill.usd_per_hour * 10, "daily")).warnings
    assert found.rule == f"is less than a day of this stack costs: ${bill.usd_per_hour * 24:,.2f}"
    assert found.fix == "80 % of it is spent after 8.0 hours. Park or destroy the stack before then."
    assert judge_fully(alerted(month + 0.01)).warnings == ()


@pytest.mark.parametrize(
    ("period", "running", "parked", "what"),
    # 60 of 168 hours, and 12 on a weekday.
    [
        ("monthly", 730 * 60 / 168, 730 * 108 / 168, "a month"),
        ("daily", 12, 12, "the longest day"),
    ],
)
def test_a_limit_is_compared_with_what_the_stack_costs_with_its_schedule(
    period: AlertPeriod, running: float, parked: float, what: str
) -> None:
    bill = judge_fully(setup()).cost
    assert bill is not None
    usd = running * bill.usd_per_hour + parked * PARKED + (REPLACED if period == "monthly" else 0)

    def warnings(max_usd: float) -> list[tuple[str, str]]:
        found = judge_fully(alerted(max_usd, period, park=NIGHTS)).warnings
        return [(one.rule, one.fix) for one in found if one.path == "budget.alert.max-usd"]

    assert warnings(usd + 0.01) == []
    [(rule, fix)] = warnings(usd - 0.01)
    assert rule == f"is less than {what} of this stack costs with its schedule: ${usd:,.2f}"
    assert fix == "Park the stack for longer, or write a higher limit."


def test_models_that_scale_to_zero_are_not_parked() -> None:
    def sleeping(max_usd: float) -> StackConfig:
        zero = ScaleToZeroSettings(enabled=True, idle_minutes=15, cold_requests="wait")
        return alerted(max_usd, pools=(pool(provisioner="karpenter"),), scale_to_zero=zero)

    [found] = judge_fully(sleeping(1)).problems
    assert found.rule.startswith("is less than the stack costs in a month while no model runs: $")
    bill = judge_fully(sleeping(100_000)).cost
    assert bill is not None
    month = bill.usd_per_hour * 730 + REPLACED
    [found] = [one for one in judge_fully(sleeping(month - 0.01)).warnings if one.path == "budget.alert.max-usd"]
    assert found.rule == f"is less than a month of this stack costs while its models run: ${month:,.2f}"
    assert found.fix == "80 % of it is spent after 24.3 days. Destroy the stack before then."


def test_the_price_of_another_region_warns_of_nothing() -> None:
    there = alerted(200, region="sa-east-1")
    found = judge_fully(there)
    assert found.cost is not None
    assert found.cost.unpriced
    assert found.cost.usd_per_month > 200
    assert [one.path for one in found.warnings if one.path.startswith("budget")] == []


def test_the_scope_of_a_stack_needs_an_active_tag() -> None:
    [found] = judge_fully(alerted(10_000, scope="stack")).warnings
    assert (found.path, found.found, found.judged) == ("budget.alert.scope", "stack", True)
    assert found.rule == "has no effect until tandem:stack is an active cost allocation tag of the account that pays"
    # AWS CLI reference, ce update-cost-allocation-tags-status, shorthand syntax.
    assert "--cost-allocation-tags-status TagKey=tandem:stack,Status=Active" in found.fix
    assert judge_fully(alerted(10_000)).warnings == ()


@pytest.mark.parametrize("region", ["us-gov-west-1", "cn-north-1"])
def test_a_region_of_another_partition_has_no_alert(region: str) -> None:
    found = [one for one in judge_fully(alerted(1, region=region)).problems if one.path.startswith("budget")]
    assert [(one.path, one.found) for one in found] == [("budget.alert", "")]
    assert f"is not available in {region}" in found[0].rule


def test_without_a_bill_and_without_an_alert_nothing_is_judged() -> None:
    broken = replace(alerted(0.01), system_types=("t3.nothing",))
    assert judge_fully(broken).cost is None
    assert [one for one in judge_fully(broken).problems if one.path.startswith("budget")] == []
    assert (judge_fully(setup()).problems, judge_fully(setup()).warnings) == ((), ())


@pytest.mark.parametrize(
    ("text", "right"),
    [
        *((text, True) for text in ("a.b+c@mail.example.co.uk", "o'neil@example.org", f"{'a' * 64}@b-c.com")),
        *((text, False) for text in ("ops", "@example.com", "ops@example", "a b@example.com", "a@b@example.com")),
        *((text, False) for text in ("ops@example.com\n", "ops@-a.com", "ops@example..com", "öps@a.com", "a@1.2.3.4")),
        # RFC 5321, 4.5.3.1: 64 and 254 characters.
        *((text, False) for text in (f"{'a' * 65}@example.com", f"a@{'b.' * 126}com")),
    ],
)
def test_an_e_mail_address_is_one_that_a_mail_provider_may_issue(text: str, right: bool) -> None:
    assert is_email(text) is right
