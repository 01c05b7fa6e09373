"""An e-mail from AWS Budgets when costs pass a limit: what AWS offers, and whether the limit suits the stack."""

import math
from collections.abc import Iterator, Mapping

from sharing.aws.partitions import COMMERCIAL, partition_of
from sharing.cost.bill import Cost, cost
from sharing.names import TAG_STACK
from sharing.problems import Problem
from sharing.sections.budget import Alert, AlertPeriod
from sharing.sections.config import StackConfig
from sharing.verdict.features.feature import Feature

FIRST_PERCENT = 80
"""The percentage of the limit at which the first e-mail is sent; the next one is sent at 100 %."""
HOURS_PER_DAY = 24
UNITS: Mapping[AlertPeriod, str] = {"monthly": "month", "daily": "day"}
LAG = "AWS reports costs up to a day late. The e-mail warns; it stops nothing."
"""AWS updates Budgets "up to three times a day", typically "8-12 hours after the previous update" (AWS Cost Management
user guide, budgets-managing-costs), and at least once a day (budgets-best-practices)."""
ACTIVATE = (
    "aws ce update-cost-allocation-tags-status "
    f"--cost-allocation-tags-status TagKey={TAG_STACK},Status=Active --region us-east-1"
)
"""Activates the stack's tag for billing; only the account that pays may run it."""


def _alert_of(config: StackConfig) -> Alert:
    assert config.budget.alert, "the stack has the feature"
    return config.budget.alert


def _find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds addresses that are listed twice."""
    emails = _alert_of(config).emails
    for index, email in enumerate(emails):
        if email in emails[:index]:
            yield Problem(f"budget.alert.emails[{index}]", "", "is listed twice", "Keep one of the two.")


def _find_errors(config: StackConfig, bill: Cost | None) -> Iterator[Problem]:
    """Refuses an alert that AWS does not offer, and one that every deployed stack sets off."""
    alert = _alert_of(config)
    if partition_of(config.region) != COMMERCIAL:
        # GovCloud is billed to a standard account (AWS GovCloud user guide, "Billing and payment"), China in CNY;
        # botocore 1.44 has no endpoint of Budgets for GovCloud.
        rule = f"is not available in {config.region}: AWS Budgets counts USD only in accounts of the commercial regions"
        yield Problem("budget.alert", "", rule, "Remove it, and create a budget in the account that pays.")
    elif bill is not None and alert.max_usd < (least := _spent_while_parked(config, alert)):
        unit, enough = UNITS[alert.period], f"`max-usd: {math.ceil(least)}`"
        without = "while no model runs" if config.scale_to_zero.enabled else "with every GPU pool parked"
        rule = f"is less than the stack costs in a {unit} {without}: ${least:,.2f}"
        shorter = "; or, if you destroy the stack after use, `period: daily`" if alert.period == "monthly" else ""
        yield Problem("budget.alert.max-usd", f"{alert.max_usd:g}", rule, f"Write {enough}{shorter}.")


def _find_warnings(config: StackConfig, bill: Cost | None) -> Iterator[Problem]:
    """Warns about a limit that the stack passes, parked by its schedule or not, and about the tag of `scope: stack`."""
    alert = _alert_of(config)
    if alert.scope == "stack":
        rule = f"has no effect until {TAG_STACK} is an active cost allocation tag of the account that pays"
        fix = (
            f"Run `{ACTIVATE}` in that account, a day after the first `up`. It takes up to another day, and earlier "
            "costs do not count. Do this once for all stacks."
        )
        yield Problem("budget.alert.scope", "stack", rule, fix)
    if bill is None or bill.unpriced:  # Prices of another region never decide about a budget.
        return
    if alert.max_usd < (usd := _most_spent(config, alert, bill)):
        unit = "the longest day" if config.park and alert.period == "daily" else f"a {UNITS[alert.period]}"
        how = " with its schedule" if config.park else " while its models run" * config.scale_to_zero.enabled
        rule = f"is less than {unit} of this stack costs{how}: ${usd:,.2f}"
        yield Problem("budget.alert.max-usd", f"{alert.max_usd:g}", rule, _way_to_spend_less(config, alert, bill))


def _spent_while_parked(config: StackConfig, alert: Alert) -> float:
    parked = cost(config.without_gpu_nodes())
    return parked.usd_per_month if alert.period == "monthly" else HOURS_PER_DAY * parked.usd_per_hour


def _most_spent(config: StackConfig, alert: Alert, bill: Cost) -> float:
    """Dollars of the period that costs most. Months with a schedule are taken as alike, days are not."""
    if alert.period == "monthly":
        return bill.usd_per_month
    if config.park is None or bill.week is None:
        return HOURS_PER_DAY * bill.usd_per_hour
    running = config.park.times.busiest_day_hours
    return running * bill.week.running_usd_per_hour + (HOURS_PER_DAY - running) * bill.week.parked_usd_per_hour


def _way_to_spend_less(config: StackConfig, alert: Alert, bill: Cost) -> str:
    if config.park:
        return "Park the stack for longer, or write a higher limit."
    stop = "Destroy" if config.scale_to_zero.enabled else "Park or destroy"
    return f"{FIRST_PERCENT} % of it is spent after {_time_to_alert(alert, bill)}. {stop} the stack before then."


def _time_to_alert(alert: Alert, bill: Cost) -> str:
    """The time in which the running stack spends the first percentage of the limit."""
    hours = alert.max_usd * FIRST_PERCENT / 100 / bill.usd_per_hour
    return f"{hours / 24:.1f} days" if alert.period == "monthly" else f"{hours:.1f} hours"


def _describe(config: StackConfig) -> str:
    """The e-mail that AWS Budgets sends, and its delay."""
    alert = _alert_of(config)
    counted = "the AWS account" if alert.scope == "account" else "this stack"
    limit = f"${alert.max_usd:,.2f} per {UNITS[alert.period]}"
    forecast = ", and when AWS forecasts more than 100 %" * (alert.period == "monthly")
    return f"e-mail at {FIRST_PERCENT} % and 100 % of {limit} for {counted}{forecast}. {LAG}"


COST_ALERT = Feature(
    key="budget.alert",
    is_on=lambda config: config.budget.alert is not None,
    contradictions=_find_contradictions,
    bill_errors=_find_errors,
    bill_warnings=_find_warnings,
    word="Alert",
    line=_describe,
)
