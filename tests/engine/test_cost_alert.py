"""The e-mail from AWS Budgets on the real engine: it comes, changes and goes with its key, and `destroy` deletes it."""

import json
from typing import Any

from sandbox.world import tokens
from tests.engine.emulated import Raise, Stack

MAIL = "ops@example.com"
ALERT = {"max-usd": 400, "emails": [MAIL]}


def changed(stack: Stack, alert: dict[str, Any] | None) -> dict[str, set[str]]:
    """What `up` changes after the stack file has this alert."""
    stack.configure({"budget": {"alert": alert}})
    return {operation: {*names} for operation, names in stack.comes_up().changed.items()}


def test_an_alert_comes_changes_and_goes(raised: Raise) -> None:
    stack = raised("dev")
    assert changed(stack, ALERT) == {"create": {"tandem-alert"}}
    [budget] = stack.entities(tokens.BUDGET)
    assert budget.inputs["limitAmount"] == "400.00"
    assert budget.inputs["tags"]["tandem:stack"] == "dev"
    assert "costFilters" not in budget.inputs
    assert {*budget.inputs["notifications"][0]["subscriberEmailAddresses"]} == {MAIL}
    assert stack.comes_up().changed == {}, "nothing has changed"
    state = json.dumps(stack.state())
    assert "tandem-alert-monthly" in state
    assert MAIL not in state, "addresses are encrypted"

    assert changed(stack, {**ALERT, "max-usd": 500, "emails": ["me@example.com"]}) == {
        "update": {"tandem-alert-monthly"}
    }
    [updated] = stack.entities(tokens.BUDGET)
    assert (updated.id, updated.inputs["limitAmount"]) == (budget.id, "500.00")

    assert changed(stack, {**ALERT, "period": "daily"}) == {
        "create": {"tandem-alert-daily"},
        "delete": {"tandem-alert-monthly"},
    }
    changed(stack, {**ALERT, "scope": "stack"})
    [tagged] = stack.entities(tokens.BUDGET)
    assert tagged.inputs["costFilters"] == [{"name": "TagKeyValue", "values": ["user:tandem:stack$dev"]}]

    assert changed(stack, None) == {"delete": {"tandem-alert"}}
    assert stack.entities(tokens.BUDGET) == []
    changed(stack, ALERT)
    stack.goes_down()
