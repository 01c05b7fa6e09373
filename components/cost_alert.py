"""CostAlert: e-mail from AWS Budgets when costs pass a limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws

from components.arguments import Given, Options, check_arguments, check_tags, read_arguments
from sharing.names import TOKEN
from sharing.section import is_email
from sharing.sections.budget import LEAST_USD, MOST_EMAILS, AlertPeriod
from sharing.verdict.features.cost_alert import FIRST_PERCENT


@check_arguments
@dataclass(frozen=True, kw_only=True)
class CostAlertArgs:
    """Inputs of CostAlert.

    Raises `ValueError` for a value of the wrong type, an amount of less than a cent, no addresses or more than 10, an
    address that is not one, more than one tag to count, and tags that AWS refuses.
    """

    max_usd: float
    """Limit in USD per period."""
    emails: Sequence[pulumi.Input[str]]
    """One to 10 e-mail addresses. They are secrets in Pulumi's state and in its output."""
    period: AlertPeriod = "monthly"
    """`monthly` or `daily`. Only a monthly alert also warns when AWS forecasts that costs will pass the limit."""
    only_tagged: Mapping[str, str] = field(default_factory=dict)
    """Count only resources with this tag, e.g. `{"team": "ml"}`. The account that pays must have activated its key as a
    cost allocation tag. Defaults to the costs of the entire account.
    """
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on the budget."""

    def __post_init__(self) -> None:
        check_tags(self)
        if not self.max_usd >= LEAST_USD:
            raise ValueError(
                f"CostAlertArgs.max_usd is {self.max_usd}, but the minimum is {LEAST_USD}. Pass {LEAST_USD} or more."
            )
        if not 1 <= len(self.emails) <= MOST_EMAILS:
            rule = f"must have 1 to {MOST_EMAILS} addresses, not {len(self.emails)}"
            raise ValueError(f"CostAlertArgs.emails {rule}. Use a mailing list for more.")
        for index, email in enumerate(self.emails):
            # The message leaves the address out: it is personal data, and messages end up in logs.
            if isinstance(email, str) and not is_email(email):
                raise ValueError(f"CostAlertArgs.emails[{index}] is not an e-mail address. Pass ops@example.com, say.")
        if len(self.only_tagged) > 1:
            rule = f"must have at most one tag, not {len(self.only_tagged)}"
            raise ValueError(f"CostAlertArgs.only_tagged {rule}. Pass the tag that all of the resources have.")


class CostAlert(pulumi.ComponentResource):
    """E-mail from AWS Budgets when costs pass 80 % and 100 % of a limit. It stops nothing, and AWS charges nothing.

    AWS updates costs one to three times a day. Credits and refunds do not count: otherwise an account with
    credits would not be alerted to a forgotten GPU until they are used up.

    ```python
    from tandem import CostAlert, CostAlertArgs

    CostAlert("limit", CostAlertArgs(max_usd=100, emails=["ops@example.com"]))
    ```
    """

    budget_id: pulumi.Output[str]
    """ID of the budget: the account and the budget's name, with a colon in between."""

    def __init__(self, name: str, args: Given[CostAlertArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(CostAlertArgs, args, more)
        super().__init__(TOKEN.format("CostAlert"), name, None, opts)
        filters = [
            # A tag of a user, not one of AWS: `user:KEY$VALUE`. Without `user:`, the budget stays at $0
            # (hashicorp/terraform-provider-aws#39850).
            aws.budgets.BudgetCostFilterArgs(name="TagKeyValue", values=[f"user:{key}${value}"])
            for key, value in args.only_tagged.items()
        ]
        # A name for each period and filter, so that a change of these creates another budget. In place, the provider
        # would keep a filter that is removed (`cost_filter` is computed), and would make a budget daily before it
        # deletes its forecast (internal/service/budgets/budget.go).
        part = f"{args.period}-tagged" if filters else args.period
        budget = aws.budgets.Budget(
            f"{name}-{part}",
            budget_type="COST",
            time_unit=args.period.upper(),
            limit_amount=f"{args.max_usd:.2f}",
            limit_unit="USD",
            cost_filters=filters or None,
            cost_types=aws.budgets.BudgetCostTypesArgs(include_credit=False, include_refund=False),
            notifications=_notifications(args),
            tags={**args.tags},
            opts=pulumi.ResourceOptions(parent=self, additional_secret_outputs=["notifications"]),
        )
        self.budget_id = budget.id
        self.register_outputs({"budgetId": self.budget_id})


def _notifications(args: CostAlertArgs) -> "list[aws.budgets.BudgetNotificationArgs]":
    # AWS rejects a forecast for a daily budget, with InvalidParameterException.
    forecasts = [("FORECASTED", 100)] if args.period == "monthly" else []
    return [
        aws.budgets.BudgetNotificationArgs(
            comparison_operator="GREATER_THAN",
            notification_type=kind,
            threshold=percent,
            threshold_type="PERCENTAGE",
            subscriber_email_addresses=pulumi.Output.secret([*args.emails]),
        )
        for kind, percent in [("ACTUAL", FIRST_PERCENT), ("ACTUAL", 100), *forecasts]
    ]
