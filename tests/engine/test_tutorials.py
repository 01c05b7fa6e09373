"""The commands of the tutorials that need `pulumi`, in the order of the pages."""

import re
import shutil
from xml.etree import ElementTree

import pytest

from tandem.sandbox.verbs import opened
from tests import pages
from tests.command import call
from tests.engine import command_line
from tests.engine.emulated import Raise, Stack
from tests.pages import TUTORIALS, commands
from tests.shipped import FILES
from tests.test_guides import HOW_TO


def project(nothing: Raise, name: str) -> Stack:
    """A clone, with only the files that the commands read; its Pulumi.yaml says where the program is."""
    stack = nothing(name)
    for file in FILES:
        shutil.copy(file, stack.folder)
    return stack


def test_the_tutorial_of_the_sandbox_deploys_switches_and_leaves_nothing(nothing: Raise) -> None:
    stack = project(nothing, "dev")
    env = {**pages.environment(), "PYTHONPATH": command_line.environment()["PYTHONPATH"]}
    said = [block.run(stack.folder, env).stdout for block in commands(TUTORIALS / "sandbox.md")]
    assert "unchanged" in said[2]  # the second `up`
    assert '"mps"' in said[4] or "mps" in said[4]  # the outputs, after the switch
    assert "nothing is left" in said[5].lower()
    assert not (stack.folder / "Pulumi.trial.yaml").exists()


def test_the_commands_of_the_guides_about_the_sandbox_leave_nothing(nothing: Raise) -> None:
    stack = project(nothing, "dev")
    env = {**pages.environment(), "PYTHONPATH": command_line.environment()["PYTHONPATH"]}
    for page in ("from-wish-to-command.md", "use-the-sandbox.md"):
        block = next(each for each in pages.blocks(HOW_TO / page) if each.text.startswith("tandem sandbox "))
        said = block.run(stack.folder, env).stdout
        assert "state and cloud agree" in said
    assert "nothing is left" in said.lower()


@pytest.mark.real_world(
    behaviour="A stack of the tutorial is parked, woken and destroyed by the commands that it shows",
    source="https://www.pulumi.com/docs/iac/cli/commands/",
)
def test_the_tutorial_of_the_first_deployment_works_in_the_emulated_cloud(nothing: Raise) -> None:
    stack = project(nothing, "dev")
    with opened(stack.place, pace=0) as sandbox:
        sandbox.prepare(fresh=True)
        sandbox.pulumi.ask("stack", "rm", "dev", "--yes", "--preserve-config")  # the page creates it
        env = {**sandbox.pulumi.environment(), "PULUMI_SKIP_CONFIRMATIONS": "true"}
        for block in commands(TUTORIALS / "first-deployment.md"):
            block.run(stack.place.folder, env)
        findings = sandbox.findings()
    assert (findings.resources, findings.entities) == (0, 0)


def test_the_recording_in_the_readme_shows_what_the_commands_print_now(nothing: Raise) -> None:
    """If this fails, run `make recording`."""
    picture = ElementTree.parse(pages.ROOT / "docs" / "assets" / "recording.svg").getroot()
    lines = ["".join(line.itertext()).split() for line in picture.iter("{http://www.w3.org/2000/svg}text")]
    recorded = {without_age(" ".join(words)) for words in lines}
    plan = [" ".join(line.split()) for line in call("plan", "timeslice", columns=130).stdout.splitlines()]
    assert [line for line in plan if line and without_age(line) not in recorded] == []
    assert f"+ {len(nothing('timeslice').graph)} created" in recorded
    assert "sandbox: state and cloud agree" in recorded


def without_age(line: str) -> str:
    return re.sub(r", \d+ days ago", "", line)
