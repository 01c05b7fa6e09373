"""The screen of `tandem choose`: the cheapest setups with their warnings, or why nothing fits."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

from rich.console import Console

from sharing.aws.partitions import HOME_REGION
from sharing.cost.bill import REPLACED_MINUTES, Cost, cost
from sharing.hardware.offerings import nearest_of, sells_gpus
from sharing.hardware.prices import spot
from sharing.hardware.spot_risk import reclaimed_part
from sharing.printable import counted
from sharing.sections.config import StackConfig
from sharing.verdict.choices import CLOSE, By, Choice, Choices, priced_types
from sharing.verdict.rules.budget import (
    PER_HOUR,
    PER_MONTH,
    Limits,
    hours_within,
    least_per_hour,
    least_per_month,
    limits_of,
    warn_of_peak,
)
from sharing.verdict.rules.offers import read_prices
from tandem.columns import NOTES, PER_MILLION, TOKENS_PER_S, Column, price_cell, print_table, speed_cell, speed_digits
from tandem.search.base_stack import context_of, models_of
from tandem.search.smaller import ALTERNATIVES, describe_rest
from tandem.terminal import hint_at_left_out, open_console, say, say_about

MOST_TYPES = 3
BEST: dict[By, str] = {"price": "Cheapest", "tokens": "Fastest", "per-token": "Cheapest per token"}
RANKED: dict[By, str] = {"price": "", "tokens": TOKENS_PER_S, "per-token": PER_MILLION}
"""The head of the column by which setups are ranked, where a narrow terminal could lack it."""
MEASURED = "*"
SPOT = "spot %"
MARGIN = "margin"


@dataclass(frozen=True, slots=True)
class Row:
    """A setup in the table."""

    choice: Choice
    number: str
    """By which the user picks it; empty where nobody does."""
    letters: str
    """The warnings below the table."""


HOUR: Column[Row] = Column("$/hour", lambda row: f"{row.choice.bill.usd_per_hour:.3f}", True)
MONTH: Column[Row] = Column("$/month", lambda row: f"{row.choice.bill.usd_per_month:.0f}", True)
REGION: Column[Row] = Column("region", lambda row: row.choice.config.region)
COLUMNS: tuple[Column[Row], ...] = (
    Column("", lambda row: row.number),
    HOUR,
    MONTH,
    REGION,
    Column("GPU nodes", lambda row: f"{row.choice.cell.nodes} × {row.choice.cell.instance.name}"),
    Column("mode", lambda row: row.choice.cell.way),
    Column(SPOT, lambda row: _capacity(row.choice)),
    Column(TOKENS_PER_S, lambda row: speed_cell(row.choice.cell.slowest_busy), True),
    Column(PER_MILLION, lambda row: price_cell(row.choice.usd_per_million_tokens()), True),
    Column("isolation", lambda row: row.choice.isolation),
    Column(MARGIN, lambda row: _margin(row.choice), True),
    Column("", lambda row: row.letters),
)
"""From left to right."""
LEAST = (MARGIN, MONTH.head, PER_MILLION, HOUR.head, "isolation", TOKENS_PER_S, "mode")
"""What a narrow terminal lacks first, but for prices that the user compares and what ranks the setups."""


def table(config: StackConfig, choices: Choices, most: int, *, numbered: bool = False) -> None:
    """The first `most` setups, or the nearest miss."""
    console = open_console()
    if not choices.fitting:
        say(console, f"error: {describe_nothing(config, choices)}")
        if choices.over_budget or (choices.not_judged and not choices.regions):
            _unpriced(console, config, choices)
        return
    shown = choices.fitting[:most]
    place = "by region" if choices.regions else f"in {config.region}"
    every = counted(len(choices.fitting), "setup")
    head = f"for {models_of(config)}{context_of(config)}, {place}: {len(shown)} of {every}"
    say_about(console, BEST[choices.by], f" {head}")
    doubts = _doubts(shown)
    rows = [Row(choice, str(number) * numbered, _letters(choice, doubts)) for number, choice in enumerate(shown, 1)]
    # With a schedule, a month is not 730 hours, and it is what counts.
    stays = {RANKED[choices.by], (MONTH if config.park else HOUR).head}
    columns = [each for each in COLUMNS if choices.regions or each is not REGION]
    left_out = print_table(console, columns, rows, [head for head in LEAST if head not in stays])
    hint_at_left_out(console, left_out)
    oldest = min(shown, key=lambda choice: (bool(choice.bill.unpriced), choice.bill.price_date))
    month = ", a month with its schedule" * (config.park is not None)
    say_about(console, "$", f" for the whole stack{month}; {_dates(oldest.bill, shown, choices)}")
    notes = [note for head, note in NOTES.items() if head not in left_out]
    if notes and any(choice.cell.slowest_busy for choice in shown):
        say(console, f"{'; '.join(notes)}.")
    if MARGIN not in left_out:
        say_about(console, MARGIN, ": what the model with the least room leaves free of its memory")
    if any(map(_is_measured, shown)):
        say_about(console, MEASURED, " a speed in this row is measured")
    if risks := [choice.spot_risk for choice in shown if choice.spot_risk]:
        day = datetime.date.fromisoformat(risks[0].date)
        past = f"reclaimed in the month before {day} (Spot Advisor, {(config.today - day).days:,} days ago)"
        say_about(console, SPOT, f": {past}")
    if choices.regions:
        rule = f"least spot risk within {CLOSE * 100:.0f} % of its best; of equals, one without a warning"
        say_about(console, "row", f": {rule}")
        _regions_without(console, choices)
    _just_too_slow(console, config, choices)
    for doubt, letter in doubts.items():
        say_about(console, f"{letter}:", f" {doubt}", "yellow")
    _peak(console, config, shown[0])
    if not choices.regions:
        _unpriced(console, config, choices)


def _regions_without(console: Console, choices: Choices) -> None:
    """The regions of whose prices the tables lack some or all."""
    types = {region: priced_types(region) for region in choices.regions}
    said = []
    if any(choice.cell.is_spot for choice in choices.fitting):
        without = sum(bool(kinds) and not any(spot(kind.name, at) for kind in kinds) for at, kinds in types.items())
        read = "`tandem prices --region REGION`, then `choose --region REGION --live-prices`"
        said += [f"spot prices unknown in {counted(without, 'region')}: run {read}"] if without else []
    unpriced = sum(not kinds and sells_gpus(region) for region, kinds in types.items())
    said += [f"{counted(unpriced, 'region')} without own prices left out"] if unpriced else []
    if said:
        say(console, "; ".join(said))


def _just_too_slow(console: Console, config: StackConfig, choices: Choices) -> None:
    """Setups that are left out, although their speed would be shown as the one that was asked for."""
    least = choices.least_tokens_per_s
    near = [
        choice
        for choice in choices.too_slow
        if round(choice.cell.tokens_per_s, speed_digits(choice.cell.tokens_per_s)) >= least
        and not _is_over_budget(choice, limits_of(config))
    ]
    if near:
        nearest = min(near, key=lambda choice: choice.rank("price"))
        # With one digit more than in the table.
        speed = _round_down(nearest.cell.tokens_per_s, speed_digits(nearest.cell.tokens_per_s) + 1)
        usd = nearest.bill.usd_per_hour
        left_out = f"{counted(len(near), 'setup')}, from ${usd:.3f} per hour with {speed}"
        say(console, f"left out just below {least:g} tokens/s: {left_out}")


def _round_down(tokens_per_s: float, digits: int) -> str:
    return f"{floor(tokens_per_s * 10**digits) / 10**digits:.{digits}f}"


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
    """The part of the spot instances that AWS reclaims per month, without its `%`: that is in the head."""
    if choice.cell.pool.capacity == "on-demand":
        return "on-demand"
    return reclaimed_part([choice.spot_risk]).removesuffix(" %") if choice.spot_risk else "?"


def _letters(choice: Choice, doubts: Mapping[str, str]) -> str:
    return MEASURED * _is_measured(choice) + "".join(doubts[doubt] for doubt in choice.doubts)


def _is_measured(choice: Choice) -> bool:
    return any(speed.measured for speed in choice.cell.speeds if speed)


def _margin(choice: Choice) -> str:
    tightest = choice.tightest
    return f"{tightest.room / (tightest.unit_mib if tightest.share_mib is None else tightest.share_mib):.0%}"


def _doubts(shown: Sequence[Choice]) -> dict[str, str]:
    """A letter for each warning about the rows."""
    doubts = dict.fromkeys(doubt for choice in shown for doubt in choice.doubts)
    return {doubt: chr(ord("a") + index) for index, doubt in enumerate(doubts)}


def describe_nothing(config: StackConfig, choices: Choices) -> str:
    """Why nothing fits, and the nearest setup: a sentence for an error."""
    nearest = choices.over_budget or choices.not_judged
    if choices.too_slow and not nearest:
        reason = f"no setup gives every model {choices.least_tokens_per_s:g} tokens/s while all are busy."
        return f"{reason}{_fastest(choices.too_slow[0], limits_of(config))}"
    if choices.regions and not choices.over_budget and (nearest or not choices.refused):
        price = "spot price" if choices.not_judged else "price"
        return f"no region has a known offer with a known {price} for these models. Name one with --region."
    if not nearest:
        refusal = choices.refusal
        if not refusal and (beside := nearest_of(choices.offered_elsewhere, config.region)):
            fitting = f"no GPU type that fits the models is offered in {config.region}"
            smaller = ", or a smaller model" * sells_gpus(config.region)
            return f"{fitting}. Use `--region {beside}`, the nearest region that has one{smaller}."
        miss = f"no GPU fits the models. Nearest: {choices.nearest_miss}"
        return f"these models cannot run: {refusal}" if refusal else miss
    limits = limits_of(config)
    bill = choices.nearest.bill if choices.nearest else None
    least = choices.least_tokens_per_s
    fast = f" with {least:g} tokens/s of every model while all are busy" if least else ""
    reason = f"no setup{fast} fits within the budget of {describe_limits(limits, bill)}."
    if choices.nearest:
        reason += _cheapest(choices.nearest, limits, "is fast enough" if fast else "fits the models")
        if choices.too_slow and not _is_over_budget(choices.too_slow[0], limits):
            reason = f"{reason.removesuffix('.')}, or {_lower(choices.too_slow[0])}."
    return reason


def describe_limits(limits: Limits, bill: Cost | None = None) -> str:
    """A budget in words, with the digits that tell it from a bill above it."""
    hour = f"${limits.usd_per_hour:,.2f} per hour" if limits.usd_per_hour else ""
    month = f"${limits.usd_per_month:,.{_digits(limits, bill)}f} per month" if limits.usd_per_month else ""
    return " and ".join(filter(None, (hour, month)))


def _fastest(nearest: Choice, limits: Limits) -> str:
    """The setup that comes closest to the speed that was asked for."""
    over = ", and raise the budget" * _is_over_budget(nearest, limits)
    return (
        f" The fastest has {speed_cell(nearest.cell.slowest_busy)}: {_named(nearest)}, for "
        f"${nearest.bill.usd_per_hour:.3f} per hour. Use a smaller model, or {_lower(nearest)}{over}."
    )


def _lower(nearest: Choice) -> str:
    speed = nearest.cell.tokens_per_s
    return f"lower --min-tokens-per-second to {_round_down(speed, speed_digits(speed))}"


def _is_over_budget(choice: Choice, limits: Limits) -> bool:
    return replace(choice.cell.verdict, limits=limits).over_budget


def _named(choice: Choice) -> str:
    nodes = f"{choice.cell.nodes} × {choice.cell.instance.name} in {choice.config.region}"
    return f"{nodes}, {choice.cell.way}, {choice.cell.pool.capacity}"


def _cheapest(nearest: Choice, limits: Limits, what: str) -> str:
    """A setup that fits the models for more than the budget."""
    bill = nearest.bill
    costs, enough, or_else = [], {}, ""
    if limits.usd_per_month is not None:
        month = f"${bill.usd_per_month:,.{_digits(limits, bill)}f} per month"
        costs.append(f"{month}{' with its schedule' * (bill.week is not None)}")
        if bill.usd_per_month > limits.usd_per_month:
            enough[PER_MONTH] = f"{least_per_month(bill)}"
            if hours := hours_within(limits.usd_per_month, nearest.config, bill):
                or_else = f", or let `park` (`tandem init --hours`) run the stack for at most {hours} hours per week"
    if limits.usd_per_hour is not None:
        peak = f"up to ${bill.replacing_usd_per_hour:.3f} per hour while its nodes are replaced"
        costs.append(f"${bill.usd_per_hour:.3f} per hour, and {peak}")
        if bill.replacing_usd_per_hour > limits.usd_per_hour:
            enough[PER_HOUR] = f"{least_per_hour(bill):.2f}"
            or_else = ""
            pools = [pool.changed(replacement="delete-first") for pool in nearest.config.pools]
            if limits.usd_per_month is None and bill.usd_per_hour <= limits.usd_per_hour:
                or_else = f" or {least_per_month(bill)}/month, which counts replacements as minutes"
            if not limits.passed_by(cost(nearest.config.changed(pools=pools))):
                or_else += ", or leave it out and set `gpu-nodes.replacement: delete-first` in the stack file"
    if rest := describe_rest(nearest.config, limits):
        or_else += f", or take something cheaper: {ALTERNATIVES}"
    named = f"The cheapest setup that {what} is {_named(nearest)}: {'; '.join(costs)}."
    return f"{' ' * bool(rest)}{rest} {named} {_raise(enough)}{or_else}."


def _raise(enough: Mapping[str, str]) -> str:
    """What to write instead of the limits that are too low. The flag has one limit, in place of all of a file."""
    month = f"{enough[PER_MONTH]}/month" if PER_MONTH in enough else ""
    if len(enough) == 1:
        return f"Raise the budget to {month or enough[PER_HOUR]}"
    keys = " and ".join(f"`budget.{key}: {least}`" for key, least in enough.items())
    return f"Write {keys} in the stack file, or pass --budget {month}"


def _digits(limits: Limits, bill: Cost | None) -> int:
    """Digits after the point of dollars per month: cents where whole dollars would look alike."""
    if bill is None or limits.usd_per_month is None:
        return 0
    return 2 * (round(limits.usd_per_month) == round(bill.usd_per_month))


def _unpriced(console: Console, config: StackConfig, choices: Choices) -> None:
    """Setups that hold the models, at another region's price or an estimate, whether they are shown or not."""
    setups = [choice for choice in (*choices.fitting, *choices.not_judged) if choice.bill.unpriced]
    types = list(dict.fromkeys(choice.cell.instance.name for choice in setups))
    if not types:
        return
    others = types[MOST_TYPES:]
    named = ", ".join(types[:MOST_TYPES]) + (f" and {len(others)} more" if others else "")
    prices = f"the prices of {named} in {config.region} are unknown"
    if choices.not_judged:
        reason = f"{counted(len(setups), 'more setup')} not ranked: {prices}."
    elif len(setups) == len(choices.fitting):
        reason = f"the prices of all {len(setups)} setups in {config.region} are unknown."
    else:
        reason = f"{counted(len(setups), 'setup')} ranked last: {prices}."
    say(console, f"warning: {reason} {read_prices(config.region)}")
