"""The cheapest setups for people: a table, what is doubtful about its rows, or why nothing fits."""

from collections.abc import Sequence

from rich.console import Console

from sharing.choices import Choice, Choices
from sharing.setup import Setup
from tandem.show import Output
from tandem.show_modes import line, say

HEAD = f"{'$/hour':>8} {'$/month':>7}  {'GPU nodes':<20} {'mode':<10} {'capacity':<9} {'isolation':<9} {'margin':>6}"
MOST_WARNINGS = 4


def table(setup: Setup, found: Choices, most: int) -> None:
    """The first `most` setups, or the nearest miss."""
    console = Output(highlight=False)
    if not found.fitting:
        _nothing(console, setup, found)
        return
    shown = found.fitting[:most]
    tenants = setup.tenants
    models = " and ".join(tenant.served.model.name for tenant in tenants[:3])
    models += f" and {len(tenants) - 3} more" if len(tenants) > 3 else ""
    say(console, 0, "Cheapest", f"setups for {models} in {setup.region}: {len(shown)} of {len(found.fitting)}", "bold")
    line(console, HEAD, "bold")
    doubts = _doubts(shown)
    for choice in shown:
        line(console, _row(choice, doubts))
    say(console, 0, "$", f"is the whole stack. {shown[0].bill.price_origin}.", "bold")
    for doubt, letter in [*doubts.items()][:MOST_WARNINGS]:
        say(console, 0, letter, doubt, "yellow")


def _row(choice: Choice, doubts: dict[str, str]) -> str:
    cell, bill, tightest = choice.cell, choice.bill, choice.tightest
    letters = "".join(dict.fromkeys(doubts[warning.rule] for warning in cell.warnings))
    nodes = f"{cell.nodes} × {cell.instance.name}"
    limit = tightest.card_mib if tightest.share_mib is None else tightest.share_mib
    capacity = cell.pool.capacity if cell.is_spot or cell.pool.capacity == "on-demand" else "spot*"
    return (
        f"{bill.usd_per_hour:>8.3f} {bill.usd_per_month:>7.0f}  {nodes:<20} {cell.way:<10} {capacity:<9} "
        f"{choice.isolation:<9} {tightest.room / limit:>6.0%} {letters}"
    )


def _doubts(shown: Sequence[Choice]) -> dict[str, str]:
    """A letter for each warning of the rows."""
    rules = dict.fromkeys(warning.rule for choice in shown for warning in choice.cell.warnings)
    return {rule: chr(ord("a") + index % 26) for index, rule in enumerate(rules)}


def _nothing(console: Console, setup: Setup, found: Choices) -> None:
    if not found.over_budget:
        say(console, 0, "Nothing", f"holds the models. The nearest setup: {found.nearest_miss}", "red")
        return
    nearest = found.over_budget[0]
    cell, bill = nearest.cell, nearest.bill
    reason = (
        f"fits within ${setup.max_usd_per_hour:.2f} per hour. The cheapest setup that holds the models is "
        f"{cell.nodes} × {cell.instance.name}, {cell.way}, {cell.pool.capacity}: ${bill.usd_per_hour:.3f} per hour, "
        f"and up to ${bill.replacing_usd_per_hour:.3f} while its nodes are replaced. Raise the budget to that."
    )
    say(console, 0, "Nothing", reason, "red")
