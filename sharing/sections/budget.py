"""The `budget` section of a stack file."""

from typing import Annotated, Literal

from pydantic import Field

from sharing.section import Email, Fix, Number, Section

MOST_EMAILS = 10
"""E-mail subscribers of one notification (AWS Budgets API reference, NotificationWithSubscribers)."""
LEAST_USD = 0.01
AlertPeriod = Literal["monthly", "daily"]
AlertScope = Literal["account", "stack"]
Limit = Annotated[Number, Field(allow_inf_nan=False, json_schema_extra={"exclusiveMinimum": 0})]
"""`sharing.verdict.rules.budget` refuses 0 and less: it knows the value to write."""


class Alert(Section):
    """An e-mail from AWS Budgets when costs pass a limit."""

    max_usd: Number = Field(
        ge=LEAST_USD,
        allow_inf_nan=False,
        examples=[400],
        description="Limit in USD. AWS sends e-mail at 80 % and 100 %, up to a day late, and stops nothing.",
    )
    emails: Annotated[list[Email], Field(min_length=1, max_length=MOST_EMAILS)] = Field(
        examples=[["ops@example.com"]],
        description="Up to 10 e-mail addresses. Pulumi's state stores them encrypted.",
    )
    period: AlertPeriod = Field(
        default="monthly",
        description="`monthly` or `daily`. Only a monthly alert also warns when AWS forecasts more than the limit.",
    )
    scope: AlertScope = Field(
        default="account",
        description="`account` counts everything in the AWS account; `stack` counts resources with the tag "
        "`tandem:stack`, once it is an active cost allocation tag.",
    )


class Budget(Section):
    """Limits for the cost of the stack."""

    alert: Alert | None = Field(
        default=None,
        examples=[{"max-usd": 400, "emails": ["ops@example.com"]}],
        description="E-mail from AWS Budgets, e.g. `{max-usd: 400, period: monthly, emails: [ops@example.com], scope: "
        "account}`.",
    )
    max_usd_per_hour: Annotated[Limit | None, Fix("Write a number such as 1.50, or remove the key.")] = Field(
        default=None,
        description="Maximum cost in USD per hour, also while nodes are replaced. Planning fails above it.",
    )
    max_usd_per_month: Annotated[Limit | None, Fix("Write a number such as 400, or remove the key.")] = Field(
        default=None,
        description="Maximum cost in USD per month of 730 hours, with the schedule of `park` and with the minutes in "
        "which nodes are replaced. Planning fails above it.",
    )
