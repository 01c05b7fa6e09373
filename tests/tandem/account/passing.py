"""A clock that only sleeping moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem.account.deletion import Clock, Deletion
from tandem.deployed.aws.leftovers import Inventory
from tandem.deployed.aws.session import Account


class Passing:
    """The clock, and what was said meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.said: list[str] = []
        self.at: dict[float, Callable[[], None]] = {}

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        for when in [when for when in self.at if when <= self.seconds]:
            self.at.pop(when)()

    def deletion(self, account: Account, found: Inventory, **more: Any) -> Deletion:
        clock = Clock(now=self.now, sleep=self.sleep)
        return Deletion(account, found.owner, found.unseen, clock=clock, progress=self.said.append, **more)
