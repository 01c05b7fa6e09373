"""Rules of AWS Budgets."""

from typing import Any

import pytest

from sandbox.world import tokens
from tests.sandbox.world_pieces import Account, refused


def notification(kind: str = "ACTUAL", addresses: int = 1) -> dict[str, Any]:
    return {"notificationType": kind, "subscriberEmailAddresses": [f"a{number}@b.org" for number in range(addresses)]}


@pytest.fixture
def account() -> Account:
    return Account()


def test_the_name_of_a_budget_is_unique(account: Account) -> None:
    account.make(tokens.BUDGET, name="n", timeUnit="MONTHLY")
    with refused("DuplicateRecordException"):
        account.make(tokens.BUDGET, name="n", timeUnit="MONTHLY")


@pytest.mark.real_world(
    behaviour="A daily budget has no forecast notification",
    source="github.com/JiRaska/open-bank-oss/pull/226",
)
def test_a_daily_budget_has_no_forecast(account: Account) -> None:
    both = [notification(), notification("FORECASTED")]
    with refused("InvalidParameterException", "FORECASTED"):
        account.make(tokens.BUDGET, timeUnit="DAILY", notifications=both)
    budget = account.make(tokens.BUDGET, timeUnit="MONTHLY", notifications=both)
    with refused("InvalidParameterException", "FORECASTED"):
        account.change(tokens.BUDGET, budget, timeUnit="DAILY")
    account.change(tokens.BUDGET, budget, timeUnit="DAILY", notifications=[notification()])


@pytest.mark.real_world(
    behaviour="A notification of a budget has at most 10 e-mail addresses",
    source="docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_NotificationWithSubscribers.html",
)
def test_a_notification_has_at_most_10_addresses(account: Account) -> None:
    account.make(tokens.BUDGET, timeUnit="DAILY", notifications=[notification(addresses=10)])
    with refused("CreationLimitExceededException", "11"):
        account.make(tokens.BUDGET, timeUnit="DAILY", notifications=[notification(), notification(addresses=11)])
