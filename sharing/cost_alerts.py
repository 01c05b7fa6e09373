"""An e-mail from AWS Budgets when costs pass a limit: what AWS offers, and whether the limit suits the stack."""

import math
import re
from collections.abc import Iterator, Mapping

from sharing.cost import HOURS_PER_MONTH, Cost, cost
from sharing.names import TAG_STACK
from sharing.parking import HOURS_PER_WEEK
from sharing.partitions import COMMERCIAL, partition_of
from sharing.problems import Problem
from sharing.setup import AlertPeriod, CostAlert, Setup

MOST_EMAILS = 10
"""E-mail subscribers of one notification (AWS Budgets API reference, NotificationWithSubscribers)."""
LEAST_USD = 0.01
FIRST_PERCENT = 80
"""The percentage of the limit at which the first e-mail is sent; the next one is sent at 100 %."""
HOURS: Mapping[AlertPeriod, int] = {"monthly": HOURS_PER_MONTH, "daily": 24}
UNITS: Mapping[AlertPeriod, str] = {"monthly": "month", "daily": "day"}
LAG = "AWS reports costs up to a day late. The e-mail warns; it stops nothing."
"""AWS updates Budgets "up to three times a day", typically "8-12 hours after the previous update" (AWS Cost Management
user guide, budgets-managing-costs), and at least once a day (budgets-best-practices)."""
ACTIVATE = (
    "aws ce update-cost-allocation-tags-status "
    f"--cost-allocation-tags-status TagKey={TAG_STACK},Status=Active --region us-east-1"
)
"""Activates the stack's tag for billing; only the account that pays may run it."""

# RFC 5321, 4.5.3.1: at most 64 characters before the @, and 254 in total. Quoted local parts and addresses without a
# domain exist, but no mail provider issues them.
_EMAIL = re.compile(
    r"(?=.{3,254}$)[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}"
)


def is_email(text: str) -> bool:
    """Whether AWS can send e-mail to this address, as far as its form shows."""
    return _EMAIL.fullmatch(text) is not None


def find_problems(setup: Setup, bill: Cost | None) -> Iterator[Problem]:
    """Refuses an alert that AWS does not offer, and one that every deployed stack sets off."""
    alert = setup.alert
    if alert is None:
        return
    if partition_of(setup.region) != COMMERCIAL:
        # GovCloud is billed to a standard account (AWS GovCloud user guide, "Billing and payment"), China in CNY;
        # botocore 1.44 has no endpoint of Budgets for GovCloud.
        rule = f"is not available in {setup.region}: AWS Budgets counts USD only in accounts of the commercial regions"
        yield Problem("budget.alert", "", rule, "Remove it, and create a budget in the account that pays.")
    elif bill is not None and alert.max_usd < (least := HOURS[alert.period] * cost(setup.parked()).usd_per_hour):
        unit, enough = UNITS[alert.period], f"`max-usd: {math.ceil(least)}`"
        without = "with every GPU pool parked" if setup.scale_to_zero is None else "while no model runs"
        rule = f"is less than the stack costs in a {unit} {without}: ${least:,.2f}"
        shorter = "; or, if you destroy the stack after use, `period: daily`" if alert.period == "monthly" else ""
        yield Problem("budget.alert.max-usd", f"{alert.max_usd:g}", rule, f"Write {enough}{shorter}.")


def find_warnings(setup: Setup, bill: Cost | None) -> Iterator[Problem]:
    """Warns about a limit that the stack passes with its schedule, and about the tag that `scope: stack` needs."""
    alert = setup.alert
    if alert is None:
        return
    if alert.scope == "stack":
        rule = f"has no effect until {TAG_STACK} is an active cost allocation tag of the account that pays"
        fix = (
            f"Run `{ACTIVATE}` in that account, a day after the first `up`. It takes up to another day, and earlier "
            "costs do not count. Do this once for all stacks."
        )
        yield Problem("budget.alert.scope", "stack", rule, fix)
    if bill is None or bill.unpriced:  # Prices of another region never decide about a budget.
        return
    usd_per_hour = bill.usd_per_week / HOURS_PER_WEEK
    if alert.max_usd < (whole := HOURS[alert.period] * usd_per_hour):
        rule = f"is less than {_describe_spending(setup, alert)}: ${whole:,.2f}"
        spent = f"{FIRST_PERCENT} % of it is spent after {_time_to_alert(alert, usd_per_hour)}."
        stop = "Destroy the stack" if setup.scale_to_zero else "Park or destroy the stack"
        yield Problem("budget.alert.max-usd", f"{alert.max_usd:g}", rule, f"{spent} {stop} before then.")


def _describe_spending(setup: Setup, alert: CostAlert) -> str:
    unit = UNITS[alert.period]
    if setup.park:
        return f"an average {unit} of this stack costs with its schedule"
    return f"a {unit} of this stack costs{' while its models run' if setup.scale_to_zero else ''}"


def _time_to_alert(alert: CostAlert, usd_per_hour: float) -> str:
    """The time in which the stack spends the first percentage of the limit."""
    hours = alert.max_usd * FIRST_PERCENT / 100 / usd_per_hour
    return f"{hours / 24:.1f} days" if alert.period == "monthly" else f"{hours:.1f} hours"
