"""The verbs of `tandem sandbox`, and their emulated cloud, which `.tandem/sandbox/` keeps between commands.

Each stack has a folder: the emulated cloud (`cloud.json`), Pulumi's state, and private copies of the project's files.
"""

import errno
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.sandbox.pulumi import Pulumi, executable
from tandem.sandbox.report import SCHEMA_VERSION, as_report, repairs
from tandem.sandbox.state import Findings, Orphan, compare, lack_dependencies, name_of, restore_dependencies
from tandem.terminal import FAILED, FINE, CallError, print_json, print_line

if TYPE_CHECKING:
    from sandbox.graph import Graph
    from sandbox.world import World
    from stacks.stack_file.judge import Plan

HOME = Path(".tandem", "sandbox")
CLOUD = "cloud.json"
LEFT_OFF = "left-off"
"""The file with the verb that left the stack incomplete; absent for a complete one."""
AT_ONCE = ("--yes", "--skip-preview")
"""No confirmation: nothing here costs anything."""


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of a stack of the sandbox."""

    stack: str
    stack_file: Path
    project: Path
    """The folder of `Pulumi.yaml`."""

    @property
    def folder(self) -> Path:
        """The sandbox's files of this stack."""
        return self.project.resolve() / HOME / self.stack


class Sandbox:
    """One stack in the emulated cloud, opened for one command."""

    def __init__(self, place: Place, world: "World", pulumi: Pulumi) -> None:
        self.place, self.world, self.pulumi = place, world, pulumi
        pulumi.stack_folder = place.stack_file.parent

    def prepare(self, *, fresh: bool) -> None:
        """Prepares `pulumi`, and cleans up after a crash; `fresh` copies the current stack file."""
        copies = fresh or not self.pulumi.has_stack_file
        self.pulumi.prepare(self.place.project, self.place.stack_file if copies else None)
        self._find_vpc()
        if self.pulumi.release():
            _print("warning: the last command was killed; removed its lock")

    def _find_vpc(self) -> None:
        """Whatever VPC the stack file names, the emulated cloud has it, and everything in it is right."""
        plan = _plan(self.place)
        if plan and (vpc := plan.config.cluster.vpc):
            from sandbox.world.foreign import found_vpc

            with self.world.changing() as entities:
                found_vpc(entities, plan.config.region, vpc)

    def recover(self) -> int:
        """Finishes an earlier command: imports created resources, and removes the others from the state."""
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
                _print(f"Deleting {name_of(pending.urn)}, an unfinished replacement")
                self.world.delete(orphan.entity.type, orphan.entity.id)
            elif code == FINE:
                _print(f"Importing {name_of(pending.urn)} into the state: a killed command created it")
                code = self.run(*pending.importing(orphan.entity.id))
        if absent := {name_of(one.urn) for one in creations} - {name_of(one.urn) for _, one in adopted}:
            _print(f"Removing {', '.join(sorted(absent))} from the state: creation did not complete")
        return code

    def order(self) -> None:
        """Restores the order of `destroy` for imported resources: an import lacks dependencies."""
        if not lack_dependencies(self.pulumi.state()):
            return
        if graph := _graph(self.place):
            self.pulumi.edit_state(lambda deployment: restore_dependencies(deployment, graph))

    def run(self, verb: str, *options: str) -> int:
        """Runs a command of `pulumi` on the stack, and records an `up` or `destroy` until it succeeds."""
        if verb in ("up", "destroy"):
            self.left_off = verb
        code = self.pulumi.run(verb, "--stack", self.place.stack, *options)
        if code < 0:
            print(flush=True)  # Pulumi's line of dots has no end
            _print(f"error: pulumi was killed by {signal.Signals(-code).name}")
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
        executable()  # otherwise no folder is created

    from sandbox.world import World

    # Before anything slow: it refuses while another command is running.
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
    """The emulated cloud refuses a request."""

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
            "Wait until its command ends, or press Ctrl-C there."
        ) from error
    except StateError as error:
        raise CallError(str(error)) from error
    except OSError as error:
        if message := _unwritable(place.folder, error):
            raise CallError(message) from error
        raise


