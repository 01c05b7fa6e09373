"""A verdict for people: a row for each check."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tandem.verify.checks import Check
from tandem.verify.verify import Verdict

WORDS = {True: ("ok", "green"), False: ("FAILED", "bold red"), None: ("–", "dim")}


def verdict(found: Verdict, console: Console | None = None) -> None:
    """Every promise in a row, and the first broken one explained."""
    from tandem.terminal import open_console

    console = console or open_console()
    for about in dict.fromkeys(check.about for check in found.checks):
        console.print(Text(about, "bold"))
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, min_width=6)
        table.add_column(overflow="fold", ratio=2)
        table.add_column(overflow="fold", ratio=3)
        for check in found.checks:
            if check.about == about:
                word, style = WORDS[check.held]
                table.add_row(Text(word, style), Text(check.what), Text(_found(check)))
        console.print(table)
    console.print()
    if found.broken:
        first = found.broken[0]
        told = f"The first broken promise: {first.about}, {first.what}: promised {first.promised}, found {first.found}."
        console.print(Text(told, "bold"), soft_wrap=not console.is_terminal)
        if first.fix:
            console.print(Text(first.fix), soft_wrap=not console.is_terminal)
    console.print(Text(_counted(found)), soft_wrap=not console.is_terminal)


def _found(check: Check) -> str:
    return check.found if check.held is not False else f"{check.found} (promised: {check.promised})"


def _counted(found: Verdict) -> str:
    held = sum(check.held is True for check in found.checks)
    left = sum(check.held is None for check in found.checks)
    parts = [f"{held} of {len(found.checks)} promises hold", f"{len(found.broken)} broken"]
    parts += [f"{left} not looked at"] if left else []
    return f"{found.stack} on {found.cluster}: {', '.join(parts)}."
