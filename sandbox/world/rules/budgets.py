"""Rules of AWS Budgets."""

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.world import tokens
from sandbox.world.rules.rule import CHANGE, CREATE, Case, Rule, taken

API = "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/"
MOST_EMAILS = 10


def _notifications(case: Case) -> Sequence[Mapping[str, Any]]:
    return case.inputs.get("notifications") or ()


def _forecast_of_a_day(case: Case) -> str | None:
    kinds = [one.get("notificationType") for one in _notifications(case)]
    if case.inputs.get("timeUnit") != "DAILY" or "FORECASTED" not in kinds:
        return None
    return "Daily budgets do not support FORECASTED notifications."


def _many_addresses(case: Case) -> str | None:
    counts = [len(one.get("subscriberEmailAddresses") or ()) for one in _notifications(case)]
    if max(counts, default=0) <= MOST_EMAILS:
        return None
    return f"A notification can have up to {MOST_EMAILS} email subscribers (it has {max(counts)})."


SUBSCRIBERS = API + "API_budgets_NotificationWithSubscribers.html"
RULES: tuple[Rule, ...] = (
    Rule(
        (tokens.BUDGET,),
        CREATE,
        "DuplicateRecordException",
        API + "API_budgets_CreateBudget.html",
        taken("name", words="Error creating budget: {name} - the budget already exists."),
    ),
    # Reported of the API in github.com/JiRaska/open-bank-oss, pull request 226; AWS's reference does not have it.
    Rule(
        (tokens.BUDGET,), CHANGE, "InvalidParameterException", API + "API_budgets_Notification.html", _forecast_of_a_day
    ),
    Rule((tokens.BUDGET,), CHANGE, "CreationLimitExceededException", SUBSCRIBERS, _many_addresses),
)
