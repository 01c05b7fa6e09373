"""Deletes the leftovers of a stack in dependency order, and nothing that a running part may still need."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tandem.account import regions
from tandem.deployed.aws import leftovers
from tandem.deployed.aws.session import Account, explain, is_temporary
from tandem.deployed.aws.things import Kind, Owner, Thing, counted

What = Literal["deleted", "gone already", "not tried", "not agreed", "left alone", "refused", "failed", "not gone yet"]
DONE = ("deleted", "gone already")
LOOK_EVERY_SECONDS = 10.0
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one thing."""

    thing: Thing
    what: What
    why: str = ""

    @property
    def left(self) -> bool:
        """Whether it is still in the account."""
        return self.what not in DONE


@dataclass(frozen=True, slots=True)
class Clock:
    """Reads the time and waits."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def _ignore(_: object) -> None:
    """The default listener."""


@dataclass(slots=True)
class Deletion:
    """A running deletion. `outcomes` is correct at any moment, also after Ctrl-C."""

    account: Account
    owner: Owner
    unseen: Collection[str] = ()
    """Titles of the kinds that could not be searched: each counts as if one of them were left."""
    clock: Clock = field(default_factory=Clock)
    progress: Callable[[str], None] = _ignore
    """Gets a line of progress, which the next one replaces."""
    attempted: Callable[[Thing], None] = _ignore
    """Gets a thing before AWS is asked to delete it. Any exception stops the deletion."""
    settled: Callable[[Outcome], None] = _ignore
    """Gets each outcome once, when it is final. Any exception stops the deletion."""
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)
    """Things that AWS was asked to delete, whatever it answered, or is already deleting."""
    _accepted: set[tuple[str, str]] = field(default_factory=set)
    """Things that AWS has agreed to delete."""
    _holding: list[str] | None = None

    def run(self, things: Iterable[Thing], agreed: Sequence[Kind]) -> list[Outcome]:
        """Deletes the things of the agreed kinds; returns the outcome of every thing."""
        everything = list(things)
        titles = [kind.title for kind in agreed]
        for thing in everything:
            if thing.kind == leftovers.OTHER:
                self._note(thing, "left alone", "tandem does not delete this kind")
            else:
                self._note(thing, "not tried" if thing.kind in titles else "not agreed")
        for kind in (kind for kind in leftovers.KINDS if kind in agreed):
            mine = [thing for thing in everything if thing.kind == kind.title]
            if mine and (obstacle := self._obstacle(kind)):
                for thing in mine:
                    self._settle(thing, "left alone", obstacle)
            else:
                self._delete_all(kind, mine)
        return list(self.outcomes.values())

    def _obstacle(self, kind: Kind) -> str:
        """Why this kind must stay for now; empty if nothing needs it."""
        unseen = [title for title in kind.after if title in self.unseen]
        if unseen:
            return f"{' and '.join(unseen)} could not be listed, and may need it"
        if kind.in_all_regions:
            if self._holding is None:
                # Now, not earlier: until here, a cluster may have been deleted in this region or created in another.
                self._holding = regions.holding(self.account, self.owner, self.progress)
            if self._holding:
                return f"IAM is shared by all regions, and {_some(self._holding)}"
        left = [
            outcome.thing.label
            for outcome in self.outcomes.values()
            if outcome.thing.kind in kind.after and outcome.left
        ]
        return f"{_some(left)} still exist{'s' if len(left) == 1 else ''}" if left else ""

    def _delete_all(self, kind: Kind, things: list[Thing]) -> None:
        """Deletes the things of a kind, and waits until all are deleted, up to the kind's limit."""
        begun = self.clock.now()
        waiting = things
        while waiting := [thing for thing in waiting if not self._advance(kind, thing)]:
            minutes = (self.clock.now() - begun) / 60
            if minutes >= kind.minutes:
                for thing in waiting:
                    self._give_up(thing, minutes)
                return
            self.progress(f"Waiting for {counted(len(waiting), kind.title)}: {minutes:.0f} of {kind.minutes} minutes")
            self.clock.sleep(LOOK_EVERY_SECONDS)

    def _advance(self, kind: Kind, thing: Thing) -> bool:
        """Advances a thing by one step; returns whether its outcome is final."""
        key = (thing.kind, thing.id)
        try:
            tags = kind.tags(self.account, thing)
        except Exception as error:
            return self._put_off(thing, error)
        if tags is None:
            return self._settle(thing, "deleted" if key in self._asked else "gone already")
        if key in self._accepted:
            return self._note(thing, "not gone yet")
        if not self.owner.owns(tags):
            return self._settle(thing, "refused", f"its tags are no longer those of stack {self.owner.stack}")
        if not thing.going:
            self.progress(f"Deleting {thing.label}")
            if key not in self._asked:
                self.attempted(thing)
            self._note(thing, "not gone yet", "AWS was asked to delete it")
        self._asked.add(key)
        try:
            if not thing.going:
                kind.delete(self.account, thing)
        except Exception as error:
            return self._put_off(thing, error)
        self._accepted.add(key)
        return self._note(thing, "not gone yet") if kind.slow else self._settle(thing, "deleted")

    def _put_off(self, thing: Thing, error: Exception) -> bool:
        """Notes why AWS did not comply; final if another look cannot help."""
        key, why = (thing.kind, thing.id), explain(error, self.account.region)
        if key in self._accepted or is_temporary(error):
            return self._note(thing, self.outcomes[key].what, why)
        return self._settle(thing, "failed", why)

    def _give_up(self, thing: Thing, minutes: float) -> None:
        key = (thing.kind, thing.id)
        said = self.outcomes[key].why
        if key in self._accepted:
            why = f"not finished after {minutes:.0f} minutes; AWS may still be deleting it"
            self._settle(thing, "not gone yet", f"{why}. Its last answer: {said}" if said else why)
        else:
            self._settle(thing, "failed", f"{said} (tried for {minutes:.0f} minutes)")

    def _settle(self, thing: Thing, what: What, why: str = "") -> bool:
        self._note(thing, what, why)
        self.settled(self.outcomes[thing.kind, thing.id])
        return True

    def _note(self, thing: Thing, what: What, why: str = "") -> bool:
        self.outcomes[thing.kind, thing.id] = Outcome(thing=thing, what=what, why=why)
        return False


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def kinds_of(things: Iterable[Thing]) -> list[Kind]:
    """The kinds of these things, in the order of deletion."""
    titles = {thing.kind for thing in things}
    return [kind for kind in leftovers.KINDS if kind.title in titles]
