"""CostAlert: what AWS Budgets is asked for."""

from typing import Any

from components import CostAlert, CostAlertArgs
from sandbox.graph import Resource, holds_secret, plain
from sandbox.preview.program import run

BUDGET = "aws:budgets/budget:Budget"
MAIL = "ops@example.com"


def budget(**changed: Any) -> Resource:
    """The budget of an alert."""
    args = CostAlertArgs(**{"max_usd": 100, "emails": [MAIL], **changed})
    graph = run(lambda: CostAlert("limit", args), project="test", stack="test")
    [found] = graph.of_type(BUDGET)
    return found


def sent(found: Resource) -> list[tuple[str, float]]:
    for one in plain(found.inputs)["notifications"]:
        assert (one["comparisonOperator"], one["thresholdType"]) == ("GREATER_THAN", "PERCENTAGE")
        assert one["subscriberEmailAddresses"] == [MAIL]
    return [(one["notificationType"], one["threshold"]) for one in plain(found.inputs)["notifications"]]


def test_a_monthly_alert_also_warns_of_a_forecast() -> None:
    found = budget()
    assert sent(found) == [("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]
    wanted = {"budgetType": "COST", "timeUnit": "MONTHLY", "limitAmount": "100.00", "limitUnit": "USD"}
    assert {key: found.inputs[key] for key in wanted} == wanted
    assert "costFilters" not in found.inputs


def test_a_daily_alert_has_no_forecast() -> None:
    found = budget(period="daily", max_usd=4.5)
    assert sent(found) == [("ACTUAL", 80), ("ACTUAL", 100)]
    assert (found.inputs["timeUnit"], found.inputs["limitAmount"]) == ("DAILY", "4.50")
    assert budget(max_usd=0.01).inputs["limitAmount"] == "0.01"


def test_a_tag_filters_as_a_tag_of_a_user() -> None:
    """The format is that of the Terraform AWS provider's reference, `aws_budgets_budget`, "Cost Filter"."""
    found = budget(only_tagged={"tandem:stack": "dev"})
    assert found.inputs["costFilters"] == [{"name": "TagKeyValue", "values": ["user:tandem:stack$dev"]}]


def test_another_period_and_another_filter_are_another_budget() -> None:
    tagged = {"only_tagged": {"a": "b"}}
    names = [budget(**more).name for more in ({}, {"period": "daily"}, tagged, {"period": "daily", **tagged})]
    assert names == ["limit-monthly", "limit-daily", "limit-monthly-tagged", "limit-daily-tagged"]


def test_addresses_are_secret() -> None:
    found = budget()
    assert all(holds_secret(one["subscriberEmailAddresses"]) for one in found.inputs["notifications"])
    assert found.options["additionalSecretOutputs"] == ("notifications",)
