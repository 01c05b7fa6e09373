"""An error of the program shows the position of a value that stands in a file, or else its origin; no secret."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tandem.sandbox.pulumi import executable
from tandem.sandbox.verbs import Place, opened
from tests.command import call

SHARING = "tandem:sharing"
WRONG = {"mode": "timeslice", "replicas": 1}
RULE = "must be at least 2, not 1. For one pod per GPU, write `mode: exclusive`."


class Project:
    """A user's own project, in which `pulumi` runs as the user would run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        assert call("init", "mine", "--yes", cwd=folder).returncode == 0
        self.file = folder / "Pulumi.mine.yaml"

    def configure(self, file: Path, key: str, value: object) -> None:
        """Writes the stack file to `file` with another value, or without it (None)."""
        values = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        values["config"].pop(key)
        values["config"].update({key: value} if value else {})
        file.write_text(yaml.safe_dump(values), encoding="utf-8")

    def pulumi(self, verb: str, *options: str) -> str:
        """Everything that a command prints."""
        with opened(Place("mine", self.file, self.folder), pace=0) as sandbox:
            sandbox.prepare(fresh=True)
            path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            done = subprocess.run(
                [executable(), verb, "--stack", "mine", *options, "--non-interactive", "--color", "never"],
                cwd=self.folder,
                env={**sandbox.pulumi.environment(), "PATH": path},
                capture_output=True,
                text=True,
            )
        return done.stdout + done.stderr

    def error(self, verb: str, *options: str) -> str:
        """The only error about the stack's values."""
        said = self.pulumi(verb, *options)
        [error] = [line.strip() for line in said.splitlines() if "sharing.replicas" in line]
        assert "Pulumi.mine.yaml has 1 error" in said
        return error


@pytest.fixture
def project(pulumi: None, tmp_path: Path) -> Project:
    return Project(tmp_path)


def position(file: Path, key: str) -> str:
    """The place of a key's value in a file, as an editor counts."""
    before, found, _ = file.read_text(encoding="utf-8").partition(f"{key}: ")
    lines = f"{before}{found}|".splitlines()
    return f"{file.name}:{len(lines)}:{len(lines[-1])}  "


@pytest.mark.parametrize("options", [(), ("-c", f"{SHARING}={json.dumps(WRONG)}")], ids=["file", "-c"])
def test_a_value_has_its_position_in_the_stack_file_also_one_that_the_command_writes_there(
    project: Project, options: tuple[str, ...]
) -> None:
    """pulumi 3.260 writes the values of `-c` into the file before the program runs (operations/io.go)."""
    if not options:
        project.configure(project.file, SHARING, WRONG)
    said = project.error("preview", *options)
    assert said == position(project.file, SHARING if options else "replicas") + f"sharing.replicas: {RULE}"


@pytest.mark.parametrize("is_there", [True, False], ids=["beside the file", "instead of it"])
def test_a_value_of_another_file_is_not_shown_in_the_stacks_own(project: Project, is_there: bool) -> None:
    other = project.folder / "other.yaml"
    project.configure(other, SHARING, WRONG)
    if not is_there:
        project.file.unlink()
    files = "Pulumi.mine.yaml or Pulumi.yaml" if is_there else "Pulumi.yaml"
    said = project.error("preview", "--config-file", str(other))
    assert said == f"sharing.replicas (not in {files}: from `--config-file` or an environment): {RULE}"


def test_a_default_of_the_project_has_its_position_there(project: Project) -> None:
    file = project.folder / "Pulumi.yaml"
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**settings, "config": {SHARING: {"value": WRONG}}}), encoding="utf-8")
    project.configure(project.file, SHARING, None)
    assert project.error("preview") == position(file, "replicas") + f"sharing.replicas: {RULE}"


def test_a_wrong_secret_is_refused_and_not_shown(project: Project) -> None:
    project.pulumi("config", "set", "--secret", "--path", "tandem:budget.max-usd-per-hour", "12345678 dollars")
    said = project.pulumi("preview")
    assert "budget" in said
    assert "12345678" not in said
