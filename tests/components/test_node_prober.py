"""The reader of the node as it runs in the cluster, against a server that answers as the Kubernetes API does."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.share_promise import promises, to_node
from sharing.gpus import gpus
from sharing.modes import Mps
from tests.components.node_reader import read_node

PROMISE = to_node(promises(Mps(replicas=4), gpus()["t4"], 1))
LABELS = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
Answer = tuple[int, dict[str, Any]]


def node(shares: str | None = "4", **labels: str) -> Answer:
    """A node that offers so many shares; labels by the last part of their name."""
    changed = {label: labels.get(label.rpartition(".")[2].replace("-", "_"), value) for label, value in LABELS.items()}
    allocatable = {"cpu": "4", **({} if shares is None else {"nvidia.com/gpu": shares})}
    present = {label: value for label, value in changed.items() if value}
    return 200, {"metadata": {"name": "gpu-0", "labels": present}, "status": {"allocatable": allocatable}}


class Server(ThreadingHTTPServer):
    """Gives one answer after the other, the last one again and again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        answers = self.server.answers
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def read(server: Server, folder: Path, *answers: Answer, limit: str = "60") -> tuple[int, str]:
    """Runs the reader to its end; returns its status and what it printed."""
    server.answers = list(answers)
    return run(server.server_port, folder, limit)


def run(port: int, folder: Path, limit: str) -> tuple[int, str]:
    return read_node(folder, f"http://127.0.0.1:{port}", "gpu-0", PROMISE, token="secret\n", limit=limit)


def test_a_node_that_offers_what_was_promised_is_proved_by_a_second_look(server: Server, tmp_path: Path) -> None:
    status, text = read(server, tmp_path, node())
    assert status == 0, text
    assert json.loads(text) == {
        "proved": "4 shares of nvidia.com/gpu on a node with 1 T4: 4 to a card, 3,840 MiB each, enforced",
        "node": "gpu-0",
        "allocatable": {"nvidia.com/gpu": "4"},
        "labels": LABELS,
    }
    assert server.asked == [("/api/v1/nodes/gpu-0", "Bearer secret")] * 2


def test_a_node_that_still_changes_is_waited_for(server: Server, tmp_path: Path) -> None:
    forbidden = 403, {"message": 'nodes "gpu-0" is forbidden'}
    changing = (forbidden, node("1", replicas="1"), node(), node(None), node())
    status, text = read(server, tmp_path, *changing)
    assert status == 0, text
    assert len(server.asked) == len(changing) + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (node("2"), "- it offers 2 nvidia.com/gpu, 4 were promised"),
        (node(None), "- it offers no nvidia.com/gpu, 4 were promised"),
        (node("8"), "- it offers 8 nvidia.com/gpu, 4 were promised"),
        (
            node(sharing_strategy="time-slicing"),
            "- its label nvidia.com/gpu.sharing-strategy is time-slicing, promised was mps",
        ),
        (node(replicas=""), "- its label nvidia.com/gpu.replicas is missing, promised was 4"),
        ((403, {"message": "nodes is forbidden"}), "- the API server did not tell: 403 nodes is forbidden"),
        ((200, {"metadata": {}}), "- it offers no nvidia.com/gpu, 4 were promised"),
    ],
)
def test_a_node_that_offers_something_else_is_refused_with_promise_and_fact(
    server: Server, tmp_path: Path, answer: Answer, said: str
) -> None:
    status, text = read(server, tmp_path, answer, limit="0.2")
    assert status == 1
    assert text.startswith("promised: 4 shares of nvidia.com/gpu on a node with 1 T4: 4 to a card, 3,840 MiB each")
    assert "saw: node gpu-0 for 0.2 s" in text
    assert said in text
    assert text.endswith("Then run `pulumi up` again: it proves anew.")


def test_a_server_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        status, text = run(deaf.getsockname()[1], tmp_path, limit="0.2")
    assert status == 1
    assert "- the API server did not tell: " in text
    assert "refused" in text
