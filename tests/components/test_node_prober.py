"""The node's reader, against a server that answers like the Kubernetes API."""

import json
import socket
import subprocess
import sys
from http.client import BadStatusLine
from pathlib import Path
from unittest.mock import Mock

import pytest

from components.share_proof.expectation import expectations, node_expectation
from components.share_proof.in_pod.node import Plugin, _message, prove
from components.share_proof.jobs import script_texts
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Mps
from tests.components.json_server import Answer, Request, serve
from tests.components.node_reader import environment_of, read_node

FOUR, T4 = Mps(replicas=4), gpus()["t4"]
EXPECTED = node_expectation(FOUR, T4, expectations(FOUR, T4, 1))
LABELS = {
    "nvidia.com/gpu.sharing-strategy": "mps",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/mps.capable": "true",
}


def node(shares: str | None = "4", **labels: str) -> Answer:
    """A node that offers `shares`. Labels are given by the last part of their name."""
    changed = {label: labels.get(label.rpartition(".")[2].replace("-", "_"), value) for label, value in LABELS.items()}
    allocatable = {"cpu": "4", **({} if shares is None else {"nvidia.com/gpu": shares})}
    present = {label: value for label, value in changed.items() if value}
    return 200, {"metadata": {"name": "gpu-0", "labels": present}, "status": {"allocatable": allocatable}}


def run(port: int, folder: Path, limit: str) -> tuple[int, str]:
    """Runs the reader. Returns its exit status and its output."""
    return read_node(folder, f"http://127.0.0.1:{port}", "gpu-0", EXPECTED, token="secret\n", limit=limit)


def read(folder: Path, *answers: Answer, limit: str = "60") -> tuple[int, str, list[Request]]:
    """Runs the reader against a server that gives one answer after the other, and repeats the last one."""
    left = [*answers]
    with serve(lambda _: left.pop(0) if len(left) > 1 else left[0]) as server:
        return *run(server.server_port, folder, limit), server.asked


def test_a_node_with_the_expected_shares_is_proved_by_a_second_look(tmp_path: Path) -> None:
    status, text, asked = read(tmp_path, node())
    assert status == 0, text
    assert json.loads(text) == {
        "proved": "4 shares of nvidia.com/gpu on a node with 1 T4: 4 per GPU, 3,840 MiB each, enforced",
        "node": "gpu-0",
        "allocatable": {"nvidia.com/gpu": "4"},
        "labels": LABELS,
    }
    assert [(one.path, one.authorization) for one in asked] == [("/api/v1/nodes/gpu-0", "Bearer secret")] * 2


def test_the_reader_waits_for_a_node_that_still_changes(tmp_path: Path) -> None:
    forbidden = 403, {"message": 'nodes "gpu-0" is forbidden'}
    changing = (forbidden, node("1", replicas="1"), node(), node(None), node())
    status, text, asked = read(tmp_path, *changing)
    assert status == 0, text
    assert len(asked) == len(changing) + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (node("2"), "- it advertises 2 nvidia.com/gpu, expected 4"),
        (node(None), "- it advertises no nvidia.com/gpu, expected 4"),
        (node("8"), "- it advertises 8 nvidia.com/gpu, expected 4"),
        (
            node(sharing_strategy="time-slicing"),
            "- its label nvidia.com/gpu.sharing-strategy is time-slicing, expected mps",
        ),
        (node(replicas=""), "- its label nvidia.com/gpu.replicas is missing, expected 4"),
        (
            (403, {"message": "nodes is forbidden"}),
            "- cannot read the node from the API server: 403 nodes is forbidden",
        ),
        ((200, {"metadata": {}}), "- it advertises no nvidia.com/gpu, expected 4"),
    ],
)
def test_a_node_with_other_shares_fails_with_expected_and_observed_values(
    tmp_path: Path, answer: Answer, said: str
) -> None:
    status, text, _ = read(tmp_path, answer, limit="0.05")
    assert status == 1
    assert text.startswith("expected: 4 shares of nvidia.com/gpu on a node with 1 T4: 4 per GPU, 3,840 MiB each")
    assert "found: node gpu-0, for 0.05 s" in text
    assert said in text
    assert text.endswith("Then run `pulumi up` again to repeat the proof.")


