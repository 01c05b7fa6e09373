"""What a check finds: a verdict, one line, and the fix beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tandem.terminal import FAILED, FINE, USAGE

Verdict = Literal["ok", "warning", "stops", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the answer."""

    verdict: Verdict
    found: str
    fix: str = ""
    """What to do, as a sentence or a command; empty where nothing is to be done."""


def ok(found: str) -> Finding:
    """Nothing is wrong."""
    return Finding(verdict="ok", found=found)


def warning(found: str, fix: str) -> Finding:
    """`up` is not stopped, but something else may go wrong."""
    return Finding(verdict="warning", found=found, fix=fix)


def stops(found: str, fix: str) -> Finding:
    """`up` would be refused, fail, or wait until it times out."""
    return Finding(verdict="stops", found=found, fix=fix)


def unknown(why: str, fix: str = "") -> Finding:
    """The check could not be made, so nothing is known."""
    return Finding(verdict="unknown", found=why, fix=fix)


def parts_of(said: str) -> tuple[str, str]:
    """What is wrong, and the fix, of a message that says both; else all of it, and nothing."""
    found, stop, fix = said.partition(". ")
    return (found, fix) if stop else (said, "")


def exit_code(findings: Iterable[Finding]) -> int:
    """1 where something would stop `up`, else 2 where something could not be checked, else 0.

    1 beats 2: what stops `up` must be fixed in any case, whatever the other checks would have found.
    """
    verdicts = {finding.verdict for finding in findings}
    if "stops" in verdicts:
        return FAILED
    return USAGE if "unknown" in verdicts else FINE
