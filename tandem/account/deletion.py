"""Deletes what is left of a stack: in the order that works, only what is surely its own, on past failures."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

from tandem.account import leftovers, services
from tandem.account.session import Account, AccountError, reason
from tandem.account.things import Kind, Owner, Thing

What = Literal["deleted", "gone already", "not agreed", "refused", "failed", "not gone yet"]
DONE = ("deleted", "gone already")
LOOK_EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a thing."""

    thing: Thing
    what: What
    why: str = ""

    @property
    def left(self) -> bool:
        """Whether it is still in the account."""
        return self.what not in DONE


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, and how to let it pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class Deletion:
    """A deletion under way. `outcomes` is true at any moment, also after Ctrl-C."""

    account: Account
    owner: Owner
    clock: Clock = field(default_factory=Clock)
    tell: Callable[[str], None] = lambda line: None
    """Gets a line about what is being done."""
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def run(self, things: Iterable[Thing], agreed: Sequence[Kind]) -> list[Outcome]:
        """Deletes the things of the agreed kinds; says of every thing what became of it."""
        everything = list(things)
        for thing in everything:
            self._note(thing, "not agreed")
        for kind in (kind for kind in leftovers.KINDS if kind in agreed):
            mine = [thing for thing in everything if thing.kind == kind.title]
            for thing in mine:
                self.tell(f"{kind.title}: {thing.id}")
                self._delete(kind, thing)
            if kind.minutes:
                self._wait(kind, [thing for thing in mine if self._outcome(thing) == "not gone yet"])
        return list(self.outcomes.values())

    def _delete(self, kind: Kind, thing: Thing) -> None:
        try:
            tags = kind.tags(self.account, thing)
            if tags is None:
                return self._note(thing, "gone already")
            if not self.owner.owns(tags):
                return self._note(thing, "refused", f"its tags are not those of the stack {self.owner.stack} any more")
            if not thing.going:
                kind.delete(self.account, thing)
        except (ClientError, BotoCoreError, AccountError) as error:
            return self._note(thing, "failed", self._reason(error))
        return self._note(thing, "not gone yet" if kind.minutes else "deleted")

    def _wait(self, kind: Kind, waiting: list[Thing]) -> None:
        """Looks until all are gone, for as long as such a deletion takes at most."""
        begun = self.clock.now()
        while waiting:
            waiting = [thing for thing in waiting if not self._is_gone(kind, thing)]
            minutes = (self.clock.now() - begun) / 60
            if not waiting:
                break
            if minutes >= kind.minutes:
                for thing in waiting:
                    self._note(thing, "not gone yet", f"after {minutes:.0f} minutes; AWS may still be at it")
                break
            self.tell(f"waiting for {len(waiting)} of the {kind.title} to go: {minutes:.0f} of {kind.minutes} minutes")
            self.clock.sleep(LOOK_EVERY_SECONDS)

    def _is_gone(self, kind: Kind, thing: Thing) -> bool:
        try:
            gone = kind.tags(self.account, thing) is None
        except (ClientError, BotoCoreError, AccountError) as error:
            self._note(thing, "failed", f"deleted, but whether it is gone cannot be asked: {self._reason(error)}")
            return True
        if gone:
            self._note(thing, "deleted")
        return gone

    def _note(self, thing: Thing, what: What, why: str = "") -> None:
        self.outcomes[thing.kind, thing.id] = Outcome(thing=thing, what=what, why=why)

    def _outcome(self, thing: Thing) -> What:
        return self.outcomes[thing.kind, thing.id].what

    def _reason(self, error: Exception) -> str:
        return str(error) if isinstance(error, AccountError) else reason(error, self.account.region)


def standing(account: Account, things: Iterable[Thing]) -> list[str]:
    """Clusters of the stack that are up with nodes, or being made: signs that `destroy` has not run."""
    found = []
    for thing in things:
        if thing.kind != services.CLUSTERS.title:
            continue
        status, groups = thing.raw["status"], len(services.node_groups(account, thing.id))
        if status == "CREATING" or (groups and status in ("ACTIVE", "UPDATING")):
            found.append(f"{thing.id} is {status} with {groups} node group{'' if groups == 1 else 's'}")
    return found


def kinds_of(things: Iterable[Thing]) -> list[Kind]:
    """The kinds of the things, in the order of deletion."""
    titles = {thing.kind for thing in things}
    return [kind for kind in leftovers.KINDS if kind.title in titles]
