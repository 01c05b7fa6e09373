"""The processes that each trial kills, and when; the seed determines both."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tests.engine.emulated import EVERY_TYPE

Kind = Literal["pulumi", "providers", "everything", "hosts"]
"""The processes to kill. The providers run in the process of `tandem`; the hosts run the program's language."""
Operation = Literal["up", "switch", "destroy"]
EACH = 20
"""Moments for each kind."""
STACKS: Mapping[str, Mapping[str, Any]] = {"timeslice": EVERY_TYPE, "karpenter": {}}
"""Stacks, and the sections that differ from their files."""
SWITCH: Mapping[str, Mapping[str, Any]] = {"sharing": {"mode": "mps"}}
"""The change of a switch: both stacks use time-slicing. The switch also replaces the proof's Jobs."""
PACES = (0.0, 0.02, 0.1)
"""Seconds for a minute of the cloud. At 0 most calls have ended before a kill; at the others many are under way."""
OPERATIONS: tuple[Operation, ...] = ("up", "switch", "destroy")


@dataclass(frozen=True, slots=True)
class Trial:
    """One kill."""

    number: int
    kind: Kind
    operation: Operation
    stack: str
    moment: float
    """The fraction of the steps that the command takes without a kill. 0: the first process of the kind."""
    again: float | None
    """The moment at which the same command, run again, is also killed; it first repairs the first kill's damage."""
    pace: float
    at_once: bool
    """Whether the next command starts while processes may still be running."""
    goes_on: bool
    """Whether the command is run again before everything is destroyed."""

    def __str__(self) -> str:
        again = "" if self.again is None else f" and again at {self.again:.0%}"
        where = f"at {self.moment:.0%}{again} of {self.operation} {self.stack} (pace {self.pace})"
        return f"trial {self.number}: {self.kind} killed {where}"


def planned(seed: int) -> list[Trial]:
    """All trials; the kinds alternate, so that a part of them is a fair sample."""
    chance = random.Random(seed)
    kinds = get_args(Kind)
    trials = []
    for number in range(EACH * len(kinds)):
        kind = kinds[number % len(kinds)]
        turn = number // len(kinds)
        # No program runs in `destroy`, so there is no host to kill.
        operations = OPERATIONS[:2] if kind == "hosts" else OPERATIONS
        trials.append(
            Trial(
                number=number,
                kind=kind,
                operation=operations[turn % len(operations)],
                stack=chance.choice(tuple(STACKS)),
                moment=chance.uniform(0.01, 0.97) if turn >= len(operations) else 0.0,
                again=chance.uniform(0, 0.5) if turn % 4 == 3 else None,
                pace=chance.choice(PACES),
                at_once=chance.random() < 0.5,
                goes_on=chance.random() < 0.75,
            )
        )
    return trials
