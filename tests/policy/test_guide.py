"""The guide to the policy pack has its rules, and its workflow does what the guide says."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.rules import POLICY_RULES
from stacks.outputs import describe_pool
from stacks.stack_file.judge import judge_file
from tandem.main import parser
from tests import pages
from tests.command import call
from tests.pages import ROOT

GUIDE = ROOT / "docs" / "how-to" / "check-any-program-with-policies.md"
LEVELS = {"mandatory", "advisory", "disabled", "remediate"}
"""Source: pulumi-policy 1.21.0 policy.py, `EnforcementLevel`."""


def block(head: str) -> str:
    [found] = [each.text for each in pages.blocks(GUIDE) if each.head.startswith(head)]
    return found


def workflow() -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    return dict(yaml.safe_load(block("yaml").replace("\non:", "\n'on':")))


def steps(job: str) -> list[dict[str, Any]]:
    return list(workflow()["jobs"][job]["steps"])


def scripts() -> list[str]:
    return [step["run"] for job in workflow()["jobs"] for step in steps(job) if "run" in step]


def test_the_guide_lists_every_rule() -> None:
    section = GUIDE.read_text(encoding="utf-8").partition("## What it refuses")[2].partition("It looks at")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE) == [rule.name for rule in POLICY_RULES]


def test_the_example_of_a_configuration_names_rules_and_levels() -> None:
    for name, given in json.loads(block("json")).items():
        assert name in {rule.name for rule in POLICY_RULES}
        settings = {"enforcementLevel": given} if isinstance(given, str) else given
        assert {*settings} <= {"enforcementLevel", "except"}
        assert settings.get("enforcementLevel", "advisory") in LEVELS


def test_the_workflow_pins_its_actions_and_bounds_its_rights() -> None:
    """As GitHub's guide to secure use has it."""
    assert workflow()["permissions"] == {"contents": "read"}
    assert workflow()["on"] == "pull_request"  # not `pull_request_target`, whose secrets a fork could use
    for job in workflow()["jobs"].values():
        assert "timeout-minutes" in job
        assert job["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
        used = [step for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]) for step in used)
        checkouts = [step["with"] for step in used if step["uses"].startswith("actions/checkout@")]
        assert all(each["persist-credentials"] is False for each in checkouts)
    # What a pull request can choose never becomes a part of a script.
    assert not any("${{" in script for script in scripts())


def test_the_role_is_taken_right_before_the_preview() -> None:
    """GitHub's token ends after 5 minutes: https://docs.github.com/en/actions/reference/security/oidc."""
    take, preview = steps("policies")[-2:]
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in take["run"]
    assert preview["run"].startswith("pulumi preview ")


def test_the_commands_of_the_workflow_exist() -> None:
    lines = [line.strip() for script in scripts() for line in script.splitlines()]
    ours = [shlex.split(line.partition(" > ")[0]) for line in lines if line.startswith("tandem ")]
    assert len(ours) == 3
    for _, *arguments in ours:
        parser(arguments[0]).parse_args(arguments)
    for script in scripts():
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="`jq` is not on the PATH")
def test_the_workflow_comments_memory_downtime_and_dollars(tmp_path: Path) -> None:
    """A switch from time-slicing to exclusive GPUs: both models stop, and a second node is paid for."""
    plan = judge_file(ROOT / "Pulumi.timeslice.yaml").plan()
    outputs = {
        "pools": {pool.name: describe_pool(pool).model_dump(mode="json") for pool in plan.config.pools},
        "endpoints": {one.id: "" for one in plan.config.models},
        "kubeconfig": "",
        "cluster_name": "tandem-timeslice",
    }
    (tmp_path / "deployed.json").write_text(json.dumps(outputs), encoding="utf-8")
    before = shutil.copytree(tmp_path, tmp_path / "before")
    shutil.copy(ROOT / "Pulumi.timeslice.yaml", before)
    after = tmp_path / "Pulumi.timeslice.yaml"
    shutil.copy(ROOT / "Pulumi.exclusive.yaml", after)
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    for name, text in {"pulumi": "cat deployed.json", "gh": 'echo "$@" > asked.txt'}.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    env = pages.environment() | {"STACK": "timeslice", "PULL_REQUEST": "7"}
    env["PATH"] = os.pathsep.join((str(tmp_path / "bin"), env["PATH"]))
    for step in steps("plan"):
        if "name" in step:
            done = subprocess.run(
                ["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=env, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
    head, _, llama, mistral, _, cost = (tmp_path / "comment.md").read_text(encoding="utf-8").splitlines()
    plans = [call("plan", str(file), "--json").json for file in (before / "Pulumi.timeslice.yaml", after)]
    assert head == "| model | memory | downtime |"
    for row, model in zip((llama, mistral), plans[1]["models"], strict=True):
        assert re.fullmatch(rf"\| {model['name']} \| {model['needs_mib']} MiB \| \d+(\.\d)? min \|", row)
    dollars = [each["cost"]["usd_per_month"] for each in plans]
    assert dollars[1] - dollars[0] > 100
    assert cost == f"**+${dollars[1] - dollars[0]:.0f} per month**, now ${dollars[1]:.0f}"
    assert (tmp_path / "asked.txt").read_text().split()[:3] == ["pr", "comment", "7"]
