"""An e-mail from AWS Budgets when costs pass a limit: what AWS offers, and whether the limit suits the stack."""

import math
import re
from collections.abc import Iterator, Mapping

from sharing.cost import HOURS_PER_MONTH, Cost, cost
from sharing.names import TAG_STACK
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
        rule = f"is less than the stack costs in a {unit} with every GPU pool parked: ${least:,.2f}"
        shorter = "; or, if you destroy the stack after use, `period: daily`" if alert.period == "monthly" else ""
        yield Problem("budget.alert.max-usd", f"{alert.max_usd:g}", rule, f"Write {enough}{shorter}.")


def find_warnings(setup: Setup, bill: Cost | None) -> Iterator[Problem]:
    """Warns about a limit that the stack passes without a pause, and about the tag that `scope: stack` needs."""
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
    # Prices of another region never decide about a budget, and a stack with a schedule does not run without a pause.
    if bill is None or bill.unpriced or setup.park is not None:
        return
    if alert.max_usd < (whole := HOURS[alert.period] * bill.usd_per_hour):
        rule = f"is less than a {UNITS[alert.period]} of this stack costs: ${whole:,.2f}"
        spent = f"{FIRST_PERCENT} % of it is spent after {_time_to_alert(alert, bill)}."
        fix = f"{spent} Park or destroy the stack before then."
        yield Problem("budget.alert.max-usd", f"{alert.max_usd:g}", rule, fix)


def _time_to_alert(alert: CostAlert, bill: Cost) -> str:
    """The time in which the stack spends the first percentage of the limit."""
    hours = alert.max_usd * FIRST_PERCENT / 100 / bill.usd_per_hour
    return f"{hours / 24:.1f} days" if alert.period == "monthly" else f"{hours:.1f} hours"
