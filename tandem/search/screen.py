"""The screen of `tandem choose`: the cheapest setups with their warnings, or why nothing fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from rich.console import Console

from sharing.aws.partitions import HOME_REGION
from sharing.cost.bill import REPLACED_MINUTES, Cost, cost
from sharing.hardware.spot_risk import reclaimed_part
from sharing.stack.config import StackConfig
from sharing.verdict.choices import By, Choice, Choices
from sharing.verdict.rules.budget import Limits, hours_within, least_per_hour, least_per_month, limits_of, warn_of_peak
from sharing.verdict.rules.offers import read_prices
from tandem.columns import PER_MILLION, SPEEDS, TOKENS_PER_S, Column, lay_out, price_cell, speed_cell
from tandem.search.base_stack import context_of
from tandem.terminal import count, in_words, open_console, say

MOST_DOUBTS = 4
MOST_TYPES = 3
BEST: dict[By, str] = {"price": "Cheapest", "tokens": "Fastest", "per-token": "Cheapest per token"}


@dataclass(frozen=True, slots=True)
class Row:
    """A setup in the table."""

    choice: Choice
    number: str
    """By which the user picks it; empty where nobody does."""
    letters: str
    """The warnings below the table."""


MONTH: Column[Row] = Column("$/month", lambda row: f"{row.choice.bill.usd_per_month:.0f}", True, 30)
REGION: Column[Row] = Column("region", lambda row: row.choice.config.region)
COLUMNS: tuple[Column[Row], ...] = (
    Column("", lambda row: row.number),
    Column("$/hour", lambda row: f"{row.choice.bill.usd_per_hour:.3f}", True),
    MONTH,
    REGION,
    Column("GPU nodes", lambda row: f"{row.choice.cell.nodes} × {row.choice.cell.instance.name}"),
    Column("mode", lambda row: row.choice.cell.way, importance=70),
    Column("capacity", lambda row: _capacity(row.choice)),
    Column(TOKENS_PER_S, lambda row: speed_cell(row.choice.cell.slowest_busy), True, 60),
    Column(PER_MILLION, lambda row: price_cell(row.choice.usd_per_million_tokens()), True, 50),
    Column("isolation", lambda row: row.choice.isolation, importance=20),
    Column("margin", lambda row: _margin(row.choice), True, 10),
    Column("", lambda row: row.letters),
)
"""From left to right; a narrow terminal lacks those with the least importance."""


def table(config: StackConfig, choices: Choices, most: int, *, numbered: bool = False) -> None:
    """The first `most` setups, or the nearest miss."""
    console = open_console()
    if not choices.fitting:
        _nothing(console, config, choices)
        return
    shown = choices.fitting[:most]
    tenants = config.models
    names = [served.model.name for served in tenants[:3]]
    models = in_words([*names, f"{len(tenants) - 3} more"] if len(tenants) > 3 else names)
    place = "by region" if choices.regions else f"in {config.region}"
    head = f"for {models}{context_of(config)}, {place}: {len(shown)} of {len(choices.fitting)}"
    say(console, f"{BEST[choices.by]} {head}", "bold", word=BEST[choices.by])
    doubts = _doubts(shown)
    rows = [
        Row(choice, str(number) * numbered, "".join(doubts[doubt] for doubt in choice.doubts))
        for number, choice in enumerate(shown, 1)
    ]
    # With a schedule, a month is not 730 hours.
    columns = [replace(each, importance=None) if each is MONTH and config.park else each for each in COLUMNS]
    columns = [each for each in columns if choices.regions or each is not REGION]
    lines, left_out = lay_out(columns, rows, console.width)
    for line in lines:
        say(console, line, "bold" if line is lines[0] else "", fold=False)
    if left_out:
        say(console, f"hint: a wider terminal also shows {in_words(left_out)}")
    oldest = min(shown, key=lambda choice: (bool(choice.bill.unpriced), choice.bill.price_date))
    month = ", a month with its schedule" * (config.park is not None)
    say(console, f"$ for the whole stack{month}; {_dates(oldest.bill, shown, choices)}", "bold", word="$")
    if any(choice.cell.slowest_busy for choice in shown):
        say(console, SPEEDS, "bold", word=TOKENS_PER_S)
    if risks := [choice.spot_risk for choice in shown if choice.spot_risk]:
        past = f"instances reclaimed in the month before {risks[0].date} (Spot Advisor)"
        say(console, f"spot %: {past}", "bold", word="spot %")
    for doubt, letter in [*doubts.items()][:MOST_DOUBTS]:
        say(console, f"{letter} {doubt}", "yellow", word=letter)
    _peak(console, config, shown[0])
    _unpriced(console, config, [*choices.fitting[most:], *choices.not_judged])


def _peak(console: Console, config: StackConfig, first: Choice) -> None:
    """What the first setup costs at most, where the budget is per month."""
    if warn_of_peak(config, first.bill):
        peak = f"up to ${first.bill.replacing_usd_per_hour:.3f} per hour while its nodes are replaced"
        reason = f"the first setup costs {peak}; a month includes {REPLACED_MINUTES} minutes of it."
        say(console, f"warning: {reason}")


def _dates(oldest: Cost, shown: Sequence[Choice], choices: Choices) -> str:
    """The origin of the prices, with the oldest date."""
    if choices.regions:
        date = f"{oldest.price_date} ({oldest.price_age}) or later"
        return f"GPU prices of each region, {date}; other prices of {HOME_REGION} where a region has none"
    several = len({choice.bill.price_date for choice in shown if not choice.bill.unpriced}) > 1
    return f"{oldest.price_basis} ({oldest.price_age}){' or later' * several}"


def _capacity(choice: Choice) -> str:
    """With the part of the spot instances that AWS reclaims per month."""
    if choice.cell.pool.capacity == "on-demand":
        return "on-demand"
    return f"spot {reclaimed_part([choice.spot_risk])}" if choice.spot_risk else "spot ? %"


def _margin(choice: Choice) -> str:
    tightest = choice.tightest
    return f"{tightest.room / (tightest.unit_mib if tightest.share_mib is None else tightest.share_mib):.0%}"


def _doubts(shown: Sequence[Choice]) -> dict[str, str]:
    """A letter for each warning about the rows."""
    doubts = dict.fromkeys(doubt for choice in shown for doubt in choice.doubts)
    return {doubt: chr(ord("a") + index % 26) for index, doubt in enumerate(doubts)}


def _nothing(console: Console, config: StackConfig, choices: Choices) -> None:
    nearest = choices.over_budget or choices.not_judged
    if choices.too_slow and not nearest:
        reason = f"no setup gives every model {choices.least_tokens_per_s:g} tokens/s while all are busy."
        say(console, f"error: {reason}{_fastest(choices.too_slow[0], limits_of(config))}")
        return
    if choices.regions and not choices.over_budget and (nearest or not choices.refused):
        price = "spot price" if choices.not_judged else "price"
        reason = f"no region has a known offer with a known {price} for these models."
        say(console, f"error: {reason} Name one with --region.")
        return
    if not nearest:
        refusal = choices.refusal
        miss = f"no GPU fits the models. Nearest: {choices.nearest_miss}"
        reason = f"these models cannot run: {refusal}" if refusal else miss
        say(console, f"error: {reason}")
        return
    limits = limits_of(config)
    hour = f"${limits.usd_per_hour:,.2f} per hour" if limits.usd_per_hour else ""
    bill = choices.over_budget[0].bill if choices.over_budget else None
    month = f"${limits.usd_per_month:,.{_digits(limits, bill)}f} per month" if limits.usd_per_month else ""
    least = choices.least_tokens_per_s
    fast = f" with {least:g} tokens/s of every model while all are busy" * (least > 0)
    reason = f"no setup{fast} fits within the budget of {' and '.join(filter(None, (hour, month)))}."
    if choices.over_budget:
        reason += _cheapest(choices.over_budget[0], limits, "is fast enough" if fast else "fits the models")
        if choices.too_slow and not _is_over_budget(choices.too_slow[0], limits):
            reason = f"{reason.removesuffix('.')}, or {_lower(choices.too_slow[0])}."
    say(console, f"error: {reason}")
    _unpriced(console, config, choices.not_judged)


def _fastest(nearest: Choice, limits: Limits) -> str:
    """The setup that comes closest to the speed that was asked for."""
    over = ", and raise the budget" * _is_over_budget(nearest, limits)
    return (
        f" The fastest has {speed_cell(nearest.cell.slowest_busy)}: {_named(nearest)}, for "
        f"${nearest.bill.usd_per_hour:.3f} per hour. Use a smaller model, or {_lower(nearest)}{over}."
    )


def _lower(nearest: Choice) -> str:
    speed = nearest.cell.tokens_per_s
    enough = floor(speed) if speed >= 10 else floor(speed * 10) / 10
    return f"lower --min-tokens-per-second to {enough}"


def _is_over_budget(choice: Choice, limits: Limits) -> bool:
    return replace(choice.cell.verdict, limits=limits).over_budget


def _named(choice: Choice) -> str:
    nodes = f"{choice.cell.nodes} × {choice.cell.instance.name} in {choice.config.region}"
    return f"{nodes}, {choice.cell.way}, {choice.cell.pool.capacity}"


def _cheapest(nearest: Choice, limits: Limits, what: str) -> str:
    """A setup that fits the models for more than the budget."""
    bill = nearest.bill
    costs, enough, or_else = [], [], ""
    if limits.usd_per_month is not None:
        month = f"${bill.usd_per_month:,.{_digits(limits, bill)}f} per month"
        costs.append(f"{month}{' with its schedule' * (bill.week is not None)}")
        if bill.usd_per_month > limits.usd_per_month:
            enough.append(f"{least_per_month(bill)}/month")
            if hours := hours_within(limits.usd_per_month, nearest.config, bill):
                or_else = f", or let `park` (`tandem init --hours`) run the stack for at most {hours} hours per week"
    if limits.usd_per_hour is not None:
        peak = f"up to ${bill.replacing_usd_per_hour:.3f} per hour while its nodes are replaced"
        costs.append(f"${bill.usd_per_hour:.3f} per hour, and {peak}")
        if bill.replacing_usd_per_hour > limits.usd_per_hour:
            enough.append(f"{least_per_hour(bill):.2f}")
            or_else = ""
            pools = [pool.changed(replacement="delete-first") for pool in nearest.config.pools]
            if not limits.passed_by(cost(nearest.config.changed(pools=pools))):
                or_else = ", or leave it out and set `gpu-nodes.replacement: delete-first` in the stack file"
    return (
        f" The cheapest setup that {what} is {_named(nearest)}: {'; '.join(costs)}. "
        f"Raise the budget to {' and '.join(enough)}{or_else}."
    )


def _digits(limits: Limits, bill: Cost | None) -> int:
    """Digits after the point of dollars per month: cents where whole dollars would look alike."""
    if bill is None or limits.usd_per_month is None:
        return 0
    return 2 * (round(limits.usd_per_month) == round(bill.usd_per_month))


def _unpriced(console: Console, config: StackConfig, left_out: Sequence[Choice]) -> None:
    """Setups that also fit the models, at an unknown price."""
    setups = [choice for choice in left_out if choice.bill.unpriced]
    types = list(dict.fromkeys(choice.cell.instance.name for choice in setups))
    if types:
        named = ", ".join(types[:MOST_TYPES]) + (f" and {len(types) - MOST_TYPES} more" * (len(types) > MOST_TYPES))
        reason = f"{count(len(setups), 'more setup')} not ranked: the prices of {named} in {config.region} are unknown."
        say(console, f"warning: {reason} {read_prices(config.region)}")
