"""The sidecar's reaction to each reply of a server. tests/ollama uses the real server."""

import os
import time
from collections.abc import Callable, Iterator
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from unittest.mock import Mock
from urllib.error import HTTPError

import pytest

from components.ollama_pair.model_watch import MPS_SECONDS, Watch, reported
from tests.components.json_server import Answer, JsonServer, Request, serve

pytestmark = pytest.mark.slow


class Ollama:
    """Gives the same reply to every request for the model, and lists no model in memory."""

    reply: Answer = (200, {})
    during: Callable[[], object] = staticmethod(lambda: None)

    def __call__(self, asked: Request) -> Answer:
        if asked.method == "GET":
            return 200, {"models": []}
        self.during()
        return self.reply


@pytest.fixture
def ollama() -> Ollama:
    return Ollama()


@pytest.fixture
def server(ollama: Ollama) -> Iterator[JsonServer]:
    with serve(ollama) as server:
        yield server


@pytest.fixture
def watch(server: JsonServer, tmp_path: Path) -> Watch:
    (tmp_path / "started").touch()
    seconds = dict.fromkeys(("LOAD_SECONDS", "TOKEN_SECONDS", "IDLE_SECONDS"), "20")
    place = {"SERVER": f"http://127.0.0.1:{server.server_port}", "DIRECTORY": str(tmp_path)}
    return Watch({"MODEL": "m", "CONTEXT": "4096", **place, **seconds})


LOST: Answer = (500, {"error": "llama-server process has terminated: exit status 1"})


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
    ollama: Ollama, watch: Watch, tmp_path: Path, answer: tuple[int, dict[str, str]]
) -> None:
    ollama.reply = answer
    for _ in range(5):
        watch.look()
    assert (tmp_path / "ready").exists()
    assert not (tmp_path / "lost").exists()


def test_a_reply_that_stops_early_has_no_error_message() -> None:
    broken = Mock(read=Mock(side_effect=IncompleteRead(b"")))
    assert reported(HTTPError("http://localhost", 500, "", Message(), broken)) == ""


def test_a_reply_between_errors_resets_the_count(ollama: Ollama, watch: Watch, tmp_path: Path) -> None:
    for status in (LOST, LOST, (200, {}), LOST, LOST):
        ollama.reply = status
        watch.look()
        assert (tmp_path / "ready").exists() == (status[0] == 200)
    assert not (tmp_path / "lost").exists()
    ollama.reply = LOST
    watch.look()
    assert "llama-server process has terminated" in (tmp_path / "lost").read_text()


def test_a_busy_server_between_errors_does_not_reset_the_count(ollama: Ollama, watch: Watch, tmp_path: Path) -> None:
    for status in (LOST, LOST, (503, {"error": "server busy"}), LOST):
        ollama.reply = status
        watch.look()
        assert not (tmp_path / "ready").exists()
    assert (tmp_path / "lost").exists()


def test_a_model_is_unready_and_unloaded_when_nobody_checks_its_mps_daemon_any_more(
    ollama: Ollama, server: JsonServer, watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    assert [asked.body for asked in server.asked] == [{"model": "m", "stream": False, "keep_alive": 0}]
    assert capsys.readouterr().out.endswith("so m was unloaded. Delete this pod.\n")
    ollama.reply = LOST
    watch.look()
    assert not (tmp_path / "lost").exists(), "nobody reads it any more"


def test_a_reply_that_arrives_after_the_end_of_the_mps_daemon_makes_nothing_ready(
    ollama: Ollama, watch: Watch, tmp_path: Path
) -> None:
    ollama.during = (tmp_path / "started").unlink
    watch.look()
    assert not (tmp_path / "ready").exists()
