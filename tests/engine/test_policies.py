"""The policy pack under the real engine, over our stacks and over programs of others."""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox.engine import serving
from sandbox.world import World
from sharing.files import lock
from tandem.sandbox.pulumi import executable
from tandem.sandbox.verbs import opened
from tests.engine.emulated import QUICK, ROOT, Raise, Stack

STACKS = ("timeslice", "mps", "per-model", "mig-mixed", "karpenter")
"""One for each way to share GPUs, on both kinds of nodes."""
THEIRS = """
import json
import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

settings = json.loads(pulumi.Config().require("settings"))
role = aws.iam.Role("nodes", assume_role_policy=json.dumps({"Statement": []}))
nodes = aws.eks.NodeGroup(
    "gpus",
    cluster_name="theirs",
    node_role_arn=role.arn,
    subnet_ids=["subnet-1", "subnet-2"],
    instance_types=settings["types"],
    scaling_config={"desired_size": 1, "min_size": 0, "max_size": 1},
    labels={"role": role.arn.apply(lambda arn: arn.rpartition("/")[2])},
)
shares = {"version": "v1", "sharing": {settings["way"]: {"resources": [
    {"name": "nvidia.com/gpu", "replicas": settings["replicas"]}]}}}
k8s.helm.v3.Release(
    "plugin",
    chart="nvidia-device-plugin",
    values={"config": {"map": {"any": json.dumps(shares)}}},
)
for number, model in enumerate(settings["models"]):
    k8s.helm.v3.Release(
        f"model-{number}",
        chart="ollama",
        repository_opts={"repo": "https://helm.otwld.com"},
        values={
            "ollama": {"gpu": {"enabled": True}, "models": {"pull": [model]}},
            "extraEnv": [{"name": settings["unknown"], "value": role.arn}],
        },
    )
"""
"""A program that knows nothing of this project. Some of its values are unknown before `up`."""
FINE: Mapping[str, Any] = {
    "types": ["g4dn.xlarge"],
    "way": "timeSlicing",
    "replicas": 2,
    "models": ["llama2:7b", "mistral:7b"],
    "unknown": "ROLE",
}


@dataclass(frozen=True)
class Checked:
    """What the policies said."""

    code: int
    violations: Sequence[Mapping[str, Any]]
    said: str

    def mandatory(self) -> dict[str, str]:
        """The last part of the URN by policy."""
        found = [each for each in self.violations if each["enforcementLevel"] == "mandatory"]
        return {each["policyName"]: each.get("resourceUrn", "").rpartition("::")[2] for each in found}


