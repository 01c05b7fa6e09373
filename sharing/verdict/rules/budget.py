"""The limits of `budget`: per hour at any moment, and per month with the schedule of `park` and its replacements."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sharing.cost.bill import HOURS_PER_MONTH, REPLACED_MINUTES, Cost, cost
from sharing.problems import LIMIT, Problem
from sharing.schedule.week import HOURS_PER_WEEK
from sharing.sections.config import StackConfig
from sharing.verdict.rules.offers import read_prices

PER_HOUR, PER_MONTH = "max-usd-per-hour", "max-usd-per-month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that decide about a stack; None for no limit."""

    usd_per_hour: float | None
    """Of the cost at any moment, so also while nodes are replaced."""
    usd_per_month: float | None
    """Of `Cost.usd_per_month`."""

    @property
    def is_set(self) -> bool:
        return self.usd_per_hour is not None or self.usd_per_month is not None

    def passed_by(self, bill: Cost) -> bool:
        """Whether the bill is above one of them."""
        return any(limit < usd for limit, usd in _compared(self, bill) if limit is not None)


def limits_of(config: StackConfig) -> Limits:
    """The limits that can decide: not those of 0 or less, and no limit per month that is never reached."""
    hour, month = config.budget.max_usd_per_hour, config.budget.max_usd_per_month
    if _contradict(hour, month):
        month = None
    return Limits(usd_per_hour=max(hour or 0, 0) or None, usd_per_month=max(month or 0, 0) or None)


def least_per_hour(bill: Cost) -> float:
    """The smallest limit per hour that is enough, also while nodes are replaced: USD, in whole cents."""
    return math.ceil(bill.replacing_usd_per_hour * 100) / 100


def least_per_month(bill: Cost) -> int:
    """The smallest limit per month that is enough, in whole USD."""
    return math.ceil(bill.usd_per_month)


def hours_within(limit: float, config: StackConfig, bill: Cost) -> int:
    """The hours per week that a limit per month pays for, if `park` stops the stack in the others; 0 if none."""
    if config.scale_to_zero.enabled:
        return 0
    parked = cost(config.without_gpu_nodes())
    rest = limit - parked.usd_per_hour * HOURS_PER_MONTH - bill.replaced_usd_per_month
    hours = rest / (bill.usd_per_hour - parked.usd_per_hour) / HOURS_PER_MONTH * HOURS_PER_WEEK
    return max(math.floor(hours), 0)


def month_of(bill: Cost) -> float:
    """What the limit per month counts, in the whole cents that the plan shows."""
    return round(bill.usd_per_month, 2)


def peak_limit(config: StackConfig, bill: Cost) -> float:
    """A limit per hour that suits the stack's limit per month: as far above the peak as that one is above the month."""
    assert config.budget.max_usd_per_month is not None, "asked for a stack with a limit per month"
    room = config.budget.max_usd_per_month / bill.usd_per_month
    return math.ceil(bill.replacing_usd_per_hour * max(room, 1) * 100) / 100


def find_wrong_limits(config: StackConfig, bill: Cost | None) -> Iterator[Problem]:
    """Finds limits that no stack can keep, or that contradict each other, with the value to write.

    `bill` is None where the cost is unknown.
    """
    hour, month = config.budget.max_usd_per_hour, config.budget.max_usd_per_month
    for key, limit in ((PER_HOUR, hour), (PER_MONTH, month)):
        if limit is not None and limit <= 0:
            fix = f"Write {_enough(key, bill)}, or remove the key."
            yield Problem(f"budget.{key}", _number(limit), "must be more than 0", fix, LIMIT)
    if hour is None or month is None or not _contradict(hour, month):
        return
    if bill is not None and not bill.unpriced and hour < bill.replacing_usd_per_hour:
        return  # `find_problems` asks for a limit per hour that suits both.
    rule = f"is more than {HOURS_PER_MONTH} hours at `{PER_HOUR}: {hour:g}` cost: ${hour * HOURS_PER_MONTH:,.2f}"
    most = math.floor(hour * HOURS_PER_MONTH * 100) / 100
    fix = f"Write `{PER_MONTH}: {_number(most)}`, or `{PER_HOUR}: {_consistent(month):.2f}`."
    yield Problem(f"budget.{PER_MONTH}", _number(month), rule, fix)


def find_problems(config: StackConfig, bill: Cost | None, cheaper: Sequence[str]) -> Iterator[Problem]:
    """Refuses a stack that passes its limits, with the values to write. `cheaper` are changes that would fit."""
    limits = limits_of(config)
    if bill is None or bill.unpriced:  # Prices of another region never decide about a budget.
        return
    if limits.usd_per_hour is not None and bill.replacing_usd_per_hour > limits.usd_per_hour:
        yield _over_per_hour(config, bill, limits.usd_per_hour, cheaper)
    if limits.usd_per_month is not None and month_of(bill) > limits.usd_per_month:
        yield _over_per_month(config, bill, limits.usd_per_month, cheaper)


def find_warnings(config: StackConfig, bill: Cost | None) -> Iterator[Problem]:
    """Warns of limits that cannot be checked, and of a peak that no limit holds down."""
    limits = limits_of(config)
    if bill is None:
        return
    if bill.unpriced:
        rule = f"is not checked: the price of {' and '.join(bill.unpriced)} in {config.region} is unknown"
        month = "" if limits.usd_per_month is None else _number(limits.usd_per_month)
        if limits.usd_per_hour is not None:
            fix = f"`{PER_MONTH}` is not checked either. " * bool(month) + read_prices(config.region)
            yield Problem(f"budget.{PER_HOUR}", f"{limits.usd_per_hour}", rule, fix, judged=False)
        elif month:
            yield Problem(f"budget.{PER_MONTH}", month, rule, read_prices(config.region), judged=False)
        return
    if (peak := warn_of_peak(config, bill)) and not limits.passed_by(bill):
        yield peak


