"""`leftovers --delete` without its command, with a clock that only sleeping advances."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from tandem.aws.resources import Kind, Resource
from tandem.aws.session import Account, connect
from tandem.leftovers import inventory
from tandem.leftovers.deletion import Clock, Deletion, Outcome
from tandem.leftovers.inventory import Inventory
from tests.rows import read_rows
from tests.tandem.aws.emulated import REGION

ORDER = {(row["first"], row["then"]) for row in read_rows(Path(__file__).with_name("order_of_deletion.csv"))}
"""Kinds of which the first must be deleted before the second."""


class Cleaning:
    """The account, the clock, and the progress messages."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.said: list[str] = []
        self.at: dict[float, Callable[[], Any]] = {}
        self.census: Callable[[], set[tuple[str, str]]] = set
        """Lists what exists; see `Creation.census`."""
        self.too_early: set[tuple[str, str]] = set()
        """Rows of `ORDER` of which the second was deleted while the first still existed."""

    @cached_property
    def account(self) -> Account:
        return connect(REGION)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        for when in [when for when in self.at if when <= self.seconds]:
            self.at.pop(when)()

    @property
    def clock(self) -> Clock:
        return Clock(now=self.now, sleep=self.sleep)

    def look(self) -> Inventory:
        return inventory.take_inventory(self.account, "timeslice")

    def resources(self) -> list[tuple[str, str]]:
        """Kind and id of each resource found."""
        return [(resource.kind, resource.id) for resource in self.look().resources]

    def delete(
        self, found: Inventory | None = None, agreed: Sequence[Kind] | None = None, resources: Iterable[Resource] = ()
    ) -> list[Outcome]:
        """Deletes the given resources, or those that exist now."""
        found, agreed = found or self.look(), inventory.KINDS if agreed is None else agreed
        mine = {(resource.kind, resource.id) for resource in found.resources}

        def attempted(resource: Resource) -> None:
            there = {kind for kind, _ in mine & self.census()}
            self.too_early |= {(first, then) for first, then in ORDER if then == resource.kind and first in there}

        made = Deletion(
            account=self.account,
            owner=found.owner,
            unseen=found.unseen,
            clock=self.clock,
            progress=self.said.append,
            attempted=attempted,
            settled=Mock(),
        )
        return made.run(resources or found.resources, agreed)
