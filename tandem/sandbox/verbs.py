"""What `tandem sandbox` does: an emulated cloud that outlives the command in `.tandem/sandbox/`, and its verbs.

A folder for each stack: the emulated cloud (`cloud.json`), Pulumi's state, and private copies of the project's files.
"""

import errno
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.sandbox.pulumi import Pulumi, executable
from tandem.sandbox.report import as_report, repairs
from tandem.sandbox.state import Findings, Orphan, compare, lack_dependencies, name_of, restore_dependencies
from tandem.terminal import FAILED, FINE, SCHEMA_VERSION, CallError, print_json, print_line

if TYPE_CHECKING:
    from sandbox.graph import Graph
    from sandbox.world import World

HOME = Path(".tandem", "sandbox")
CLOUD = "cloud.json"
LEFT_OFF = "left-off"
"""The file that names the verb which left the stack incomplete; not there for a complete one."""
AT_ONCE = ("--yes", "--skip-preview")
"""The command was the answer to "are you sure": nothing here costs anything."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stack of the sandbox lives."""

    stack: str
    stack_file: Path
    project: Path
    """The folder of `Pulumi.yaml`."""

    @property
    def folder(self) -> Path:
        """All that the sandbox keeps of this stack."""
        return self.project.resolve() / HOME / self.stack


class Sandbox:
    """One stack in the emulated cloud, opened for one command."""

    def __init__(self, place: Place, world: "World", pulumi: Pulumi) -> None:
        self.place, self.world, self.pulumi = place, world, pulumi

    def prepare(self, *, anew: bool) -> None:
        """Makes ready what `pulumi` needs; `anew` takes over the stack file as it is now. Clears up after a crash."""
        taken_over = anew or not self.pulumi.has_stack_file
        self.pulumi.prepare(self.place.project, self.place.stack_file if taken_over else None)
        if self.pulumi.release():
            _say("the last command was ended in the middle: dropped its lock")

    def recover(self) -> int:
        """Ends what an earlier command left unfinished: what was created is adopted, what was not is forgotten."""
        found = self.findings()
        creations = [one for one in found.unfinished if one.operation == "creating"]
        if not creations:
            return FINE
        # Not `--import-pending-creates`: the engine marks these as importing, and forgets them (pulumi 3.260,
        # refresh.go pendingCreatesToImports; nothing in pkg/engine reads OperationTypeImporting).
        # `--non-interactive`: at a terminal it would ask about each of them first (operations/refresh.go).
        code = self.run("refresh", *AT_ONCE, "--clear-pending-creates", "--non-interactive")
        adopted = [(orphan, orphan.pending) for orphan in found.orphans if orphan.pending]
        for orphan, pending in adopted:
            if orphan.replaces:
                _say(f"{name_of(pending.urn)} was created beside the one that it replaces: deleting it")
                self.world.delete(orphan.thing.type, orphan.thing.id)
            elif code == FINE:
                _say(f"{name_of(pending.urn)} was created, but Pulumi never heard of it: taking it into the state")
                code = self.run(*pending.importing(orphan.thing.id))
        if absent := {name_of(one.urn) for one in creations} - {name_of(one.urn) for _, one in adopted}:
            _say(f"was being created and is not there: {', '.join(sorted(absent))}: forgetting about it")
        return code

    def order(self) -> None:
        """Lets `destroy` know what must go before what, also where something was imported: an import does not say."""
        if not lack_dependencies(self.pulumi.state()):
            return
        if graph := _graph(self.place):
            self.pulumi.edit_state(lambda deployment: restore_dependencies(deployment, graph))

    def run(self, verb: str, *options: str) -> int:
        """Runs a command of `pulumi` on the stack, and remembers an `up` or `destroy` until it has succeeded."""
        if verb in ("up", "destroy"):
            self.left_off = verb
        code = self.pulumi.run(verb, "--stack", self.place.stack, *options)
        if code < 0:
            print(flush=True)  # Pulumi's line of dots has no end
            _say(f"pulumi was killed by {signal.Signals(-code).name}")
        if code:
            return FAILED
        if verb in ("up", "destroy"):
            self.left_off = ""
        return FINE

    @property
    def left_off(self) -> str:
        """The verb that left the stack incomplete, or ""; it outlives a killed command."""
        with suppress(FileNotFoundError):
            return (self.place.folder / LEFT_OFF).read_text(encoding="utf-8")
        return ""

    @left_off.setter
    def left_off(self, verb: str) -> None:
        file = self.place.folder / LEFT_OFF
        if verb:
            file.write_text(verb, encoding="utf-8")
        else:
            file.unlink(missing_ok=True)

    def findings(self, graph: "Graph | None" = None) -> Findings:
        """State and cloud, compared."""
        found = compare(self.place.stack, self.pulumi.state(), self.world, graph)
        return replace(found, left_off=self.left_off)


