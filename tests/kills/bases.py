"""Stacks to start trials from: each is brought up once, and every trial gets a copy of its folder."""

import json
import shutil
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sandbox.world import World
from tests.engine.emulated import Stack
from tests.kills.killing import call, steps
from tests.kills.trials import OPERATIONS, STACKS, SWITCH, Operation

STEPS = "steps.json"
Made = Counter[tuple[str, str]]
"""How often Pulumi has made something in the cloud, by type and logical name."""
VERBS: dict[Operation, str] = {"up": "up", "switch": "up", "destroy": "destroy"}


@dataclass(frozen=True, slots=True)
class Base:
    """A stack before an operation, and the result of the operation without a kill."""

    stack: Stack
    steps: int
    """How many beginnings and ends of operations the command prints."""
    before: Made
    after: Made
    """Resources that exist both before and afterwards."""
    kept: frozenset[tuple[str, str]]
    """Types and ids of the resources that exist both before and afterwards."""


class Bases:
    """All bases, in a folder; each is made at its first use and kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one = threading.Lock()
        """Trials run in threads, and a cloud can be opened once at a time."""

    def of(self, name: str, operation: Operation) -> Base:
        """The stack before an operation."""
        folder, before = self._folder / name, OPERATIONS.index(operation)
        with self._one:
            if not (folder / STEPS).is_file():
                _make(folder, name)
            steps_of = json.loads((folder / STEPS).read_text(encoding="utf-8"))
            stack, after = Stack(folder / str(before), name), Stack(folder / str(before + 1), name)
            kept = entities_in(stack) & entities_in(after)
            return Base(stack, steps_of[operation], made_in(stack), made_in(after), kept)


def _make(folder: Path, name: str) -> None:
    """A folder for each state: before `up`, after it, after the switch, after `destroy`."""
    shutil.rmtree(folder, ignore_errors=True)
    stack = Stack.new(folder / "0", name, STACKS[name])
    printed = {}
    for number, operation in enumerate(OPERATIONS, 1):
        stack = stack.copied_to(folder / str(number))
        if operation == "switch":
            stack.configure(SWITCH)
        code, said = call(stack, VERBS[operation], name)
        if code:
            raise SystemExit(f"{operation} of {name} fails without any kill:\n{said}")
        printed[operation] = steps(said.encode())
    (folder / STEPS).write_text(json.dumps(printed), encoding="utf-8")


def made_in(stack: Stack) -> Made:
    """The resources that Pulumi has made in the stack's cloud."""
    return Counter((entity.type, entity.name) for entity in stack.behind(World.entities) if entity.made_by == "pulumi")


def entities_in(stack: Stack) -> frozenset[tuple[str, str]]:
    """Types and ids of the resources that Pulumi has made there."""
    return frozenset(entity.key for entity in stack.behind(World.entities) if entity.made_by == "pulumi")
