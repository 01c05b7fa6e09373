"""The screen of `tandem leftovers`."""

from collections import Counter
from collections.abc import Sequence

from sharing.printable import one_line
from tandem.aws.resources import counted
from tandem.aws.session import Account
from tandem.leftovers.deletion import Outcome
from tandem.leftovers.inventory import Inventory
from tandem.terminal import in_markup, new_table, open_console, say

WORDS = {
    "gone already": "already deleted",
    "not agreed": "skipped",
    "left alone": "kept",
    "not gone yet": "still deleting",
}
"""The screen's words for outcomes; JSON and records keep theirs."""


def show(inventory: Inventory, account: Account, *, deleting: bool) -> None:
    """The leftovers, most expensive first, their cost per day, and how to delete them unless that comes next."""
    console = open_console()
    where = f"`{in_markup(inventory.owner.stack)}` in account {account.id} ({account.region})"
    if inventory.resources:
        table = new_table(f"Leftovers of {where}")
        table.add_column("kind")
        # Folding the rest leaves room at 80 columns for EC2's longest ids, which users copy.
        table.add_column("id", overflow="fold")
        table.add_column("details", overflow="fold", max_width=max(console.width - 62, 10))
        table.add_column("$/day", justify="right")
        for resource in inventory.resources:
            what = ", ".join(part for part in (resource.name, resource.detail) if part)
            usd = "?" if resource.usd_per_day is None else f"{resource.usd_per_day:.3f}"
            table.add_row(resource.kind, in_markup(resource.id), in_markup(what), usd)
        table.add_section()
        unknown = " of known prices" if any(resource.usd_per_day is None for resource in inventory.resources) else ""
        table.add_row(
            counted(len(inventory.resources), "resources"), "", f"total{unknown}", f"{inventory.usd_per_day:.3f}"
        )
        console.print(table)
        if not deleting:
            say(console, f"hint: run `tandem leftovers {inventory.owner.stack} --delete` to delete them")
    elif not inventory.unseen:
        console.print(f"[green]No leftovers[/] of {where}.", soft_wrap=not console.is_terminal)
    for title, why in inventory.unseen.items():
        say(console, f"warning: {title} could not be listed: {why}")


def outcome(outcome: Outcome, *, to_stderr: bool) -> None:
    """One outcome in a line."""
    console = open_console(stderr=to_stderr)
    style, why = ("yellow" if outcome.left else "green"), (f": {outcome.why}" if outcome.why else "")
    word = WORDS.get(outcome.what, outcome.what)
    say(console, f"{word} {one_line(outcome.resource.label + why)}", style, word=word, fold=console.is_terminal)


def counts(outcomes: Sequence[Outcome], *, to_stderr: bool) -> None:
    """How many resources a deletion deleted, and how many remain for each reason."""
    console, counts = open_console(stderr=to_stderr), Counter(WORDS.get(one.what, one.what) for one in outcomes)
    say(console, ", ".join(f"{count} {what}" for what, count in counts.items()), fold=console.is_terminal)
