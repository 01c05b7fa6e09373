"""`leftovers --delete`: asks, deletes, and reports each outcome on the screen and in a record."""

import datetime
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tandem.aws.resources import Key, Kind, counted
from tandem.aws.session import Account, explained
from tandem.leftovers import deletion, regions
from tandem.leftovers import screen as show
from tandem.leftovers.deletion import Clock, Deletion, Outcome
from tandem.leftovers.inventory import Inventory
from tandem.leftovers.record import Record
from tandem.terminal import CallError, complain, in_markup, open_console, print_line


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a deletion."""

    outcomes: list[Outcome]
    record: str
    """Path of its record."""

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"outcomes": [_as_dict(outcome) for outcome in self.outcomes], "record": self.record}


def run(account: Account, inventory: Inventory, *, yes: bool, to_stderr: bool) -> Done | None:
    """Asks and deletes; None if nothing was tried. Raises `CallError` if the record or the screen fails."""
    if not _confirm_destroyed(account, inventory):
        return None
    if not yes:
        complain("warning: delete leftovers only after `pulumi destroy`")
    agreed = [kind for kind in deletion.kinds_of(inventory.resources) if yes or _agrees(kind, inventory)]
    record = Record(inventory.owner.stack, account.region, datetime.datetime.now(datetime.UTC))
    print_line(f"Recording every deletion in {record.path}", sys.stderr)
    shown: set[Key] = set()
    failures: list[Exception] = []

    def say(lines: Callable[..., None], what: Any) -> None:
        # A closed pipe, a full disk or a bug of the screen must not stop a deletion half-way.
        if not failures:
            try:
                lines(what, to_stderr=to_stderr)
            except Exception as error:
                failures.append(error)

    with open_console(stderr=True).status("Deleting …") as status:

        def settle(outcome: Outcome) -> None:
            record.write(event="outcome", **_as_dict(outcome))
            # Otherwise rich would print the line where the status is.
            status.stop()
            shown.add(outcome.resource.key)
            say(show.outcome, outcome)
            status.start()

        going = Deletion(
            account=account,
            owner=inventory.owner,
            unseen=inventory.unseen,
            clock=Clock(),
            progress=lambda line: status.update(in_markup(line)),
            attempted=lambda resource: record.write(event="deleting", kind=resource.kind, id=resource.id),
            settled=settle,
        )
        try:
            going.run(inventory.resources, agreed)
        finally:
            # Also after Ctrl-C, a full disk, and a bug.
            status.stop()
            outcomes = list(going.outcomes.values())
            for key, outcome in going.outcomes.items():
                if key not in shown:
                    say(show.outcome, outcome)
            say(show.counts, outcomes)
    if failures:
        why = getattr(failures[0], "strerror", None) or f"unexpected {type(failures[0]).__name__}"
        raise CallError(f"the output cannot be written ({why}). Read the outcomes in {record.path}.")
    return Done(outcomes=outcomes, record=str(record.path))


def _confirm_destroyed(account: Account, inventory: Inventory) -> bool:
    """Whether the stack looks destroyed, or the user types its name."""
    with explained(account.region):
        signs = regions.standing(account, inventory)
    if not signs:
        return True
    print_line(f"{'; '.join(signs)}: the stack is probably running. Run `pulumi destroy` first.", sys.stderr)
    if not sys.stdin.isatty():
        complain("A script cannot delete a stack that may be running. Run `pulumi destroy`, or answer in a terminal.")
        return False
    if _ask(f"To delete it anyway, type the stack's name, {inventory.owner.stack}:") == inventory.owner.stack:
        return True
    print_line("Nothing was deleted.", sys.stderr)
    return False


def _agrees(kind: Kind, inventory: Inventory) -> bool:
    mine = [resource for resource in inventory.resources if resource.kind == kind.title]
    named = ", ".join(resource.id for resource in mine[:3]) + (", …" if len(mine) > 3 else "")
    shared = f"{kind.shared_service} is shared by all regions, so it stays while the stack has a cluster in any region."
    note = kind.note or (shared if kind.shared_service else "")
    question = f"Delete {counted(len(mine), kind.title)} ({named})? {note}".rstrip()
    return _ask(f"{question} [y/N]").lower() in ("y", "yes")


def _ask(question: str) -> str:
    """The answer from the terminal; empty at end of file. Asks on stderr, so that stdout holds only JSON."""
    print_line(question, sys.stderr, end=" ")
    return sys.stdin.readline().strip()


def _as_dict(outcome: Outcome) -> dict[str, str]:
    return {"kind": outcome.resource.kind, "id": outcome.resource.id, "outcome": outcome.what, "why": outcome.why}
