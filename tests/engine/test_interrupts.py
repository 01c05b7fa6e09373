"""Ctrl-C and SIGTERM while `tandem sandbox` runs `pulumi`: the output, the state, and the next command."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tandem.sandbox.processes import running
from tests.engine.command_line import PACE, PATIENT_PACE, says, start, until, until_it_creates_the_cluster
from tests.engine.emulated import Raise, Stack

STACK = "timeslice"
CANCELED = "^C received; cancelling."
TERMINATED = "^C received; terminating"


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Sends SIGINT to the whole process group, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def end(process: subprocess.Popen[str]) -> str:
    """The rest of the output. Returns when every process that holds the output has ended."""
    said, _ = process.communicate()
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    return said


def processes(stack: Stack) -> list[int]:
    """The running processes of the stack's `pulumi`."""
    return running(stack.place.folder / "home")


def until_the_program_imports_the_sdk(process: subprocess.Popen[str], stack: Stack) -> None:
    """Waits for gRPC's library, which the SDK imports long before the program's first line."""
    while process.poll() is None:
        for number in processes(stack):
            with suppress(OSError):
                if "cygrpc" in Path("/proc", str(number), "maps").read_text():
                    return
    pytest.fail(process.communicate()[0])


def assert_it_is_incomplete_and_agrees(stack: Stack) -> None:
    assert processes(stack) == []
    said = says(stack, 1, "status")
    assert ("state and cloud agree" in said, "the stack is incomplete" in said) == (True, True), said


def assert_up_goes_on(stack: Stack) -> None:
    says(stack, 0, "up")
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="When an update is canceled, Pulumi sends SIGINT to the Python program, which prints a traceback",
    source="pulumi 3.260 sdk/python/cmd/pulumi-language-python/main.go (cmd.Cancel)",
)
@pytest.mark.parametrize(
    "interrupt", [press_ctrl_c, subprocess.Popen.terminate], ids=["Ctrl-C", "SIGTERM to the command alone"]
)
def test_an_interrupt_lets_pulumi_end_what_it_has_begun_and_up_goes_on(
    nothing: Raise, interrupt: Callable[[subprocess.Popen[str]], None]
) -> None:
    stack = nothing(STACK)
    process = start(stack, "up", "--pace", PACE)
    until(process, "tandem-cluster-eksCluster creating")
    interrupt(process)
    said = end(process)
    assert CANCELED in said
    assert "tandem-cluster-eksCluster created" in said
    assert_it_is_incomplete_and_agrees(stack)
    assert_up_goes_on(stack)


def test_ctrl_c_while_the_program_is_imported_shows_no_traceback(nothing: Raise) -> None:
    stack = nothing(STACK)
    process = start(stack, "up")
    until_the_program_imports_the_sdk(process, stack)
    press_ctrl_c(process)
    assert "update canceled" in end(process)
    assert processes(stack) == []


def test_a_second_ctrl_c_ends_pulumi_at_once_and_up_recovers(nothing: Raise) -> None:
    stack = nothing(STACK)
    process = start(stack, "up", "--pace", PATIENT_PACE)
    until_it_creates_the_cluster(process, stack)
    press_ctrl_c(process)
    until(process, CANCELED)
    press_ctrl_c(process)
    said = end(process)
    assert TERMINATED in said
    assert "tandem-cluster-eksCluster created" not in said
    assert processes(stack) == []
    assert "unfinished: creating aws:eks/cluster:Cluster" in says(stack, 1, "status")
    assert_up_goes_on(stack)


def test_after_ctrl_c_during_a_destroy_both_up_and_destroy_go_on(raised: Raise) -> None:
    stack = raised(STACK)
    process = start(stack, "destroy", "--pace", PACE)
    until(process, "tandem-gpu-group deleting")
    press_ctrl_c(process)
    said = end(process)
    # Pulumi says so although it is wrong: docs/how-to/troubleshoot.md.
    assert "The resources in the stack have been deleted" in said
    assert "Run `tandem sandbox destroy timeslice` to continue" in said
    assert_it_is_incomplete_and_agrees(stack)
    assert_up_goes_on(stack)
    assert "nothing is left: 0 resources in the state, 0 in the cloud" in says(stack, 0, "destroy")