def warn_of_peak(config: StackConfig, bill: Cost) -> Problem | None:
    """The warning about nodes that are replaced, under a limit per month alone.

    None where even a month of replacements would not pass the limit.
    """
    limits, peak = limits_of(config), bill.replacing_usd_per_hour
    if limits.usd_per_month is None or limits.usd_per_hour is not None or bill.unpriced:
        return None
    if peak * HOURS_PER_MONTH <= limits.usd_per_month:
        return None
    rule = (
        f"does not limit the peak while nodes are replaced: up to ${peak:.4f} per hour. The month includes "
        f"{REPLACED_MINUTES} minutes of it"
    )
    fix = f"Write `{PER_HOUR}: {least_per_hour(bill):.2f}` as well to limit the peak."
    return Problem(f"budget.{PER_MONTH}", _number(limits.usd_per_month), rule, fix)


def _contradict(hour: float | None, month: float | None) -> bool:
    """Whether the limit per month can never be reached: the limit per hour refuses every such stack before.

    The other way round, both limits work: the limit per hour is for the peak.
    """
    return hour is not None and month is not None and 0 < hour < month / HOURS_PER_MONTH


def _consistent(month: float) -> float:
    """The smallest limit per hour that lets a stack reach this limit per month, in whole cents."""
    return math.ceil(month / HOURS_PER_MONTH * 100) / 100


def _compared(limits: Limits, bill: Cost) -> tuple[tuple[float | None, float], ...]:
    return (limits.usd_per_hour, bill.replacing_usd_per_hour), (limits.usd_per_month, month_of(bill))


def _enough(key: str, bill: Cost | None) -> str:
    """The smallest limit that covers the bill."""
    if bill is None or bill.unpriced:
        return "a number such as 1.50" if key == PER_HOUR else "a number such as 400"
    return f"`{key}: {least_per_hour(bill):.2f}`" if key == PER_HOUR else f"`{key}: {least_per_month(bill)}`"


def _over_per_hour(config: StackConfig, bill: Cost, limit: float, cheaper: Sequence[str]) -> Problem:
    least = max(least_per_hour(bill), _consistent(config.budget.max_usd_per_month or 0))
    path, enough = f"budget.{PER_HOUR}", f"`budget.{PER_HOUR}: {least:.2f}`"
    if bill.week and bill.week.parked_usd_per_hour > limit:
        rule = f"is less than the stack costs even while it is parked: ${bill.week.parked_usd_per_hour:.4f} per hour"
        return Problem(path, f"{limit}", rule, f"Write {enough}. Only `pulumi destroy` ends all costs.")
    peak = f"up to ${bill.replacing_usd_per_hour:.4f}"
    deletes_first = [*_delete_first(config, limit)]
    if _contradict(limit, config.budget.max_usd_per_month):
        # No change that keeps this limit helps: the limit per month would be refused next.
        cheaper, deletes_first = (), []
    if bill.usd_per_hour <= limit:
        rule = f"is less than the stack costs while its nodes are replaced: {peak} per hour"
        return Problem(path, f"{limit}", rule, f"Write {'; or '.join([enough, *deletes_first, *cheaper])}.")
    rule = f"is less than the stack costs: ${bill.usd_per_hour:.4f} per hour, and {peak} while its nodes are replaced"
    return Problem(path, f"{limit}", rule, f"{_largest(bill)} Write {'; or '.join([*cheaper, enough])}.")


def _over_per_month(config: StackConfig, bill: Cost, limit: float, cheaper: Sequence[str]) -> Problem:
    path, enough = f"budget.{PER_MONTH}", f"`budget.{PER_MONTH}: {least_per_month(bill)}`"
    parked = cost(config.without_gpu_nodes())
    if month_of(parked) > limit:
        rule = f"is less than the stack costs in a month with every GPU pool parked: ${parked.usd_per_month:,.2f}"
        return Problem(path, _number(limit), rule, f"Write {enough}. Only `pulumi destroy` ends all costs.")
    how = " with its schedule" if config.park else " while its models run" * config.scale_to_zero.enabled
    rule = f"is less than the stack costs in a month{how}: ${bill.usd_per_month:,.2f}"
    hours = hours_within(limit, config, bill)
    parks = f"; or let `park` run the stack for at most {hours} hours per week" if hours else ""
    return Problem(path, _number(limit), rule, f"{_largest(bill)} Write {'; or '.join([*cheaper, enough])}{parks}.")


def _number(limit: float) -> str:
    """The limit as people write it: 420, 419.5 or 0.004."""
    return f"{limit:.10g}"


def _largest(bill: Cost) -> str:
    largest = max(bill.lines, key=lambda line: line.usd_per_hour)
    return f"The largest item is {largest.item} (${largest.usd_per_hour:.3f} per hour)."


def _delete_first(config: StackConfig, limit: float) -> Iterator[str]:
    """The replacement of node groups that stays within the limit per hour, if it helps."""
    groups = [pool for pool in config.pools if pool.provisioner == "node-group" and pool.replacement == "create-first"]
    others = [pool.changed(replacement="delete-first") if pool in groups else pool for pool in config.pools]
    if groups and cost(config.changed(pools=others)).replacing_usd_per_hour <= limit:
        yield " and ".join(f"`{pool.path}.replacement: delete-first`" for pool in groups)