@contextmanager
def opened(place: Place, *, pace: float) -> Iterator[Sandbox]:
    """Opens the stack's cloud and serves it; raises `NoPulumiError`, `sandbox.world.StateError`."""
    if not place.folder.is_dir():
        executable()  # without it, no folder is created

    from sandbox.world import World

    # Before all that takes seconds: it refuses where another command is at work.
    world = World(place.folder / CLOUD, seconds_per_minute=pace)
    try:
        from sandbox.engine import serving

        pulumi = Pulumi(place.folder, place.stack)
        pulumi.clear()
        with serving(world) as providers:
            pulumi.providers = providers
            yield Sandbox(place, world, pulumi)
    finally:
        world.close()


class RefusedError(CallError):
    """The emulated cloud does not do what was asked."""

    exit_code = FAILED


def command(verb: str, place: Place, extra: Sequence[str], *, pace: float, as_json: bool) -> int:
    """Runs one subcommand and returns its exit code; `extra` goes to `pulumi`."""
    from sandbox.world import InUseError, StateError

    try:
        with opened(place, pace=pace) as sandbox:
            return _for_programs(verb, sandbox, extra) if as_json else _VERBS[verb](sandbox, extra)
    except InUseError as error:
        raise CallError(
            f"the sandbox of {place.stack} is in use by process {error.holder}. "
            "Wait for its command to end, or press Ctrl-C there."
        ) from error
    except StateError as error:
        raise CallError(str(error)) from error
    except OSError as error:
        if message := _unwritable(place.folder, error):
            raise CallError(message) from error
        raise


