"""Deletes the leftovers of a stack in dependency order, and nothing that a running part may still need."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tandem.aws.resources import Key, Kind, Owner, Resource, counted
from tandem.aws.session import Account, explain, is_temporary
from tandem.leftovers import inventory, regions

What = Literal["deleted", "gone already", "not tried", "not agreed", "left alone", "refused", "failed", "not gone yet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one resource."""

    resource: Resource
    what: What
    why: str = ""

    @property
    def left(self) -> bool:
        """Whether it is still in the account."""
        return self.what not in ("deleted", "gone already")


@dataclass(frozen=True, slots=True)
class Clock:
    """Reads the time and waits."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True, kw_only=True)
class Deletion:
    """A running deletion. `outcomes` is correct at any moment, also after Ctrl-C."""

    account: Account
    owner: Owner
    unseen: Collection[str]
    """Titles of the kinds that could not be searched: each counts as if one of them were left."""
    clock: Clock
    progress: Callable[[str], None]
    """Gets a line of progress, which the next one replaces."""
    attempted: Callable[[Resource], None]
    """Gets a resource before AWS is asked to delete it. Any exception stops the deletion."""
    settled: Callable[[Outcome], None]
    """Gets each outcome once, when it is final. Any exception stops the deletion."""
    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    _asked: set[Key] = field(default_factory=set)
    """Resources that AWS was asked to delete, whatever it answered, or is already deleting."""
    _accepted: set[Key] = field(default_factory=set)
    """Resources that AWS has agreed to delete."""
    _holding: list[str] = field(default_factory=list)
    """Where the stack may be running: asked before each resource of a shared service, until something is found."""

    def run(self, resources: Iterable[Resource], agreed: Sequence[Kind]) -> list[Outcome]:
        """Deletes the resources of the agreed kinds; returns the outcome of every resource."""
        everything = list(resources)
        titles = [kind.title for kind in agreed]
        for resource in everything:
            if resource.kind == inventory.OTHER:
                self._note(resource, "left alone", "tandem does not delete this kind")
            else:
                self._note(resource, "not tried" if resource.kind in titles else "not agreed")
        for kind in (kind for kind in inventory.KINDS if kind in agreed):
            mine = [resource for resource in everything if resource.kind == kind.title]
            if mine and (obstacle := self._obstacle(kind)):
                for resource in mine:
                    self._settle(resource, "left alone", obstacle)
            else:
                self._delete_all(kind, mine)
        return list(self.outcomes.values())

    def _obstacle(self, kind: Kind) -> str:
        """Why this kind must stay for now; empty if nothing needs it."""
        unseen = [title for title in kind.after if title in self.unseen]
        if unseen:
            return f"{' and '.join(unseen)} could not be listed, and may need it"
        if kind.shared_service and self._holding:
            return self._need_elsewhere(kind)
        left = [
            outcome.resource.label
            for outcome in self.outcomes.values()
            if outcome.resource.kind in kind.after and outcome.left
        ]
        return f"{_some(left)} still exist{'s' if len(left) == 1 else ''}" if left else ""

    def _delete_all(self, kind: Kind, resources: list[Resource]) -> None:
        """Deletes the resources of a kind, and waits until all are deleted, up to the kind's limit."""
        begun = self.clock.now()
        waiting = resources
        while waiting := [resource for resource in waiting if not self._advance(kind, resource)]:
            minutes = (self.clock.now() - begun) / 60
            if minutes >= kind.minutes:
                for resource in waiting:
                    self._give_up(resource, minutes)
                return
            self.progress(f"Waiting for {counted(len(waiting), kind.title)}: {minutes:.0f} of {kind.minutes} minutes")
            self.clock.sleep(10)

    def _advance(self, kind: Kind, resource: Resource) -> bool:
        """Advances a resource by one step; returns whether its outcome is final."""
        key = resource.key
        try:
            tags = kind.tags(self.account, resource)
        except Exception as error:
            return self._put_off(resource, error)
        if tags is None:
            return self._settle(resource, "deleted" if key in self._asked else "gone already")
        if key in self._accepted:
            return False
        if not self.owner.owns(tags):
            return self._settle(resource, "refused", f"its tags are no longer those of stack {self.owner.stack}")
        if kind.shared_service:
            # Now, not earlier: until here, a cluster may have been deleted in this region or created in another.
            self._holding = regions.holding(self.account, self.owner, self.progress)
            if self._holding:
                return self._settle(resource, "left alone", self._need_elsewhere(kind))
        if not resource.going:
            self.progress(f"Deleting {resource.label}")
            if key not in self._asked:
                self.attempted(resource)
            self._note(resource, "not gone yet", "AWS was asked to delete it")
        self._asked.add(key)
        try:
            if not resource.going:
                kind.delete(self.account, resource)
        except Exception as error:
            return self._put_off(resource, error)
        self._accepted.add(key)
        if not kind.slow:
            return self._settle(resource, "deleted")
        self._note(resource, "not gone yet")
        return False

    def _need_elsewhere(self, kind: Kind) -> str:
        return f"{kind.shared_service} is shared by all regions, and {_some(self._holding)}"

    def _put_off(self, resource: Resource, error: Exception) -> bool:
        """Notes why AWS did not comply; final if another look cannot help."""
        why = explain(error, self.account.region)
        if resource.key in self._accepted or is_temporary(error):
            self._note(resource, self.outcomes[resource.key].what, why)
            return False
        return self._settle(resource, "failed", why)

    def _give_up(self, resource: Resource, minutes: float) -> None:
        said = self.outcomes[resource.key].why
        if resource.key in self._accepted:
            why = f"not finished after {minutes:.0f} minutes; AWS may still be deleting it"
            self._settle(resource, "not gone yet", f"{why}. Its last error: {said}" if said else why)
        else:
            self._settle(resource, "failed", f"{said} (tried for {minutes:.0f} minutes)")

    def _settle(self, resource: Resource, what: What, why: str = "") -> bool:
        self._note(resource, what, why)
        self.settled(self.outcomes[resource.key])
        return True

    def _note(self, resource: Resource, what: What, why: str = "") -> None:
        self.outcomes[resource.key] = Outcome(resource=resource, what=what, why=why)


def _some(names: Sequence[str]) -> str:
    named, rest = names[:3], names[3:]
    return ", ".join(named) + (f" and {len(rest)} more" if rest else "")


def kinds_of(resources: Iterable[Resource]) -> list[Kind]:
    """The kinds of these resources, in the order of deletion."""
    titles = {resource.kind for resource in resources}
    return [kind for kind in inventory.KINDS if kind.title in titles]