@pytest.fixture(scope="session")
def pack(pulumi: None, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The pack of a checkout, with the environment that `pulumi install` makes: once for all workers."""
    workers = tmp_path_factory.getbasetemp()
    checkout = (workers if worker_id == "master" else workers.parent) / "checkout"
    with lock(checkout.with_suffix(".lock"), wait=True):
        if not (checkout / "installed").exists():
            for room in ("policy", "sharing"):
                ignored = shutil.ignore_patterns(".venv", "__pycache__")
                shutil.copytree(ROOT / room, checkout / room, ignore=ignored, dirs_exist_ok=True)
            shutil.copy(ROOT / "Pulumi.yaml", checkout)
            # The engine tier replaces `pip` elsewhere.
            env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "PULUMI_"))}
            env |= {"PULUMI_HOME": str(checkout / "home"), "PULUMI_SKIP_UPDATE_CHECK": "true"}
            done = subprocess.run(
                [executable(), "install"], cwd=checkout / "policy", env=env, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (checkout / "installed").touch()
    return checkout / "policy"


@pytest.fixture
def check(pack: Path, tmp_path: Path) -> Iterator[Callable[..., Checked]]:
    """Runs a command of Pulumi in the project of others, with the pack, in an emulated cloud."""
    runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
    (tmp_path / "Pulumi.yaml").write_text(json.dumps({"name": "theirs", "runtime": runtime}), encoding="utf-8")
    (tmp_path / "__main__.py").write_text(THEIRS, encoding="utf-8")
    world = World(tmp_path / "cloud.json")
    with serving(world) as providers:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "KUBE", "PULUMI_"))}
        env |= {
            "PULUMI_BACKEND_URL": tmp_path.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "theirs",
            "PULUMI_DEBUG_PROVIDERS": providers,
            "PULUMI_HOME": str(tmp_path / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
            "PYTHONPATH": str(QUICK),
        }

        def run(settings: Mapping[str, Any], *command: str, config: Mapping[str, Any] | None = None) -> Checked:
            stack = {"aws:region": "us-east-1", "theirs:settings": json.dumps({**FINE, **settings})}
            file = tmp_path / "Pulumi.dev.yaml"
            file.write_text(json.dumps({"config": stack}), encoding="utf-8")
            options = ["--policy-pack", str(pack)]
            if config is not None:
                (tmp_path / "policies.json").write_text(json.dumps(config), encoding="utf-8")
                options += ["--policy-pack-config", str(tmp_path / "policies.json")]
            if not any(tmp_path.glob(".pulumi/stacks/theirs/dev.json")):
                subprocess.run([executable(), "stack", "init", "dev"], cwd=tmp_path, env=env, check=True)
            return checked([*(command or ("preview", "--json", "--stack", "dev")), *options], tmp_path, env)

        yield run
    world.close()


def checked(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Checked:
    done = subprocess.run([executable(), *command], cwd=folder, env=env, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [event["policyEvent"] for event in events if "policyEvent" in event]
    return Checked(done.returncode, found, done.stdout + done.stderr)


@pytest.mark.parametrize("name", STACKS)
def test_our_stacks_break_no_policy(name: str, nothing: Raise, pack: Path) -> None:
    stack: Stack = nothing(name)
    with opened(stack.place, pace=0) as sandbox:
        sandbox.prepare(fresh=True)
        env = {**sandbox.pulumi.environment(), "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}
        command = ["preview", "--json", "--stack", name, "--policy-pack", str(pack)]
        done = checked(command, sandbox.pulumi.folder, env)
    assert (done.code, done.violations) == (0, []), done.said


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({}, {}),
        ({"models": ["llama2:70b"]}, {"models-fit": "model-0"}),
        ({"models": ["llama2:7b"] * 3}, {"share-for-every-server": "gpus"}),
        ({"replicas": 1, "models": ["llama2:7b"]}, {"gpu-supports-mode": "plugin"}),
        ({"types": ["g4dn.xlarge", "g5.xlarge"]}, {"one-gpu-per-group": "gpus"}),
        ({"types": ["p3.2xlarge"]}, {"gpu-instance-types": "gpus"}),
    ],
)
def test_a_preview_of_a_foreign_program_ends_at_what_cannot_work(
    check: Callable[..., Checked], settings: Mapping[str, Any], refused: Mapping[str, str]
) -> None:
    done = check(settings)
    assert done.mandatory() == refused, done.said
    assert (done.code != 0) == bool(refused)
    assert [each for each in done.violations if each["enforcementLevel"] == "advisory"] == []


def test_levels_and_exceptions_are_configuration_and_the_unknown_is_said_once(check: Callable[..., Checked]) -> None:
    wrong = {"models": ["llama2:70b"], "replicas": 1, "unknown": "OLLAMA_CONTEXT_LENGTH"}
    assert check(wrong).mandatory() == {"models-fit": "model-0", "gpu-supports-mode": "plugin"}
    done = check(wrong, config={"models-fit": "advisory", "gpu-supports-mode": {"except": ["*Release::plu*"]}})
    assert done.code == 0, done.said
    assert [each["policyName"] for each in done.violations] == ["models-fit", "unchecked"]
    fit, unchecked = (each["message"] for each in done.violations)
    assert "model-0: llama2:70b (" in fit
    assert unchecked.count("model-0 (OLLAMA_CONTEXT_LENGTH)") == 1
    assert check(wrong, config={"all": "disabled"}).violations == []


def test_the_commands_of_the_guide_exist(pulumi: None) -> None:
    """Also those of its workflow: each with its options."""
    text = (ROOT / "docs" / "how-to" / "check-any-program-with-policies.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(?: *- run:)? *pulumi (.*)$", text, re.MULTILINE)
    assert len(lines) >= 9
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        command = list(itertools.takewhile(str.isalpha, words))
        done = subprocess.run([executable(), *command, "--help"], capture_output=True, text=True)
        assert f"Usage:\n  pulumi {' '.join(command)} [" in done.stdout, line
        assert {word for word in words if word.startswith("-")} <= {*re.findall(r"--[a-z-]+", done.stdout)}, line


def test_an_exported_state_is_analyzed_without_a_program(raised: Raise, pack: Path, tmp_path: Path) -> None:
    stack: Stack = raised("timeslice")
    state = tmp_path / "state.json"
    with opened(stack.place, pace=0) as sandbox:
        exported = sandbox.pulumi.ask("stack", "export", "--stack", "timeslice")
    # No backend, no passphrase: secrets stay encrypted.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    env |= {"PULUMI_HOME": str(tmp_path / "home"), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    command = ["policy", "analyze", "--json", "--file", str(state), "--policy-pack", str(pack)]
    state.write_text(exported, encoding="utf-8")
    done = checked(command, tmp_path, env)
    assert (done.code, done.violations) == (0, []), done.said
    assert '"g4dn.xlarge"' in exported
    state.write_text(exported.replace('"g4dn.xlarge"', '"g5.xlarge"'), encoding="utf-8")
    done = checked(command, tmp_path, env)
    assert done.code != 0
    assert done.mandatory() == {"one-gpu-per-group": "tandem-gpu-group"}, done.said