def _unwritable(folder: Path, error: OSError) -> str:
    """What keeps the sandbox from writing its files, and the fix; "" for any other error."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"{folder} cannot be written ({error.strerror}). "
            "Copy the project to a folder that you can write, and run the command there."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder} is full. Free some space, and run the same command again."
    return ""


def _for_programs(verb: str, sandbox: Sandbox, extra: Sequence[str]) -> int:
    """Runs the verb with everything for people on stderr, and prints what there is afterwards as one object."""
    if verb == "delete":
        token, identity = extra
        _delete_thing(sandbox, token, identity)
        deleted = {"type": token, "id": identity}
        print_json({"schema_version": SCHEMA_VERSION, "stack": sandbox.place.stack, "deleted": deleted})
        return FINE
    if verb == "status":
        found = sandbox.findings(_graph(sandbox.place))
        print_json(as_report(sandbox.place.stack, found))
        return _code(found)
    sandbox.pulumi.stdout = sys.stderr.fileno()
    with redirect_stdout(sys.stderr):
        code = _VERBS[verb](sandbox, extra)
    found = sandbox.findings(_graph(sandbox.place))
    print_json(as_report(sandbox.place.stack, found))
    return code or (FINE if found.agree else FAILED)


def _up(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(anew=True)
    if code := sandbox.recover():
        return code
    found = sandbox.findings(_graph(sandbox.place))
    if found.orphans:
        # The engine would make each of them a second time.
        _say("the cloud has something that the state does not know: repair that first")
        _tell_orphans(found)
        return FAILED
    code = sandbox.run("up", *AT_ONCE, *extra)
    if code:
        _say(
            f"`tandem sandbox status {sandbox.place.stack}` says what is there. Run the same command again to continue."
        )
    return code


def _preview(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(anew=True)
    return sandbox.run("preview", *extra)


def _refresh(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(anew=False)
    if sandbox.findings().missing and not sandbox.left_off:
        sandbox.left_off = "refresh"
    return sandbox.recover() or sandbox.run("refresh", *AT_ONCE, *extra)


def _destroy(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(anew=False)
    code = sandbox.recover()
    if not code:
        sandbox.order()
        code = sandbox.run("destroy", *AT_ONCE, *extra)
    found = sandbox.findings()
    if found.resources:
        # Pulumi ends with 0 after Ctrl-C. With `--target` the rest is meant to stay.
        if not any(option.startswith("--target") for option in extra):
            sandbox.left_off = "destroy"
        again = f"tandem sandbox destroy {sandbox.place.stack}{' -- --refresh' if found.missing else ''}"
        _say(f"{found.resources} resources are still in the state. Run `{again}` to continue.")
    if found.orphans:
        _say(f"left in the cloud, and in nobody's state: {len(found.orphans)}")
        _tell_orphans(found)
    if found.resources or found.orphans:
        return FAILED
    _say("nothing is left: 0 resources in the state, 0 in the cloud")
    # Pulumi prints "run `pulumi stack rm dev`", which outside of the sandbox would remove the user's real stack.
    _say(f"to remove the stack as well, delete {sandbox.place.folder}. Do not run `pulumi stack rm`.")
    return code


def _status(sandbox: Sandbox, extra: Sequence[str]) -> int:
    found = sandbox.findings(_graph(sandbox.place))
    _say(f"{sandbox.place.stack}: {found.resources} resources in the state, {found.things} things in the cloud")
    for one in found.unfinished:
        _say(f"unfinished: {one.operation} {one.type} {name_of(one.urn)}")
    for orphan in found.orphans:
        _say(_orphan(orphan))
    named = {one.urn for one in found.unfinished}
    for lost in (one for one in found.missing if one.urn not in named):
        _say(f"in the state, but not in the cloud: {lost.type} {lost.name} ({lost.id})")
    if found.agree:
        _say("state and cloud agree")
    if found.left_off == "refresh":
        _say("the stack is incomplete: `refresh` removed things")
    elif found.left_off:
        _say(f"the stack is incomplete: the last `{found.left_off}` did not finish")
    if commands := repairs(sandbox.place.stack, found):
        _say("to continue, run in this order:" if len(commands) > 1 else "to continue, run:")
    for repair in commands:
        _say(f"  {repair}")
    return _code(found)


def _code(found: Findings) -> int:
    """Of `status`: 0 only where there is nothing to run."""
    return FINE if found.agree and not found.completes else FAILED


def _tell_orphans(found: Findings) -> None:
    for orphan in found.orphans:
        _say(_orphan(orphan))
        _say(f"  repair: {orphan.repair}")


def _orphan(orphan: Orphan) -> str:
    thing = orphan.thing
    return f"orphan: {thing.type} {thing.name} ({thing.id}), made by {thing.made_by}"


def _pulumi(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(anew=False)
    verb, *options = extra
    return sandbox.run(verb, *options)


def _delete(sandbox: Sandbox, extra: Sequence[str]) -> int:
    token, identity = extra
    _delete_thing(sandbox, token, identity)
    _say(f"deleted {token} {identity}")
    return FINE


def _delete_thing(sandbox: Sandbox, token: str, identity: str) -> None:
    from sandbox.world import CloudError

    if sandbox.world.read(token, identity) is None:
        raise RefusedError(
            f"there is no {token} {identity!r} in the cloud. "
            f"Copy both from `tandem sandbox pulumi {sandbox.place.stack} -- stack --show-ids`, or from `status`."
        )
    try:
        sandbox.world.delete(token, identity)
    except CloudError as error:
        raise RefusedError(f"the cloud refuses: {error}") from error


def _graph(place: Place) -> "Graph | None":
    """What the program would register; None when the stack file is not there or refused."""
    from stacks.stack_file.errors import UnreadableError
    from stacks.stack_file.judge import RefusedError, judge_file
    from tandem.planned.plan import program_graph

    try:
        plan = judge_file(place.stack_file).plan()
    except (UnreadableError, RefusedError):
        return None
    return program_graph(plan)


def _say(line: str) -> None:
    print_line(f"sandbox: {line}", sys.stdout)


_VERBS = {
    "up": _up,
    "preview": _preview,
    "refresh": _refresh,
    "destroy": _destroy,
    "status": _status,
    "pulumi": _pulumi,
    "delete": _delete,
}