@pytest.mark.real_world(
    behaviour="A device plugin whose shares the kubelet lost advertises 0 until its pod is replaced",
    source="NVIDIA/k8s-device-plugin issue 1645; kubelet devicemanager/manager.go, PluginDisconnected",
)
def test_a_node_without_shares_fails_with_a_command_that_replaces_the_plugins_pod(tmp_path: Path) -> None:
    status, text, _ = read(tmp_path, node("0"), limit="0.05")
    assert status == 1
    assert "- it advertises 0 nvidia.com/gpu, expected 4" in text
    command = (
        "`kubectl -n nvidia-device-plugin delete pod -l app.kubernetes.io/name=nvidia-device-plugin "
        "--field-selector spec.nodeName=gpu-0`"
    )
    assert command in text.splitlines()
    # The same where the plugin has never registered.
    assert command in read(tmp_path / "never", node(None), limit="0.05")[1].splitlines()
    assert "delete" not in read(tmp_path / "other", node("2"), limit="0.05")[1]


def test_a_server_that_accepts_and_says_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.share_proof.in_pod.node.ANSWER_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        status, text = run(silent.getsockname()[1], tmp_path, limit="0.01")
    assert status == 1
    assert "- cannot read the node from the API server: timed out" in text


def test_a_server_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        status, text = run(deaf.getsockname()[1], tmp_path, limit="0.05")
    assert status == 1
    assert "- cannot read the node from the API server: " in text
    assert "refused" in text
    # Nobody knows what the plugin does.
    assert "Check the API server with `kubectl get nodes`." in text


@pytest.mark.parametrize("error", [ConnectionResetError("hung up"), ValueError("no JSON"), BadStatusLine("SSH")])
def test_the_reader_pauses_after_a_reply_that_is_no_node(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr("time.sleep", paused.append)
    answers = Mock(side_effect=[error, node()[1], node()[1], error, error])
    plugin = Plugin("nvidia-device-plugin", "app=plugin")
    assert prove(EXPECTED, "gpu-0", answers, 60, 5, plugin)[0]
    assert paused == [5, 5]
    kept, text = prove(EXPECTED, "gpu-0", answers, -1, 5, plugin)
    assert (kept, len(paused)) == (False, 2)
    assert f"- cannot read the node from the API server: {error}\n" in text


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_a_reply_without_a_message_is_shown_as_it_is(body: bytes) -> None:
    assert _message(body) == body.decode()
    assert _message(b"\xff" * 201) == "\ufffd" * 200, "cut, and readable"


def test_other_shares_and_labels_lead_to_the_logs_of_the_plugin(tmp_path: Path) -> None:
    _, text, _ = read(tmp_path, node("2"), limit="0.05")
    assert (
        "`kubectl -n nvidia-device-plugin get pod -l app.kubernetes.io/name=nvidia-device-plugin "
        "--field-selector spec.nodeName=gpu-0`"
    ) in text.splitlines()


def test_a_node_that_is_right_in_the_last_look_alone_is_not_proved(tmp_path: Path) -> None:
    status, text, asked = read(tmp_path, node(), limit="-1")
    assert (status, len(asked)) == (1, 1)
    assert "- all as expected, but only in the last check" in text


@pytest.mark.slow
def test_the_reader_needs_only_its_shipped_files(tmp_path: Path) -> None:
    (tmp_path / "in_pod").mkdir()
    for name, text in script_texts().items():
        (tmp_path / "in_pod" / name).write_text(text, encoding="utf-8")
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    with serve(lambda _: node()) as server:
        settings = environment_of(tmp_path, f"http://127.0.0.1:{server.server_port}", "gpu-0", EXPECTED, "60")
        command = [sys.executable, "-B", "-m", "in_pod.node"]
        done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)["node"]) == (0, "gpu-0"), done.stderr
