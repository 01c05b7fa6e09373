"""One trial: kills a command, follows the advice of `status` word for word, and checks every resource."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.emulated import Stack
from tests.kills.bases import VERBS, Base, Made, entities_in, made_in
from tests.kills.killing import HangError, advised, call, follow, kill_in_the_middle
from tests.kills.trials import SWITCH, Trial

ROUNDS = 4
"""How often `status` may name commands, and how often `destroy` may run again."""


@dataclass
class Record:
    """The outcome of a trial."""

    killed: bool = False
    followed: list[str] = field(default_factory=list)
    """The commands that `status` named."""
    faults: list[str] = field(default_factory=list)
    failed: int = 0
    """How often `destroy` had to be run again."""
    said: list[str] = field(default_factory=list)
    """The output of the commands, to find the reason of a fault."""

    def run(self, what: str, answer: tuple[int, str]) -> None:
        """Notes a command; one that fails is a fault."""
        code, said = answer
        self.said.append(f"$ {what} -> {code}\n{said}")
        if code:
            self.faults.append(f"`{what}` ends with exit code {code}")
        if "Traceback" in said:
            self.faults.append(f"`{what}` prints a traceback")


def attempt(trial: Trial, base: Base, folder: Path) -> Record:
    """Does the trial in `folder`."""
    record = Record()
    stack = base.stack.copied_to(folder)
    if trial.operation == "switch":
        stack.configure(SWITCH)
    verb, name = VERBS[trial.operation], trial.stack
    try:
        for moment in (trial.moment,) if trial.again is None else (trial.moment, trial.again):
            arguments = (verb, name, "--pace", str(trial.pace))
            record.killed |= kill_in_the_middle(trial, stack, arguments, int(moment * base.steps))
            record.said.append((stack.folder / "killed").read_text(encoding="utf-8", errors="replace"))
        agree(stack, record)
        if trial.operation == "destroy" and not trial.goes_on:
            comes_back(base.before, stack, record)
        elif trial.operation != "destroy" and trial.goes_on:
            comes_back(base.after, stack, record)
            record.faults += [f"made again: {kind} {entity}" for kind, entity in sorted(base.kept - entities_in(stack))]
        destroyed(stack, record)
        record.faults += [f"left: {kind} {entity}" for kind, entity in sorted(entities_in(stack))]
    except HangError as error:
        record.faults.append(str(error))
    return record


def agree(stack: Stack, record: Record) -> None:
    """Follows the advice of `status` until state and cloud agree."""
    for _ in range(ROUNDS):
        code, said = call(stack, "status", stack.name)
        record.said.append(f"$ status -> {code}\n{said}")
        if code == 0:
            return
        commands = advised(said)
        if not commands:
            break
        for command in commands:
            record.followed.append(command)
            record.run(command, follow(stack, command))
    record.faults.append("`status` names nothing that makes state and cloud agree")


def comes_back(expected: Made, stack: Stack, record: Record) -> None:
    """`up` finishes the operation: everything exists once, and another `up` changes nothing."""
    record.run("up", call(stack, "up", stack.name))
    made = made_in(stack)
    record.faults += [f"duplicated or left: {kind} {name}" for kind, name in sorted((made - expected).elements())]
    record.faults += [f"lost: {kind} {name}" for kind, name in sorted((expected - made).elements())]
    record.run("up again", call(stack, "up", stack.name, "--", "--expect-no-changes"))
    record.run("status", call(stack, "status", stack.name))


def destroyed(stack: Stack, record: Record) -> None:
    """Destroys the stack; if that fails, follows `status` and runs the same command again."""
    for _ in range(ROUNDS):
        code, said = call(stack, "destroy", stack.name)
        if code == 0:
            break
        record.said.append(f"$ destroy -> {code}\n{said}")
        record.failed += 1
        agree(stack, record)
    record.run("destroy", (code, said))
