"""The sidecar's reaction to each reply of a server. tests/ollama uses the real server."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import Message
from http.client import IncompleteRead
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError

import pytest

from components.ollama_pair.model_watch import Watch, main, reported
from tests.components.json_server import Answer, JsonServer, Request, serve


class Ollama:
    """Gives the same reply to every request for the model, and lists these models in memory."""

    reply: Answer = (200, {})
    during: Callable[[], object] = staticmethod(lambda: None)
    listed: Sequence[Mapping[str, object]] = ()

    def __call__(self, asked: Request) -> Answer:
        if asked.method == "GET":
            return 200, {"models": [*self.listed]}
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
    return Watch(environment_of(server, tmp_path))


def environment_of(server: JsonServer, folder: Path) -> dict[str, str]:
    seconds = dict.fromkeys(("LOAD_SECONDS", "TOKEN_SECONDS", "IDLE_SECONDS"), "20")
    place = {"SERVER": f"http://127.0.0.1:{server.server_port}", "DIRECTORY": str(folder)}
    return {"MODEL": "m", "CONTEXT": "4096", "PERIOD_SECONDS": "30", "RETRY_SECONDS": "10", **place, **seconds}


LOST: Answer = (500, {"error": "llama-server process has terminated: exit status 1"})


@pytest.mark.parametrize(
    "answer",
    [
        (503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
        (499, {"error": "request canceled"}),
        (404, {"error": "model 'm' not found"}),
        (400, {"error": '"m" does not support generate'}),
        (500, {"error": "no slots available after 10 retries"}),
        (500, {"error": "llm server not responding"}),
        (500, {"error": "timed out waiting for llama runner to start"}),
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


@pytest.mark.parametrize("error", [IncompleteRead(b""), ConnectionResetError()])
def test_a_reply_that_stops_early_has_no_error_message(error: Exception) -> None:
    broken = Mock(read=Mock(side_effect=error))
    assert reported(HTTPError("http://localhost", 500, "", Message(), broken)) == ""


@pytest.mark.parametrize("error", [IncompleteRead(b""), ConnectionResetError(), ValueError("no JSON")])
def test_a_server_that_hangs_up_is_busy(
    error: Exception, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", Mock(side_effect=error))
    watch.look()
    watch.settle()
    assert (tmp_path / "ready").exists()
    assert capsys.readouterr().out == f"m is busy: {error}\n"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_a_reply_of_another_form_has_no_error_message(body: bytes) -> None:
    assert reported(HTTPError("http://localhost", 500, "", Message(), BytesIO(body))) == ""


def test_a_model_that_is_not_loaded_yet_is_not_ready(server: JsonServer, watch: Watch, tmp_path: Path) -> None:
    watch.look()
    assert (tmp_path / "ready").exists()
    server.asked.clear()
    (tmp_path / "started").unlink()
    watch.look()
    assert not (tmp_path / "ready").exists()
    assert server.asked == []


def test_an_error_message_is_one_short_line() -> None:
    body = BytesIO(json.dumps({"error": "a\nb" + "c" * 1000}).encode())
    assert reported(HTTPError("http://localhost", 500, "", Message(), body)) == "a b" + "c" * 497


def test_a_reply_between_errors_resets_the_count(
    ollama: Ollama, server: JsonServer, watch: Watch, tmp_path: Path
) -> None:
    for status in (LOST, LOST, (200, {}), LOST, LOST):
        ollama.reply = status
        watch.look()
        assert (tmp_path / "ready").exists() == (status[0] == 200)
    assert not (tmp_path / "lost").exists()
    ollama.reply = LOST
    watch.look()
    assert "llama-server process has terminated" in (tmp_path / "lost").read_text()
    # Otherwise it would go on asking a server that `model_start.sh` stops.
    assert not (tmp_path / "started").exists()
    server.asked.clear()
    watch.look()
    assert server.asked == []
    assert not watch.has_errors, "a server that starts again has none"


def test_a_server_that_stops_by_itself_is_lost_too(ollama: Ollama, watch: Watch, tmp_path: Path) -> None:
    ollama.reply = LOST
    watch.look()
    watch.look()
    ollama.during = (tmp_path / "started").unlink
    watch.look()
    assert (tmp_path / "lost").exists()


def test_a_busy_server_between_errors_does_not_reset_the_count(ollama: Ollama, watch: Watch, tmp_path: Path) -> None:
    for status in (LOST, LOST, (503, {"error": "server busy"}), LOST):
        ollama.reply = status
        watch.look()
        assert not (tmp_path / "ready").exists()
    assert (tmp_path / "lost").exists()


def test_a_model_is_unready_and_unloaded_when_nobody_checks_its_mps_daemon_any_more(
    ollama: Ollama, server: JsonServer, watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # `model_start.sh` needs 40 seconds for a question to a slow daemon.
    for seconds in (0, 40, 61):
        (tmp_path / "mps").touch()
        checked_at = time.time() - seconds
        os.utime(tmp_path / "mps", (checked_at, checked_at))
        server.asked.clear()
        watch.look()
        assert (tmp_path / "ready").exists() == (seconds <= 40)
    # Without a prompt and with this keep_alive, Ollama ends the model's process (v0.32.15 server/routes.go, line 403).
    assert [asked.body for asked in server.asked] == [{"model": "m", "stream": False, "keep_alive": 0}]
    assert capsys.readouterr().out.endswith("so m was unloaded. Delete this pod.\n")
    for ollama.reply in (LOST, (503, {})):
        watch.look()
        assert "m must be unloaded, which failed" in capsys.readouterr().out
    assert not (tmp_path / "lost").exists(), "nobody reads it any more"


def test_a_reply_that_arrives_after_the_end_of_the_mps_daemon_makes_nothing_ready(
    ollama: Ollama, watch: Watch, tmp_path: Path
) -> None:
    ollama.during = (tmp_path / "started").unlink
    watch.look()
    assert not (tmp_path / "ready").exists()


LOAD = {"model": "m", "stream": False}
TOKEN = {"model": "m", "prompt": "a", "raw": True, "stream": False, "options": {"num_predict": 1}}
"""Requests of Ollama's API (ollama v0.32.15 docs/api.md): an empty one loads, and a raw prompt has no template."""


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def entry(expires: str, name: str = "m", context: int = 4096) -> dict[str, object]:
    return {"name": name, "model": name, "expires_at": expires, "context_length": context}


