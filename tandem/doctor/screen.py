"""The screen of `tandem doctor`: a line per finding, with its fix."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from tandem.aws.resources import counted
from tandem.doctor.case import Case
from tandem.doctor.checks import Answered
from tandem.doctor.finding import Finding, exit_code
from tandem.terminal import in_markup, open_console, say

SCHEMA_VERSION = 1
WORDS = {"ok": "ok", "warning": "warning", "stops": "error", "unknown": "not checked"}
MARKS = {"ok": "✓", "warning": "!", "stops": "✗", "unknown": "-"}
"""Before the words, on a terminal."""
STYLES = {"ok": "green", "warning": "yellow", "stops": "bold red", "unknown": "bold yellow"}
VERDICTS = {0: "ok", 1: "stops", 2: "unknown"}


def show(case: Case, answers: Sequence[Answered]) -> None:
    """Every finding, then the counts. Outside a terminal, each finding is one line. Checks that could not run for the
    same reason share one."""
    console = open_console()
    width = max(len(answered.check.title) for answered in answers)
    # None in a pipe, whose reader may look for lines with a word.
    marks = MARKS if console.is_terminal else {}
    room = max(map(len, WORDS.values())) + 2 * bool(marks)
    first: dict[str, str] = {}
    alike: dict[Finding, list[str]] = {}
    for answered in answers:
        alike.setdefault(answered.finding, []).append(answered.check.title)
    for answered in answers:
        finding = answered.finding
        others = alike[finding][1:] if finding.verdict == "unknown" else []
        if answered.check.title in others:
            continue
        text = f"{finding.text} (also for {', '.join(others)})" if others else finding.text
        word = f"{marks.get(finding.verdict, '')} {WORDS[finding.verdict]}".lstrip()
        title = f"{answered.check.title:<{width}}"
        printed = first.setdefault(finding.fix, answered.check.title)
        remedy = finding.fix if printed == answered.check.title else f"see {printed}."
        if console.is_terminal:
            _show_folded(console, finding.verdict, f"{word:<{room}}", title, text)
            if finding.fix:
                # At the left margin, so that commands stay whole.
                say(console, f"  hint: {remedy}")
            continue
        stop = "" if text.endswith((".", "?")) else "."
        fix = f"{stop} hint: {remedy}" if finding.fix else ""
        say(console, f"{word:<{room}}  {title}  {text}{fix}", fold=False)
    console.print(_summary(case, answers), soft_wrap=not console.is_terminal)


def _show_folded(console: Console, verdict: str, word: str, title: str, text: str) -> None:
    """A finding in its column, or at the left margin if a word of it, such as a URL, is longer than the column."""
    lead = len(word) + len(title) + 4
    fits = lead + max(map(len, text.split(" "))) <= console.width
    say(console, f"{word}  {title}  {text}", STYLES[verdict], word=word, hang=lead if fits else 2)


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
                "found": answered.finding.text,
                "fix": answered.finding.fix,
            }
            for answered in answers
        ],
    }
