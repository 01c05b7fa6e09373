"""What the README and the tutorials ask of an account or a cluster by `tandem` runs against stand-ins for them."""

import io
import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stacks.stack_file.judge import judge_file
from tandem.deployed import kubernetes
from tandem.deployed.patience import Patience
from tandem.verify import verify
from tests.command import Ended, call
from tests.pages import ROOT, with_stand_ins
from tests.shipped import copy_project
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import OURS, Emulated
from tests.tandem.deployed.fake_kubernetes import FakeKubernetes
from tests.tandem.deployed.pretended import Clock, Cluster, reaching, well
from tests.tandem.doctor.conftest import case, cleaning, creation, emulated, machine, play
from tests.tandem.doctor.scenes import Play, Scene
from tests.tandem.fake_ollama import FakeOllama
from tests.tandem.outputs import outputs
from tests.tandem.seen import facts

__all__ = ["case", "cleaning", "creation", "emulated", "machine", "play"]
READY: Scene = {"builds": True, "roles": ["AWSServiceRoleForEC2Spot"], "programs": {"aws": "aws-cli/2.15.30"}}
G_SPOT = "L-3819A6DF"
"""AWS's code of the quota for G-type spot instances."""
pytestmark = pytest.mark.slow


@pytest.fixture
def reader(tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The clone of a reader who prepared the account, with a `pulumi` that knows the stack `dev`."""
    copy_project(tmp_path)
    play({**READY, "finds": {}})
    setup = judge_file(ROOT / "Pulumi.dev.yaml").plan().config
    kubeconfig = FakeKubernetes().kubeconfig(tmp_path).read_text()
    says = {
        "version": "v3.260.0",
        "stack export": json.dumps({"version": 3, "deployment": {}}),
        "stack output": json.dumps({**outputs(setup), "kubeconfig": kubeconfig}),
    }
    script = tmp_path / "bin" / "pulumi"
    cases = "".join(f"\"{words}\"*) cat <<'END'\n{text}\nEND\n;;\n" for words, text in says.items())
    script.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 9;;\nesac\n')
    script.chmod(0o755)
    return tmp_path


def follow(command: str, folder: Path) -> Ended:
    """Runs the line of the pages that calls the command."""
    [line] = {tuple(words) for words in with_stand_ins() if words[1] == command}
    return call(*line[1:], cwd=folder)


def test_these_lines_are_run() -> None:
    shown = {" ".join(words) for words in with_stand_ins()}
    assert shown == {
        "tandem doctor dev",
        "tandem verify dev --wait",
        "tandem leftovers dev",
        "tandem run dev llama2:7b Why do we share?",
    }


def test_doctor_has_nothing_to_say_of_an_account_that_is_prepared(reader: Path) -> None:
    ended = follow("doctor", reader)
    assert (ended.returncode, ended.stderr) == (0, "")
    *lines, total = ended.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}, ended.stdout
    assert total == "No error would stop `pulumi up` for stack dev."


def test_doctor_shows_a_new_account_the_command_that_requests_more(reader: Path, emulated: Emulated) -> None:
    emulated.quotas[G_SPOT] = 0.0  # as the page says of new accounts
    ended = follow("doctor", reader)
    assert ended.returncode == 1
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("error")]
    assert (
        f"aws service-quotas request-service-quota-increase --region us-east-1 --service-code ec2 --quota-code {G_SPOT}"
        in line
    )


def test_verify_waits_until_the_models_answer(
    reader: Path, monkeypatch: pytest.MonkeyPatch, llama: FakeOllama, mistral: FakeOllama
) -> None:
    cluster: Any = Cluster(facts())
    cluster.facts.pods.clear()

    class Starting(Clock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            cluster.facts = facts()

    clock = Starting()
    monkeypatch.setattr("tandem.deployed.patience.Patience", partial(Patience, clock=clock, sleep=clock.sleep))
    monkeypatch.setattr(kubernetes, "cluster", lambda *_: nullcontext(cluster))
    monkeypatch.setattr(verify, "verify", partial(verify.verify, reach=reaching(llama2_7b=llama, mistral_7b=mistral)))
    ended = follow("verify", reader)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len(clock.slept) == 1
    assert "waiting for model llama2-7b, pod ready" in ended.stderr
    assert "matches its file" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("passed:")


def test_run_prints_the_answer(reader: Path, monkeypatch: pytest.MonkeyPatch, llama: FakeOllama) -> None:
    cluster: Any = well()
    cluster.url = llama.url
    monkeypatch.setattr(kubernetes, "cluster", lambda *_: nullcontext(cluster))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    llama.pieces = ["To pay ", "less."]
    ended = follow("run", reader)
    assert (ended.returncode, ended.stdout) == (0, "To pay less.\n"), ended.stderr
    assert [said["content"] for said in llama.requests[0]["messages"]] == ["Why do we share?"]


def test_leftovers_finds_nothing_or_what_is_left(reader: Path, creation: Creation) -> None:
    ended = follow("leftovers", reader)
    assert (ended.returncode, ended.stdout) == (0, "No leftovers of `dev` in account 123456789012 (us-east-1).\n")
    volume = creation.volumes({**OURS, "tandem:stack": "dev"})
    ended = follow("leftovers", reader)
    assert ended.returncode == 1
    assert volume in ended.stdout
