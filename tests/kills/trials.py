"""Which processes are killed, and when: all of it follows from the seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tests.engine.emulated import EVERY_TYPE

Kind = Literal["pulumi", "providers", "everything", "hosts"]
"""What is killed. The providers are in the process of `tandem`; the hosts are those of the program's language."""
Operation = Literal["up", "switch", "destroy"]
EACH = 20
"""Moments for each kind."""
STACKS: Mapping[str, Mapping[str, Any]] = {"timeslice": EVERY_TYPE, "karpenter": {}}
"""Stacks, and sections of theirs that differ from the files."""
SWITCH: Mapping[str, Mapping[str, Any]] = {"sharing": {"mode": "mps"}}
"""What a switch changes: both stacks share by time. The proof's Jobs are replaced with it."""
PACES = (0.0, 0.02, 0.1)
"""Seconds for a minute of the cloud. At 0 most calls have ended when a kill comes, at the others many are under way."""
OPERATIONS: tuple[Operation, ...] = ("up", "switch", "destroy")


@dataclass(frozen=True, slots=True)
class Trial:
    """One kill."""

    number: int
    kind: Kind
    operation: Operation
    stack: str
    moment: float
    """As a share of the steps that the command takes when nobody kills it. 0: the first process of the kind."""
    again: float | None
    """The moment at which the same command, run again, is killed, too; at first it mends what the first kill left."""
    pace: float
    at_once: bool
    """Whether the next command comes while processes may still be running."""
    goes_on: bool
    """Whether the command is run again before everything is destroyed."""

    def __str__(self) -> str:
        again = "" if self.again is None else f" and again at {self.again:.0%}"
        where = f"at {self.moment:.0%}{again} of {self.operation} {self.stack} (pace {self.pace})"
        return f"trial {self.number}: {self.kind} killed {where}"


def planned(seed: int) -> list[Trial]:
    """All trials; kinds take turns, so that a part of them is a fair sample."""
    chance = random.Random(seed)
    kinds = get_args(Kind)
    trials = []
    for number in range(EACH * len(kinds)):
        kind = kinds[number % len(kinds)]
        turn = number // len(kinds)
        # No program runs in `destroy`, so there is no host that could matter.
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
