"""`tandem sandbox` with the real engine: its output, and the state after an interrupted command."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engine.command_line import COMMAND, SLOW_PACE, environment, says, start, until_it_creates_the_cluster
from tests.engine.emulated import Raise, Stack
from tests.kills.killing import advised

STACK = "timeslice"


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("Pulumi*.yaml")}


def test_every_verb_that_changes_the_cloud_reports_what_there_is_and_leaves_the_users_files_alone(
    nothing: Raise,
) -> None:
    stack = nothing(STACK)
    before = files(stack.folder)
    count = len(stack.graph)
    empty = {"schema_version": 1, "stack": STACK, "agree": True, "complete": True, "resources": 0, "things": 0}
    empty |= {key: [] for key in ("unfinished", "orphans", "missing", "repairs")}
    assert report(stack, 0, "status") == empty
    up = report(stack, 0, "up")
    assert (up["agree"], up["resources"]) == (True, count)
    assert report(stack, 0, "refresh") == up
    said = says(stack, 0, "status")
    assert ("state and cloud agree" in said, f"{count} resources in Pulumi's state" in said) == (True, True), said
    assert f"{count} unchanged" in says(stack, 0, "up")
    assert report(stack, 0, "destroy") == empty
    assert files(stack.folder) == before


def report(stack: Stack, code: int, *arguments: str) -> dict[str, Any]:
    """The one object on stdout; text for people is on stderr."""
    command = [*COMMAND, *arguments, "--json"]
    done = subprocess.run(command, cwd=stack.folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert ("Updating" in done.stderr) == (arguments[0] == "up")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_after_a_kill_in_the_middle_the_next_up_recovers_by_itself(nothing: Raise) -> None:
    stack = nothing(STACK)
    process = start(stack, "up", "--pace", SLOW_PACE)
    until_it_creates_the_cluster(process, stack)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert "unfinished: creating aws:eks/cluster:Cluster" in says(stack, 1, "status")
    assert "removed its lock" in says(stack, 0, "up")
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="A killed engine leaves a pending operation, and nothing imports a resource that was created meanwhile.",
    source="pulumi 3.260 pkg/cmd/pulumi/operations/refresh.go (nothing reads OperationTypeImporting)",
)
@pytest.mark.parametrize("package", ["aws", "kubernetes"])
def test_what_was_created_while_the_engine_was_killed_is_taken_into_the_state(raised: Raise, package: str) -> None:
    stack = raised(STACK)
    name = forget_a_creation(stack, package)
    said = says(stack, 1, "status")
    assert (f" {name} (" in said, advised(said)) == (True, [f"refresh {STACK}"]), said
    assert f"Importing {name} into the state" in says(stack, 0, "refresh")
    assert stack.findings().agree
    assert stack.up().operations["create"] == frozenset()


def forget_a_creation(stack: Stack, package: str) -> str:
    """Edits the state as a killed engine leaves it: a resource without dependents is still being created."""

    def forget(latest: dict[str, Any]) -> str:
        every = json.dumps(latest["resources"])
        created = [resource for resource in latest["resources"] if resource["type"].startswith(f"{package}:")]
        leaf = [resource for resource in created if every.count(f'"{resource["urn"]}"') == 1][-1]
        latest["resources"].remove(leaf)
        pending = {key: value for key, value in leaf.items() if key not in ("id", "outputs")}
        latest["pending_operations"] = [{"type": "creating", "resource": pending}]
        return str(leaf["urn"].rsplit("::", 1)[1])

    return stack.edit_state(forget)
