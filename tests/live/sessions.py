"""The stacks that are deployed for the questions, their steps, and their highest cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.live.cloud import DESTROYS, ENDING_SECONDS

RESERVE_HOURS = 0.75
"""The part of the time limit for the destroy: deleting a control plane and a NAT gateway takes 10 to 20 minutes."""
RETRY_HOURS = (DESTROYS - 1) * RESERVE_HOURS + (DESTROYS + 1) * ENDING_SECONDS / 3600
"""Time beyond a session's time limit: later attempts to destroy, each with the whole reserve. A command that runs out
of time is interrupted first, and has some minutes to end."""


@dataclass(frozen=True, slots=True)
class Step:
    """One `up`."""

    name: str
    sections: Mapping[str, Any]
    """Sections to write into the stack file before the step."""


@dataclass(frozen=True, slots=True)
class Session:
    """A stack that is deployed, taken through its steps, and destroyed."""

    name: str
    """The first stack file."""
    steps: tuple[Step, ...]


SESSIONS = {
    one.name: one
    for one in (
        Session(
            "timeslice",
            (
                Step("up", {}),
                Step("mps", {"sharing": {"mode": "mps"}}),
                Step("back", {"sharing": {"mode": "timeslice"}}),
                Step("volume", {"gpu-nodes": {"volume-gib": 110}}),
            ),
        ),
        Session("mig", (Step("up", {}),)),
        Session("karpenter", (Step("up", {}),)),
    )
}


class RefusedError(Exception):
    """The session must not begin."""


def longest_hours(hours: float) -> float:
    """How long a session with this time limit may run until the last attempt to destroy ends."""
    return hours + RETRY_HOURS


def check_cap(usd_per_hour: float, hours: float, max_usd: float) -> float:
    """The highest cost of a session, in dollars. Raises RefusedError for more than the cap, or too little time."""
    if hours <= RESERVE_HOURS:
        raise RefusedError(
            f"--hours {hours:g} leaves no time: {RESERVE_HOURS:g} h are for the destroy. Give more than that."
        )
    longest = longest_hours(hours)
    cost = usd_per_hour * longest
    if cost > max_usd:
        raise RefusedError(
            f"--max-usd {max_usd:g} is too low: ${usd_per_hour:.2f} per hour for {hours:g} h, "
            f"and {RETRY_HOURS:.1f} h of destroy attempts, is ${cost:.2f}. "
            "Raise --max-usd, or lower --hours."
        )
    return cost
