"""The output of commands that need an account, a cluster or servers, for the reference of the command line.

docs/cli.yaml names the golden of each. The commands are the real ones; what they ask is emulated.
"""

import io
import re
import sys
import webbrowser
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tandem.bench_results.result_file import write
from tandem.deployed import kubernetes
from tandem.ui import page
from tandem.ui.command import PORT
from tandem.verify import verify
from tandem.watch import watch
from tests.command import ROOT, Ended, call
from tests.conftest import Golden
from tests.shipped import copy_project
from tests.tandem.aws.creation import TRUST, Creation
from tests.tandem.aws.emulated import CLUSTER, ENOUGH, OURS, Emulated
from tests.tandem.deployed.pretended import Cluster, connected, reaching, well
from tests.tandem.deployed.reachable import reachable
from tests.tandem.fake_ollama import FakeOllama, ollama
from tests.tandem.results import mps
from tests.tandem.test_pages import G_SPOT, case, cleaning, creation, emulated, machine, play, reader
from tests.tandem.watch.test_watch import with_plugin

__all__ = ["case", "cleaning", "creation", "emulated", "machine", "play", "reader"]
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
OF_DEV = {**OURS, "tandem:stack": "dev"}
PARKED = """  tandem:park: {schedule: "0 20 * * MON-FRI", wake: "0 8 * * MON-FRI", timezone: Europe/Paris}
"""
PAGE = "  tandem:ui: {enabled: true, admin-email: ops@example.com}\n"
POOL = {"labels": {"tandem/pool": "gpu"}, "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 1}}
pytestmark = pytest.mark.slow


def shown(ended: Ended) -> str:
    """The output without its progress, and without what differs from run to run."""
    said = [line for line in ended.stderr.splitlines(keepends=True) if line.startswith(("error:", "warning:", "hint:"))]
    text = "".join([ended.stdout, *said])
    for pattern, replacement in (
        (r"127\.0\.0\.1:\d+", "127.0.0.1:11434"),
        (r"\bin \d+\.\d s\b", "in 0.0 s"),
        (r"\bat \d\d:\d\d:\d\d\b", "at 12:00:00"),
        (r"\b(vol|i)-[0-9a-f]{8,17}\b", r"\1-0123456789abcdef0"),
        (r"\b3\.1[1-9](\.\d+)?\b", "3.13"),
    ):
        text = re.sub(pattern, replacement, text)
    return text


@pytest.fixture
def cluster(llama: FakeOllama, mistral: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """What `kubernetes` reaches: the stack `dev`, with both models on a T4."""
    cluster: Any = with_plugin(well())
    reach = reaching(llama2_7b=llama, mistral_7b=mistral)
    monkeypatch.setattr(kubernetes, "cluster", lambda *_: nullcontext(cluster))
    monkeypatch.setattr(verify, "verify", partial(verify.verify, reach=reach))
    monkeypatch.setattr(watch, "looks", partial(watch.looks, reach=reach))
    return cluster  # type: ignore[no-any-return]


def test_doctor_in_an_account_without_quota(reader: Path, emulated: Emulated, golden: Golden) -> None:
    emulated.quotas[G_SPOT] = 0.0
    golden("examples/doctor.txt", shown(call("doctor", "dev", cwd=reader, columns=80)))


def test_verify_of_a_stack_that_matches_its_file(reader: Path, cluster: Cluster, golden: Golden) -> None:
    golden("examples/verify.txt", shown(call("verify", "dev", cwd=reader, columns=80)))


def test_watch(reader: Path, cluster: Cluster, golden: Golden) -> None:
    golden("examples/watch.txt", shown(call("watch", "dev", "--once", cwd=reader, columns=80)))


def test_leftovers_of_a_stack_whose_volume_stayed(reader: Path, creation: Creation, golden: Golden) -> None:
    creation.volumes(OF_DEV)
    golden("examples/leftovers.txt", shown(call("leftovers", "dev", cwd=reader, columns=80)))


def test_quota_of_a_new_account(emulated: Emulated, creation: Creation, tmp_path: Path, golden: Golden) -> None:
    copy_project(tmp_path)
    emulated.quotas = {**ENOUGH, G_SPOT: 0.0}
    creation.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=TRUST)
    golden("examples/quota.txt", shown(call("quota", "dev", cwd=tmp_path, columns=80)))


def test_park_and_wake(creation: Creation, tmp_path: Path, golden: Golden) -> None:
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    (tmp_path / "Pulumi.timeslice.yaml").write_text(text + PARKED, encoding="utf-8")
    creation.EKS_clusters(OURS, name=CLUSTER)
    group = creation.node_groups(OURS, cluster=CLUSTER, **POOL).partition("/")[2]
    for command in (["park", "timeslice"], ["wake", "timeslice", "--no-wait"]):
        said = shown(call(*command, cwd=tmp_path)).replace(group, "gpu-3f2a91c")
        golden(f"examples/{command[0]}.txt", said)


def test_metrics_of_a_server(llama: FakeOllama, golden: Golden) -> None:
    golden("examples/metrics.txt", shown(call("metrics", "--url", f"llama2-7b={llama.url}", columns=80)))


def test_chat(tmp_path: Path, golden: Golden) -> None:
    with (
        ollama("llama2:7b", pieces=["Is a shared GPU", " a shared kitchen?"]) as llama,
        ollama("mistral:7b", pieces=["Yes: cook what fits,", " and wait for the stove."]) as mistral,
    ):
        urls = [f"--url={name}={server.url}" for name, server in (("llama2-7b", llama), ("mistral-7b", mistral))]
        ended = call("chat", *urls, "--turns", "2", "--transcript", "talk.md", cwd=tmp_path, columns=80)
    golden("examples/chat.txt", shown(ended))


def test_report(tmp_path: Path, golden: Golden) -> None:
    write(mps(), tmp_path / "mps.json")
    golden("examples/report.txt", shown(call("report", "mps.json", "-o", "report", cwd=tmp_path, columns=80)))


def test_open_until_ctrl_c(llama: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    (tmp_path / "Pulumi.dev.yaml").write_text(f"{text}{PAGE}", encoding="utf-8")
    llama.answers["/health"] = {"status": True}
    cluster = well()
    cluster.url = llama.url
    monkeypatch.setattr(page, "reached", lambda parsed: nullcontext(connected(cluster)))
    monkeypatch.setattr(page, "sleep", interrupt)
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    golden("examples/open.txt", shown(call("open", "dev", cwd=tmp_path, columns=80)).replace("11434", str(PORT)))


def test_run_of_one_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with (
        ollama("llama2:7b", pieces=["A daemon", " that lets processes share a GPU."]) as llama,
        reachable(tmp_path, {"llama2-7b": llama}) as stack,
    ):
        ended = call("run", str(stack.file), "llama2:7b", "What is MPS?", *stack.way, columns=80)
    golden("examples/run.txt", shown(ended))


def test_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with (
        ollama("llama2:7b") as llama,
        ollama("mistral:7b") as mistral,
        reachable(tmp_path, {"llama2-7b": llama, "mistral-7b": mistral}) as stack,
    ):
        ended = call("env", str(stack.file), *stack.way, columns=80)
        call("env", str(stack.file), "--stop")
    said = ended.stdout.replace(str(stack.file), "dev")
    for number, port in enumerate(dict.fromkeys(re.findall(r"127\.0\.0\.1:(\d+)", said)), 41181):
        said = said.replace(port, str(number))
    golden("examples/env.txt", said)
