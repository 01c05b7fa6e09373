"""The workflows run `.ci/run`, and `make help` lists every target."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"


def workflow(name: str) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    text = (WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8").replace("\non:\n", "\n'on':\n")
    return dict(yaml.safe_load(text))


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def test_the_workflows_run_what_a_submission_must_pass() -> None:
    assert any(step.get("run") == ".ci/run" for step in steps("check"))


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS.iterdir()])
def test_a_workflow_pins_its_actions_and_keeps_its_token(name: str) -> None:
    """As GitHub's guide to secure use has it: a full commit, and by default a token that may only read."""
    assert workflow(name)["permissions"] == {"contents": "read"}
    used = [step for step in steps(name) if "uses" in step]
    assert [step["uses"] for step in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])] == []
    [checkout] = [step for step in used if step["uses"].startswith("actions/checkout@")]
    assert checkout["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job for job in workflow(name)["jobs"].values())


def test_prices_are_read_every_week_without_aws_credentials() -> None:
    text = (WORKFLOWS / "prices.yml").read_text(encoding="utf-8")
    assert not re.search("secrets|aws-actions|id-token|AWS_", text)
    found = workflow("prices")
    [job] = found["jobs"].values()
    assert set(found["on"]) == {"schedule", "workflow_dispatch"}, (
        "never for a pull request, whose code could use the token"
    )
    [schedule] = found["on"]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule["cron"]), "once a week"
    assert job["permissions"] == {"contents": "write", "pull-requests": "write"}
    read, proposed = [step for step in job["steps"] if "run" in step]
    assert (read["run"], "env" in read) == ("make prices", False)
    assert proposed["env"] == {"GH_TOKEN": "${{ github.token }}"}
    assert proposed["if"] == "${{ !cancelled() }}", "a file that cannot be read does not withhold the others"
    [body] = re.findall(r"--body-file (\S+)", proposed["run"])
    assert (ROOT / body).is_file()
    subprocess.run(["bash", "-n"], input=proposed["run"], text=True, check=True)


def test_make_help_names_every_target_that_people_call() -> None:
    done = subprocess.run(["make", "help"], capture_output=True, text=True, cwd=ROOT)
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    listed = re.findall(r"^  ([a-z-]+) +\S", done.stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(set(phony.split()))
    assert max(map(len, done.stdout.splitlines())) <= 80
