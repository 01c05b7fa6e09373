"""A check's finding: a verdict, one line, and the fix."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tandem.terminal import FAILED, FINE, USAGE

Verdict = Literal["ok", "warning", "stops", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the answer."""

    verdict: Verdict
    text: str
    fix: str = ""
    """A sentence or a command; empty if nothing is wrong."""


def ok(text: str) -> Finding:
    """Nothing is wrong."""
    return Finding(verdict="ok", text=text)


def warning(text: str, fix: str) -> Finding:
    """`up` can run, but something else may go wrong."""
    return Finding(verdict="warning", text=text, fix=fix)


def stops(text: str, fix: str) -> Finding:
    """`up` would be refused, fail, or wait until it times out."""
    return Finding(verdict="stops", text=text, fix=fix)


def unknown(why: str, fix: str = "") -> Finding:
    """The check could not run, so the result is unknown."""
    return Finding(verdict="unknown", text=why, fix=fix)


def parts_of(said: str) -> tuple[str, str]:
    """The problem and the fix of a message with both; else the whole message, and no fix."""
    text, stop, fix = said.partition(". ")
    return (text, fix) if stop else (said, "")


def exit_code(findings: Iterable[Finding]) -> int:
    """1 if something would stop `up`, else 2 if something could not be checked, else 0.

    1 takes precedence: an error must be fixed in any case, whatever the other checks would have found.
    """
    verdicts = {finding.verdict for finding in findings}
    if "stops" in verdicts:
        return FAILED
    return USAGE if "unknown" in verdicts else FINE
