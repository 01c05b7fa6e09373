"""The screen of `tandem doctor`: a line per finding, with its fix."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from sharing.printable import one_line
from tandem.deployed.aws.resources import counted
from tandem.doctor.case import Case
from tandem.doctor.checks import Answered
from tandem.doctor.finding import Finding, exit_code
from tandem.terminal import in_markup, open_console, say

SCHEMA_VERSION = 1
WORDS = {"ok": "ok", "warning": "warning", "stops": "error", "unknown": "not checked"}
STYLES = {"ok": "green", "warning": "yellow", "stops": "bold red", "unknown": "bold yellow"}
VERDICTS = {0: "ok", 1: "stops", 2: "unknown"}


def show(case: Case, answers: Sequence[Answered]) -> None:
    """Every finding, then the counts. Outside a terminal, each finding is one line. Checks that could not run for the
    same reason share one."""
    console = open_console()
    width = max(len(answered.check.title) for answered in answers)
    first: dict[str, str] = {}
    alike: dict[Finding, list[str]] = {}
    for answered in answers:
        alike.setdefault(answered.finding, []).append(answered.check.title)
    for answered in answers:
        finding = answered.finding
        others = alike[finding][1:] if finding.verdict == "unknown" else []
        if answered.check.title in others:
            continue
        found = f"{finding.found} (also for {', '.join(others)})" if others else finding.found
        word = f"[{STYLES[finding.verdict]}]{WORDS[finding.verdict]:<11}[/]"
        title = f"{answered.check.title:<{width}}"
        printed = first.setdefault(finding.fix, answered.check.title)
        remedy = finding.fix if printed == answered.check.title else f"see {printed}."
        if console.is_terminal:
            _show_wrapped(console, word, title, in_markup(found), one_line(remedy) if finding.fix else "")
            continue
        fix = f"[cyan]hint:[/] {in_markup(remedy)}" if finding.fix else ""
        stop = "." if fix and not found.endswith((".", "?")) else ""
        console.print(f"{word}  {title}  {in_markup(found)}{stop} {fix}".rstrip(), soft_wrap=True)
    console.print(_summary(case, answers), soft_wrap=not console.is_terminal)


def _show_wrapped(console: Console, word: str, title: str, found: str, fix: str) -> None:
    """A finding under its title. Its fix is folded at the left margin, so that addresses and commands stay whole."""
    row = Table.grid(padding=(0, 2))
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(word, title, found)
    console.print(row)
    if fix:
        say(console, 2, "hint:", fix, "cyan")


def _summary(case: Case, answers: Sequence[Answered]) -> str:
    counts = Counter(answered.finding.verdict for answered in answers)
    what = f"`pulumi up` for stack {in_markup(case.stack.name)}" if case.stack else "`pulumi up`"
    parts = []
    if counts["stops"]:
        parts.append(f"[bold red]{counted(counts['stops'], 'errors')}[/] would stop {what}")
    if counts["unknown"]:
        parts.append(f"[bold yellow]{counted(counts['unknown'], 'checks')}[/] could not run")
    if counts["warning"]:
        parts.append(f"[yellow]{counted(counts['warning'], 'warnings')}[/]")
    if not counts["stops"] and not counts["unknown"]:
        parts.insert(0, f"[green]No error[/] would stop {what}")
    more = "" if case.stack else " To check a stack, too, run `tandem doctor STACK`."
    return f"{'; '.join(parts)}.{more}"


def as_dict(case: Case, answers: Sequence[Answered]) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "stack": case.stack.name if case.stack else None,
        "account": case.account_id,
        "region": case.region or None,
        "verdict": VERDICTS[exit_code(answered.finding for answered in answers)],
        "checks": [
            {
                "check": answered.check.name,
                "title": answered.check.title,
                "verdict": answered.finding.verdict,
                "found": answered.finding.found,
                "fix": answered.finding.fix,
            }
            for answered in answers
        ],
    }