def _unwritable(folder: Path, error: OSError) -> str:
    """Why the sandbox cannot write its files, and the fix; "" for any other error."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"{folder} cannot be written ({error.strerror}). "
            "Copy the project to a writable folder, and run the command there."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of {folder} is full. Free disk space, then repeat the command."
    return ""


def _for_programs(verb: str, sandbox: Sandbox, extra: Sequence[str]) -> int:
    """Runs the verb with its messages on stderr, and prints the resulting state as one object."""
    if verb == "delete":
        token, identity = extra
        _delete_entity(sandbox, token, identity)
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
    sandbox.prepare(fresh=True)
    if code := sandbox.recover():
        return code
    found = sandbox.findings(_graph(sandbox.place))
    if found.orphans:
        # The engine would create each of them a second time.
        _print("error: the emulated cloud contains resources missing from Pulumi's state. Repair them first.")
        _print_orphans(found)
        return FAILED
    code = sandbox.run("up", *AT_ONCE, *extra)
    status = shlex.join(("tandem", "sandbox", "status", sandbox.place.stack))
    if code:
        _print(f"hint: run `{status}` to inspect the stack, or repeat the command to continue")
    else:
        _print(f"Next: `{status}`")
    return code


def _preview(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(fresh=True)
    return sandbox.run("preview", *extra)


def _refresh(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(fresh=False)
    if sandbox.findings().missing and not sandbox.left_off:
        sandbox.left_off = "refresh"
    return sandbox.recover() or sandbox.run("refresh", *AT_ONCE, *extra)


def _destroy(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(fresh=False)
    code = sandbox.recover()
    if not code:
        sandbox.order()
        code = sandbox.run("destroy", *AT_ONCE, *extra)
    found = sandbox.findings()
    if found.resources:
        # Pulumi ends with 0 after Ctrl-C. With `--target` the rest stays on purpose.
        if not any(option.startswith("--target") for option in extra):
            sandbox.left_off = "destroy"
        again = f"tandem sandbox destroy {sandbox.place.stack}{' -- --refresh' if found.missing else ''}"
        _print(f"error: {found.resources} resources are still in the state. Run `{again}` to continue.")
    if found.orphans:
        _print(f"error: {len(found.orphans)} resources in the emulated cloud are in no state")
        _print_orphans(found)
    if found.resources or found.orphans:
        return FAILED
    _print("nothing is left: 0 resources in the state, 0 in the cloud")
    # Pulumi prints "run `pulumi stack rm dev`".
    _print(f"hint: to remove the stack, too, delete {os.path.relpath(sandbox.place.folder)}")
    _print("hint: do not run `pulumi stack rm`: outside the sandbox, it removes your real stack of that name")
    return code


def _status(sandbox: Sandbox, extra: Sequence[str]) -> int:
    found = sandbox.findings(_graph(sandbox.place))
    created = f" ({found.made} of them created by AWS, Kubernetes or Helm)" if found.made else ""
    alone = f" ({found.alone} of them only there, such as components and providers)" if found.alone else ""
    counts = f"{found.resources} resources in Pulumi's state{alone}, {found.entities} in the emulated cloud{created}"
    _print(f"{sandbox.place.stack}: {counts}")
    for one in found.unfinished:
        _print(f"unfinished: {one.operation} {one.type} {name_of(one.urn)}")
    for orphan in found.orphans:
        _print(_orphan(orphan))
    named = {one.urn for one in found.unfinished}
    for lost in (one for one in found.missing if one.urn not in named):
        _print(f"in the state, but not in the cloud: {lost.type} {lost.name} ({lost.id})")
    if found.agree:
        _print("state and cloud agree")
    if found.left_off == "refresh":
        _print("the stack is incomplete: `refresh` removed resources")
    elif found.left_off:
        _print(f"the stack is incomplete: the last `{found.left_off}` did not finish")
    if commands := repairs(sandbox.place.stack, found):
        _print("hint: to continue, run in this order:" if len(commands) > 1 else "hint: to continue, run:")
    for repair in commands:
        _print(f"  {repair}")
    return _code(found)


def _code(found: Findings) -> int:
    """The exit code of `status`: 0 only if nothing needs a command."""
    return FINE if found.agree and not found.completes else FAILED


def _print_orphans(found: Findings) -> None:
    for orphan in found.orphans:
        _print(_orphan(orphan))
        _print(f"  hint: run `{orphan.repair}`")


def _orphan(orphan: Orphan) -> str:
    entity = orphan.entity
    return f"orphan: {entity.type} {entity.name} ({entity.id}), created by {entity.made_by}"


def _pulumi(sandbox: Sandbox, extra: Sequence[str]) -> int:
    sandbox.prepare(fresh=False)
    verb, *options = extra
    return sandbox.run(verb, *options)


def _delete(sandbox: Sandbox, extra: Sequence[str]) -> int:
    token, identity = extra
    _delete_entity(sandbox, token, identity)
    _print(f"deleted {token} {identity}")
    return FINE


def _delete_entity(sandbox: Sandbox, token: str, identity: str) -> None:
    from sandbox.world import CloudError

    if sandbox.world.read(token, identity) is None:
        raise RefusedError(
            f"the emulated cloud has no {token} {identity!r}. "
            f"Copy both from `tandem sandbox pulumi {sandbox.place.stack} -- stack --show-ids`, or from `status`."
        )
    try:
        sandbox.world.delete(token, identity)
    except CloudError as error:
        raise RefusedError(f"the emulated cloud refuses: {error}") from error


def _graph(place: Place) -> "Graph | None":
    """The program's graph; None if the stack file is missing or refused."""
    from tandem.dry_run.program import program_graph

    plan = _plan(place)
    return program_graph(plan) if plan else None


def _plan(place: Place) -> "Plan | None":
    """The stack's plan; None if the stack file is missing or refused."""
    from stacks.stack_file.errors import UnreadableError
    from stacks.stack_file.judge import RefusedError, judge_file

    try:
        return judge_file(place.stack_file).plan()
    except (UnreadableError, RefusedError):
        return None


def _print(line: str) -> None:
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
