"""The e-mail from AWS Budgets, if the stack file has `budget.alert`."""

from collections.abc import Mapping
from typing import Any

import pulumi

from sharing.names import PROJECT, TAG_STACK
from stacks.base import Serving


def warn_of_costs(stack: Serving) -> Mapping[str, Any]:
    """The budget and its subscribers. It has no outputs."""
    from components import CostAlert, CostAlertArgs

    base, alert = stack.base, stack.base.plan.config.budget.alert
    assert alert, "the stack has the feature"
    CostAlert(
        f"{PROJECT}-alert",
        CostAlertArgs(
            max_usd=alert.max_usd,
            emails=alert.emails,
            period=alert.period,
            only_tagged={TAG_STACK: base.tags[TAG_STACK]} if alert.scope == "stack" else {},
            tags=base.tags,
        ),
        pulumi.ResourceOptions(providers=[base.provider]),
    )
    return {}
