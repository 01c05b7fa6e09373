"""The screen of `tandem choose`: the cheapest setups with their warnings, or why nothing fits."""

import math
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from sharing.choices import Choice, Choices
from sharing.cost import HOURS_PER_MONTH, Cost, cost
from sharing.offering_rules import read_prices
from sharing.setup import Setup
from tandem.terminal import count, has_room, hint_at_columns, in_words, line, open_console, say

MOST_DOUBTS = 4
MOST_TYPES = 3


def table(setup: Setup, found: Choices, most: int, *, unit: str, numbered: bool = False) -> None:
    """The first `most` setups, or the nearest miss; `unit` is that of the budget, `hour` or `month`."""
    console = open_console()
    if not found.fitting:
        _nothing(console, setup, found, unit)
        return
    shown = found.fitting[:most]
    tenants = setup.tenants
    names = [tenant.served.model.name for tenant in tenants[:3]]
    models = in_words([*names, f"{len(tenants) - 3} more"] if len(tenants) > 3 else names)
    say(console, 0, "Cheapest", f"setups for {models} in {setup.region}: {len(shown)} of {len(found.fitting)}", "bold")
    room = has_room(console)
    period, isolation = (f" {'$/week' if setup.park else '$/month':>7}", f"{'isolation':<9} ") if room else ("", "")
    line(
        console,
        f"{'$/hour':>8}{period}  {'GPU nodes':<20} {'mode':<10} {'capacity':<9} {isolation}{'margin':>6}",
        "bold",
    )
    doubts = _doubts(shown)
    for number, choice in enumerate(shown, 1):
        line(console, _row(choice, doubts, f"{number} " if numbered else "", room))
    hint_at_columns(console)
    oldest = min(shown, key=lambda choice: (bool(choice.bill.unpriced), choice.bill.price_date))
    week = ", a week with its schedule" * (setup.park is not None and room)
    say(console, 0, "$", f"for the whole stack{week}; {_dates(oldest.bill, shown)}", "bold")
    for doubt, letter in [*doubts.items()][:MOST_DOUBTS]:
        say(console, 0, letter, doubt, "yellow")
    _unpriced(console, setup, [*found.fitting[most:], *found.not_judged])


def _dates(oldest: Cost, shown: Sequence[Choice]) -> str:
    """The origin of the prices, with the oldest date."""
    several = len({choice.bill.price_date for choice in shown if not choice.bill.unpriced}) > 1
    return f"{oldest.price_basis} ({oldest.price_age}){' or later' * several}"


def _row(choice: Choice, doubts: dict[str, str], lead: str, room: bool) -> str:
    cell, bill, tightest = choice.cell, choice.bill, choice.tightest
    letters = "".join(doubts[doubt] for doubt in choice.doubts)
    usd = f"{lead}{bill.usd_per_hour:>{8 - len(lead)}.3f}"
    nodes = f"{cell.nodes} × {cell.instance.name}"
    limit = tightest.unit_mib if tightest.share_mib is None else tightest.share_mib
    # A month without its parked hours would be no bill that anybody gets.
    usd_per_period = f"{bill.usd_per_week:.2f}" if bill.week else f"{bill.usd_per_month:.0f}"
    period, isolation = (f" {usd_per_period:>7}", f"{choice.isolation:<9} ") if room else ("", "")
    return (
        f"{usd}{period}  {nodes:<20} {cell.way:<10} {cell.pool.capacity:<9} {isolation}{tightest.room / limit:>6.0%} "
        f"{letters}"
    )


def _doubts(shown: Sequence[Choice]) -> dict[str, str]:
    """A letter for each warning about the rows."""
    found = dict.fromkeys(doubt for choice in shown for doubt in choice.doubts)
    return {doubt: chr(ord("a") + index % 26) for index, doubt in enumerate(found)}


def _nothing(console: Console, setup: Setup, found: Choices, unit: str) -> None:
    if not found.over_budget and not found.not_judged:
        refusal = found.refusal
        nearest = f"no GPU fits the models. Nearest: {found.nearest_miss}"
        reason = f"these models cannot run: {refusal}" if refusal else nearest
        say(console, 0, "error:", reason, "bold red")
        return
    known = "is known to fit" if found.not_judged else "fits"
    reason = f"no setup {known} within the budget of {_dollars(setup.max_usd_per_hour or 0, unit)}."
    if found.over_budget:
        reason += _cheapest(found.over_budget[0], setup.max_usd_per_hour, unit)
    say(console, 0, "error:", reason, "bold red")
    _unpriced(console, setup, found.not_judged)


def _cheapest(nearest: Choice, limit: float | None, unit: str) -> str:
    """A setup that fits the models for more than the budget."""
    cell, bill = nearest.cell, nearest.bill
    pools = tuple(replace(pool, replacement="delete-first") for pool in nearest.setup.pools)
    fits = limit is not None and cost(replace(nearest.setup, pools=pools)).replacing_usd_per_hour <= limit
    or_else = ", or leave it out and set `gpu-nodes.replacement: delete-first` in the stack file" if fits else ""
    enough = f"{bill.least_budget:.2f}"
    if unit == "month":
        enough = f"{math.ceil(bill.replacing_usd_per_hour * HOURS_PER_MONTH)}/month"
    return (
        f" The cheapest setup that fits the models is {cell.nodes} × {cell.instance.name}, {cell.way}, "
        f"{cell.pool.capacity}: {_dollars(bill.usd_per_hour, unit, 3)}, and up to "
        f"{_dollars(bill.replacing_usd_per_hour, unit, 3)} while its nodes are replaced. "
        f"Raise the budget to {enough}{or_else}."
    )


def _dollars(usd_per_hour: float, unit: str, digits: int = 2) -> str:
    """A price per hour with that many digits after the point, or per month in whole dollars."""
    if unit == "month":
        return f"${usd_per_hour * HOURS_PER_MONTH:,.0f} per month"
    return f"${usd_per_hour:.{digits}f} per hour"


def _unpriced(console: Console, setup: Setup, left_out: Sequence[Choice]) -> None:
    """Setups that also fit the models, at an unknown price."""
    setups = [choice for choice in left_out if choice.bill.unpriced]
    types = list(dict.fromkeys(choice.cell.instance.name for choice in setups))
    if types:
        named = ", ".join(types[:MOST_TYPES]) + (f" and {len(types) - MOST_TYPES} more" * (len(types) > MOST_TYPES))
        reason = f"{count(len(setups), 'more setup')} not ranked: the prices of {named} in {setup.region} are unknown."
        say(console, 0, "warning:", f"{reason} {read_prices(setup.region)}", "yellow")
