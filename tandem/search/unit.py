"""A limit of the call that was probably meant per month: the number alone is one per hour."""

from sharing.cost.bill import HOURS_PER_MONTH
from sharing.verdict.choices import Choices
from tandem.arguments import Budget
from tandem.terminal import CallError

FAR = 20
"""A limit above 20 times the cheapest price would be of no use."""


class UnlikelyLimitError(CallError):
    """A number without a unit that is far above every price per hour."""


def require_likely(limit: Budget | None, choices: Choices) -> None:
    """Raises `UnlikelyLimitError` for a number alone that is far above the cheapest setup's price per hour."""
    prices = [choice.bill.replacing_usd_per_hour for choice in choices.fitting if not choice.bill.unpriced]
    if limit and limit.is_bare and prices and limit.usd > FAR * min(prices):
        number = f"{limit.usd:.10g}"
        raise UnlikelyLimitError(
            f"{number} per hour is ${limit.usd * HOURS_PER_MONTH:,.0f} per month. Did you mean {number}/month? "
            f"If not, write {number}/hour."
        )
