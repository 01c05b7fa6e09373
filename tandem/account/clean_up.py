"""`leftovers --delete`: asks, deletes, and says what became of each thing, on the screen and in a record."""

import datetime
import sys
from dataclasses import dataclass
from typing import Any

from tandem.account import deletion, regions
from tandem.account import screen as show
from tandem.account.deletion import Clock, Deletion, Outcome
from tandem.account.record import Record
from tandem.deployed.aws.leftovers import Inventory
from tandem.deployed.aws.session import Account, explained
from tandem.deployed.aws.things import Kind
from tandem.terminal import CallError, complain, in_markup, open_console, print_line


@dataclass(frozen=True, slots=True)
class Done:
    """What a deletion came to."""

    outcomes: list[Outcome]
    record: str
    """Path of its record."""

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"outcomes": [_as_dict(one) for one in self.outcomes], "record": self.record}


@dataclass(slots=True)
class Screen:
    """Says each outcome once. A screen that fails, on a full disk or by a fault of ours, stops no deletion."""

    to_stderr: bool
    failure: Exception | None = None

    def show(self, one: Outcome) -> None:
        """One line."""
        self._try(lambda: show.outcome(one, to_stderr=self.to_stderr))

    def counts(self, them: list[Outcome]) -> None:
        """The last line."""
        self._try(lambda: show.counts(them, to_stderr=self.to_stderr))

    def _try(self, write: Any) -> None:
        if self.failure is None:
            try:
                write()
            except Exception as error:
                self.failure = error


def run(account: Account, found: Inventory, *, yes: bool, to_stderr: bool) -> Done | None:
    """Asks and deletes; None when nothing was tried. Raises `CallError` when the record or the screen fails."""
    if not _is_meant(account, found):
        return None
    agreed = [kind for kind in deletion.kinds_of(found.things) if yes or _agrees(kind, found)]
    record, screen = Record(found.owner.stack, account.region, datetime.datetime.now(datetime.UTC)), Screen(to_stderr)
    print_line(f"Every deletion is written to {record.path}", sys.stderr)
    shown: set[tuple[str, str]] = set()
    with open_console(stderr=True).status("deleting …") as status:

        def settle(one: Outcome) -> None:
            record.write(event="outcome", **_as_dict(one))
            # Otherwise rich would print the line where the status is.
            status.stop()
            shown.add((one.thing.kind, one.thing.id))
            screen.show(one)
            status.start()

        going = Deletion(
            account,
            found.owner,
            unseen=found.unseen,
            clock=Clock(),
            progress=lambda line: status.update(in_markup(line)),
            attempted=lambda thing: record.write(event="deleting", kind=thing.kind, id=thing.id),
            settled=settle,
        )
        try:
            going.run(found.things, agreed)
        finally:
            # Also after Ctrl-C, a full disk, and an error of our own.
            status.stop()
            for key, one in going.outcomes.items():
                if key not in shown:
                    screen.show(one)
            screen.counts(list(going.outcomes.values()))
            record.close()
    if screen.failure is not None:
        why = getattr(screen.failure, "strerror", None) or f"unexpected {type(screen.failure).__name__}"
        raise CallError(f"the output cannot be written ({why}). Read what was done in {record.path}.")
    return Done(outcomes=list(going.outcomes.values()), record=str(record.path))


def _is_meant(account: Account, found: Inventory) -> bool:
    """Whether the stack seems to be destroyed, or the user writes its name."""
    with explained(account.region):
        signs = regions.standing(account, found)
    if not signs:
        return True
    _say(f"{'; '.join(signs)}: the stack seems to be up. This is for after `pulumi destroy`.")
    if not sys.stdin.isatty():
        complain("a stack that may be up is not deleted by a script: run `pulumi destroy`, or answer in a terminal.")
        return False
    if _ask(f"To delete it all the same, write its name, {found.owner.stack}: ") == found.owner.stack:
        return True
    _say("Nothing was deleted.")
    return False


def _agrees(kind: Kind, found: Inventory) -> bool:
    mine = [thing for thing in found.things if thing.kind == kind.title]
    named = ", ".join(thing.id for thing in mine[:3]) + (", …" if len(mine) > 3 else "")
    note = f" {kind.note}" if kind.note else ""
    question = f"For after `pulumi destroy`: delete {len(mine)} {kind.title} ({named})?{note} [y/N] "
    return _ask(question).lower() in ("y", "yes")


def _ask(question: str) -> str:
    """What is answered in the terminal; nothing at its end. On stderr, so that stdout stays what a machine reads."""
    print_line(question.rstrip(), sys.stderr, end=" ")
    return sys.stdin.readline().strip()


def _as_dict(one: Outcome) -> dict[str, str]:
    return {"kind": one.thing.kind, "id": one.thing.id, "outcome": one.what, "why": one.why}


def _say(line: str) -> None:
    print_line(line, sys.stderr)
