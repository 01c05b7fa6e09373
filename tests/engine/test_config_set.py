"""`pulumi config set` on our stack files keeps the comments and writes values that `tandem` accepts."""

import os
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from stacks.stack_file.judge import judge_file
from stacks.stack_file.schema import stack_schema
from tandem.sandbox.pulumi import executable
from tests.command import call
from tests.shipped import copy_project
from tests.stacks.scalars import at, scalars


@pytest.fixture
def project(pulumi: None, tmp_path: Path) -> Path:
    """A folder with the shipped stack files and a user's own."""
    copy_project(tmp_path)
    assert call("init", "mine", "--yes", cwd=tmp_path).returncode == 0
    return tmp_path


def run(project: Path, *arguments: str) -> None:
    own = {
        "PULUMI_HOME": str(project / "home"),
        "PULUMI_BACKEND_URL": project.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "x",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    command = [executable(), *arguments, "--non-interactive"]
    done = subprocess.run(command, cwd=project, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]


@pytest.mark.parametrize("stack", ["mine", "dev", "timeslice"])
def test_comments_stay_and_the_file_still_plans(stack: str, project: Path) -> None:
    file = project / f"Pulumi.{stack}.yaml"
    before = file.read_text(encoding="utf-8")
    run(project, "stack", "init", stack)
    run(project, "config", "set", "--path", "tandem:gpu-nodes.desired", "0")
    run(project, "config", "set", "tandem:proof", "false")
    run(project, "config", "set", "--path", "tandem:budget.max-usd-per-hour", "3.5")
    run(project, "config", "set", "--path", "tandem:models[0].slots", "2")
    after = file.read_text(encoding="utf-8")
    assert comments(after) == comments(before)
    assert "desired: 0" in after
    config = judge_file(file).plan().config
    assert (config.proof, config.budget.max_usd_per_hour, config.models[0].slots) == (False, 3.5, 2)
    jsonschema.validate(yaml.safe_load(after), stack_schema())
    assert call("plan", str(file)).returncode == 0


def test_every_number_and_truth_value_that_it_writes_is_read(project: Path) -> None:
    run(project, "stack", "init", "mine")
    values = scalars()
    # These contradict other keys of the file.
    del values["gpu-nodes.on-demand-fallback"], values["scale-to-zero.enabled"]
    given = [f"tandem:{path}={yaml.safe_dump(value).splitlines()[0]}" for path, value in values.items()]
    given.append("tandem:ui.admin-email=ops@example.com")
    given.append("tandem:budget.alert.emails[0]=ops@example.com")
    run(project, "config", "set-all", "--path", *(part for each in given for part in ("--plaintext", each)))
    file = project / "Pulumi.mine.yaml"
    config = judge_file(file).config
    assert {path: at(config, path) for path in values} == values
    jsonschema.validate(yaml.safe_load(file.read_text(encoding="utf-8")), stack_schema())