def asked(server: JsonServer, watch: Watch) -> list[object]:
    """The bodies of the requests of one look."""
    server.asked.clear()
    watch.look()
    watch.settle()
    return [one.body for one in server.asked if one.method == "POST"]


def test_the_gpu_is_used_only_after_a_time_without_clients(
    ollama: Ollama, server: JsonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    (tmp_path / "started").touch()
    watch, ollama.listed = Watch(environment_of(server, tmp_path)), [entry("1")]
    watch.settle()
    clock.now += 19.9
    assert asked(server, watch) == [LOAD]
    clock.now += 0.1
    assert asked(server, watch) == [LOAD, TOKEN]
    # A client's request has moved the expiry: its prompt must stay in the cache.
    ollama.listed = [entry("2")]
    assert asked(server, watch) == [LOAD]
    clock.now += 20
    # No client has used a model that is no longer in memory.
    ollama.listed = []
    assert asked(server, watch) == [LOAD, TOKEN]
    # While the server did not answer, a client may have used it.
    ollama.listed = [entry("2")]
    watch.settle()
    server.answer = lambda _: (503, {})
    watch.settle()
    server.answer = ollama
    assert asked(server, watch) == [LOAD]


def test_each_request_has_its_own_time_limit(
    server: JsonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[str, object, float]] = []

    def answer(url: str, data: bytes | None, seconds: float) -> BytesIO:
        limits.append((url.rpartition("/api/")[2], json.loads(data or b"{}").get("prompt"), seconds))
        return BytesIO(b"{}")

    monkeypatch.setattr("urllib.request.urlopen", answer)
    own = {"LOAD_SECONDS": "300", "TOKEN_SECONDS": "60", "IDLE_SECONDS": "0"}
    watch = Watch({**environment_of(server, tmp_path), **own})
    (tmp_path / "started").touch()
    watch.look()
    (tmp_path / "mps").touch()
    os.utime(tmp_path / "mps", (0, 0))
    watch.look()
    # Only what loads or waits for a slot may take long.
    assert limits == [("ps", None, 10), ("generate", None, 300), ("generate", "a", 60), ("generate", None, 10)]


def test_what_a_client_has_loaded_stays(ollama: Ollama, server: JsonServer, watch: Watch) -> None:
    for listed in (entry("1", name="other"), entry("1", context=8192)):
        ollama.listed = [listed]
        assert asked(server, watch) == []
    # A model has two names, of which one is ours.
    for own in (entry("1"), {**entry("1"), "name": "m:latest"}, {**entry("1"), "model": "m:latest"}):
        ollama.listed = [entry("1", name="other"), own]
        assert asked(server, watch) == [LOAD]
    ollama.listed = []
    assert asked(server, watch) == [LOAD]


def test_the_sidecar_settles_after_each_look_and_repeats_it_sooner_after_an_error(
    ollama: Ollama, server: JsonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    handlers: dict[int, Any] = {}

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        ollama.reply = LOST
        if len(slept) == 4:
            raise SystemExit(5)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    (tmp_path / "started").touch()
    with pytest.raises(SystemExit, match="5"):
        main(environment_of(server, tmp_path))
    assert slept == [1, 30, 1, 10]
    # Two looks, and what each has changed.
    assert [one.path for one in server.asked if one.method == "GET"] == ["/api/ps"] * 4
    with pytest.raises(SystemExit, match="0"):
        handlers[signal.SIGTERM]()
