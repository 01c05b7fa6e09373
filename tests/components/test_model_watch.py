"""The sidecar's reaction to each reply of a server. tests/ollama uses the real server."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from components.ollama_pair.model_watch import MPS_SECONDS, Watch

pytestmark = pytest.mark.slow


class Server(ThreadingHTTPServer):
    """Gives the same reply to every request for the model."""

    answer: tuple[int, dict[str, str]] = (200, {})
    asked: list[dict[str, object]]
    during: Callable[[], object] = staticmethod(lambda: None)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._say(200, {"models": []})

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.during()
        self._say(*self.server.answer)

    def _say(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def watch(server: Server, tmp_path: Path) -> Watch:
    (tmp_path / "started").touch()
    seconds = dict.fromkeys(("LOAD_SECONDS", "TOKEN_SECONDS", "IDLE_SECONDS"), "20")
    place = {"SERVER": f"http://127.0.0.1:{server.server_port}", "DIRECTORY": str(tmp_path)}
    return Watch({"MODEL": "m", "CONTEXT": "4096", **place, **seconds})


LOST = (500, {"error": "llama-server process has terminated: exit status 1"})


@pytest.mark.parametrize(
    "answer",
    [
        (503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
        (499, {"error": "request canceled"}),
        (404, {"error": "model 'm' not found"}),
        (400, {"error": '"m" does not support generate'}),
        (500, {"error": "no slots available after 10 retries"}),
        (500, {}),
    ],
    ids=lambda answer: f"{answer[0]} {answer[1].get('error', '')[:8]}",
)
def test_only_an_error_of_the_model_counts(
    server: Server, watch: Watch, tmp_path: Path, answer: tuple[int, dict[str, str]]
) -> None:
    server.answer = answer
    for _ in range(5):
        watch.look()
    assert (tmp_path / "ready").exists()
    assert not (tmp_path / "lost").exists()


def test_a_reply_between_errors_resets_the_count(server: Server, watch: Watch, tmp_path: Path) -> None:
    for status in (LOST, LOST, (200, {}), LOST, LOST):
        server.answer = status
        watch.look()
        assert (tmp_path / "ready").exists() == (status[0] == 200)
    assert not (tmp_path / "lost").exists()
    server.answer = LOST
    watch.look()
    assert "llama-server process has terminated" in (tmp_path / "lost").read_text()


def test_a_busy_server_between_errors_does_not_reset_the_count(server: Server, watch: Watch, tmp_path: Path) -> None:
    for status in (LOST, LOST, (503, {"error": "server busy"}), LOST):
        server.answer = status
        watch.look()
        assert not (tmp_path / "ready").exists()
    assert (tmp_path / "lost").exists()


def test_a_model_is_unready_and_unloaded_when_nobody_checks_its_mps_daemon_any_more(
    server: Server, watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mps").touch()
    watch.look()
    assert (tmp_path / "ready").exists()
    server.asked.clear()
    checked_at = time.time() - MPS_SECONDS - 1
    os.utime(tmp_path / "mps", (checked_at, checked_at))
    watch.look()
    assert not (tmp_path / "ready").exists()
    # Without a prompt and with this keep_alive, Ollama ends the model's process (v0.32.15 server/routes.go, line 403).
    assert server.asked == [{"model": "m", "stream": False, "keep_alive": 0}]
    assert capsys.readouterr().out.endswith("so m was unloaded. Delete this pod.\n")
    server.answer = LOST
    watch.look()
    assert not (tmp_path / "lost").exists(), "nobody reads it any more"


def test_a_reply_that_arrives_after_the_end_of_the_mps_daemon_makes_nothing_ready(
    server: Server, watch: Watch, tmp_path: Path
) -> None:
    server.during = (tmp_path / "started").unlink
    watch.look()
    assert not (tmp_path / "ready").exists()
