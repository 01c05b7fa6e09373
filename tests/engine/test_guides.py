"""The guides' use of `pulumi`: the real one accepts every command, and prints the quoted messages."""

import os
import re
import signal
import subprocess

import pytest

from tandem.sandbox.pulumi import executable
from tandem.sandbox.verbs import opened
from tests.engine.command_line import SLOW_PACE, start, until_it_creates_the_cluster
from tests.engine.emulated import Raise, Stack
from tests.test_guides import GUIDES, HOW_TO, commands

OF_PULUMI = [(guide, arguments) for guide in GUIDES for program, *arguments in commands(guide) if program == "pulumi"]
LOCKED = "the stack is currently locked by 1 lock(s)"
PENDING = r"Attempting to deploy or update resources with \d+ pending operations from previous deployment"


@pytest.mark.parametrize(("guide", "arguments"), OF_PULUMI, ids=lambda one: one if isinstance(one, str) else one[0])
def test_the_real_pulumi_accepts_every_command_of_the_guides(pulumi: None, guide: str, arguments: list[str]) -> None:
    # It reads all flags before it shows its help, and refuses unknown ones.
    done = subprocess.run([executable(), *arguments, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    verb = arguments[: 2 if arguments[0] == "stack" and not arguments[1].startswith("-") else 1]
    usage = done.stdout.partition("Usage:\n")[2]
    # Pulumi 3.260 shows `stack init` as another name of `stack new`.
    assert usage.startswith(f"  pulumi {' '.join(verb)} ") or re.search(rf"Aliases:\n.*\b{verb[-1]}\b", usage)


def test_there_are_commands_of_pulumi_in_the_guides() -> None:
    verbs = {arguments[0] for _, arguments in OF_PULUMI}
    assert verbs >= {"up", "destroy", "refresh", "cancel", "import", "stack"}


def run(stack: Stack, *arguments: str) -> tuple[int, str]:
    """Runs a command of the guide as people do: without the steps of `tandem sandbox` before and after it."""
    with opened(stack.place, pace=0) as sandbox:
        command = [executable(), *arguments, "--stack", stack.name]
        done = subprocess.run(
            command, cwd=stack.place.folder, env=sandbox.pulumi.environment(), capture_output=True, text=True
        )
    return done.returncode, done.stdout + done.stderr


def test_after_a_kill_the_steps_of_the_guide_bring_the_stack_up(nothing: Raise) -> None:
    text = (HOW_TO / "troubleshoot.md").read_text(encoding="utf-8")
    stack = nothing("timeslice")
    process = start(stack, "up", "--pace", SLOW_PACE)
    until_it_creates_the_cluster(process, stack)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    code, said = run(stack, "up", "--yes", "--skip-preview")
    assert (code != 0, LOCKED in said, LOCKED in text) == (True, True, True), said
    code, said = run(stack, "cancel", "--yes")
    assert code == 0, said
    code, said = run(stack, "up", "--yes", "--skip-preview", "--target", "urn:pulumi:timeslice::tandem::none::none")
    assert re.search(PENDING, said), said
    assert re.search(PENDING, text)
    code, said = run(stack, "refresh", "--clear-pending-creates", "--non-interactive", "--yes")
    assert code == 0, said
    assert not stack.findings().unfinished
    code, said = run(stack, "up", "--yes", "--skip-preview")
    assert code == 0, said
    assert stack.findings().agree
