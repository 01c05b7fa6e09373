"""The screen of `tandem verify`: a row for each check."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tandem.terminal import open_console, say
from tandem.verify.checks import Check
from tandem.verify.verify import Verdict

WORDS = {True: ("ok", "green"), False: ("failed", "bold red"), None: ("–", "dim")}


def verdict(verdict: Verdict, console: Console | None = None) -> None:
    """Every check in a row, and the first failed one explained."""
    console = console or open_console()
    for number, about in enumerate(dict.fromkeys(check.about for check in verdict.checks)):
        if number:
            console.print()
        console.print(Text(about, "bold"))
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, min_width=6)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for check in verdict.checks:
            if check.about == about:
                word, style = WORDS[check.held]
                table.add_row(Text(word, style), Text(check.what), Text(_found(check)))
        console.print(table)
    console.print()
    if verdict.broken:
        first = verdict.broken[0]
        text = f"{first.about}, {first.what}: expected {first.expected}, found {first.found}"
        say(console, f"error: {text}")
        if first.fix:
            say(console, f"hint: {first.fix}")
    word, style = ("passed:", "green") if verdict.holds else ("failed:", "bold red")
    say(console, f"{word} {_counted(verdict)}", style, word=word, fold=console.is_terminal)


def _found(check: Check) -> str:
    return check.found if check.held is not False else f"{check.found} (expected: {check.expected})"


def _counted(verdict: Verdict) -> str:
    held = sum(check.held is True for check in verdict.checks)
    left = sum(check.held is None for check in verdict.checks)
    parts = [f"{held} of {len(verdict.checks)} checks passed", f"{len(verdict.broken)} failed"]
    parts += [f"{left} not checked"] if left else []
    return f"{verdict.stack} on {verdict.cluster}: {', '.join(parts)}"
