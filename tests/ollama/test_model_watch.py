"""The sidecar that watches a model, against the real Ollama server with a stand-in for its engine.

No test waits for a time to pass: each waits until the sidecar has said something, or has written a file.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.ollama_pair.values import watch_container
from sharing.models.catalogue import models
from sharing.models.served import ServedModel
from tests.ollama.test_model_start import OWN, FakeGpu, Server, fake_gpu

SCRIPT = Path(__file__).parents[2] / "components" / "ollama_pair" / "model_watch.py"
__all__ = ["fake_gpu"]


class Sidecar:
    """The sidecar's process, and the folder that it shares with the server."""

    def __init__(self, server: Server, context: int = 8192, **settings: str) -> None:
        self.folder, self._log = server.folder / "watch", server.folder / "watch.log"
        self.folder.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "SERVER": f"http://{server.environment['OLLAMA_HOST']}",
            "MODEL": OWN,
            "CONTEXT": str(context),
            "DIRECTORY": str(self.folder),
            **dict.fromkeys(("PERIOD_SECONDS", "RETRY_SECONDS"), "0.05"),
            **{"LOAD_SECONDS": "60", "TOKEN_SECONDS": "1", "IDLE_SECONDS": "0"},
            **settings,
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-B", SCRIPT],
                env=environment,
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return self._log.read_text()

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def wait(self, seen: Callable[[], bool]) -> None:
        """Until that is so, or the sidecar has ended."""
        while not seen():
            assert self._process.poll() is None, self.log()
            time.sleep(0.02)

    def end(self) -> int:
        self._process.terminate()
        return self._process.wait(20)


@pytest.fixture
def server(fake_gpu: FakeGpu) -> Server:
    """A server whose model is loaded, as `model_start.sh` leaves it."""
    server = fake_gpu("full", 14900)
    (server.folder / "watch").mkdir()
    server.environment |= {"WATCH_DIRECTORY": str(server.folder / "watch"), "SERVER_PID": str(server.process.pid)}
    assert server.start().exit_code == 0
    return server


@pytest.fixture
def sidecar(server: Server) -> Iterator[Sidecar]:
    sidecar = Sidecar(server)
    sidecar.wait(lambda: sidecar.has("ready"))
    yield sidecar
    sidecar.end()


def engine(server: Server, name: str) -> Path:
    return server.folder / "lib" / "ollama" / name


def loads(server: Server) -> int:
    """How often an engine was started for a model."""
    return len(engine(server, "arguments").read_text().splitlines())


def ask(server: Server, prompt: str = "hello", **options: int) -> "threading.Thread":
    """A client's request, under way."""
    body = {"model": OWN, "prompt": prompt, "stream": False, "options": {"num_predict": 8, **options}}

    def send() -> None:
        try:
            url = f"http://{server.environment['OLLAMA_HOST']}/api/generate"
            urllib.request.urlopen(url, json.dumps(body).encode(), 60).read()
        except OSError:
            pass

    client = threading.Thread(target=send, daemon=True)
    client.start()
    return client


def check_alive(sidecar: Sidecar) -> None:
    assert sidecar.has("ready")
    assert not sidecar.has("lost")
    assert "has lost its GPU" not in sidecar.log()


def test_a_model_that_answers_is_ready_and_is_not_loaded_again(server: Server, sidecar: Sidecar) -> None:
    before = loads(server)
    ask(server).join()
    check_alive(sidecar)
    assert loads(server) == before
    assert sidecar.end() == 0


@pytest.mark.real_world(
    behaviour="A request waits in Ollama's queue while another one is answered, however long that takes",
    source="ollama v0.32.15 server/sched.go and llm/llama_server.go",
)
def test_an_answer_that_takes_ten_minutes_is_no_reason_to_restart(server: Server, sidecar: Sidecar) -> None:
    engine(server, "hold").touch()
    client = ask(server)
    sidecar.wait(lambda: sidecar.log().count(" is busy: ") >= 4)
    check_alive(sidecar)
    engine(server, "hold").unlink()
    client.join()
    check_alive(sidecar)


@pytest.mark.real_world(
    behaviour="Ollama answers 503 when its queue is full",
    source="ollama v0.32.15 server/sched.go and llm/llama_server.go",
)
def test_a_full_queue_is_no_reason_to_restart(fake_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MAX_QUEUE", "1")
    server = fake_gpu("full", 14900)
    engine(server, "loading").touch()
    clients = [ask(server) for _ in range(4)]
    log = server.folder / "server.log"
    sidecar = Sidecar(server, LOAD_SECONDS="1")
    (sidecar.folder / "started").touch()
    # At least one client was refused, and the sidecar has looked and asked meanwhile.
    sidecar.wait(lambda: "| 503 |" in log.read_text() and log.read_text().count('"/api/ps"') >= 6)
    assert not sidecar.has("lost")
    assert "has lost its GPU" not in sidecar.log()
    engine(server, "loading").unlink()
    sidecar.wait(lambda: sidecar.has("ready"))
    sidecar.end()
    for client in clients:
        client.join()


@pytest.mark.real_world(
    behaviour="A client that stops reading holds Ollama's only slot",
    source="ollama v0.32.15 server/sched.go and llm/llama_server.go",
)
def test_a_client_that_stops_reading_is_no_reason_to_restart(server: Server, sidecar: Sidecar) -> None:
    host, port = server.environment["OLLAMA_HOST"].split(":")
    body = json.dumps({"model": OWN, "prompt": "LONG", "options": {"num_predict": 4000}}).encode()
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /api/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        sidecar.wait(lambda: sidecar.log().count(" is busy: ") >= 4)
        check_alive(sidecar)


@pytest.mark.real_world(
    behaviour="A runner that lost its GPU ends, Ollama starts another one, and that one fails to load",
    source="ollama v0.32.15 server/sched.go and llm/llama_server.go",
)
def test_a_dead_runner_makes_the_pod_unready_and_restarts_the_server_after_three_errors(
    server: Server, sidecar: Sidecar
) -> None:
    engine(server, "lost").touch()
    server.process.wait(60)
    assert sidecar.log().count("has lost its GPU") == 3
    for count in (1, 2, 3):
        assert f"({count} of 3): " in sidecar.log()
    assert not sidecar.has("ready")
    # The next start of the container may load it again.
    assert not sidecar.has("started")
    assert "failed 3 times in a row" in (server.folder / "message").read_text()


def test_nothing_is_asked_before_the_model_was_loaded(fake_gpu: FakeGpu) -> None:
    server = fake_gpu("full", 14900)
    sidecar = Sidecar(server)
    client = ask(server)
    client.join()
    assert not sidecar.has("ready")
    assert sidecar.end() == 0
    assert sidecar.log() == ""


def test_a_context_that_a_client_chose_stays_loaded(server: Server) -> None:
    ask(server, num_ctx=4096).join()
    before, log = loads(server), server.folder / "server.log"
    sidecar = Sidecar(server)
    sidecar.wait(lambda: log.read_text().count('"/api/ps"') >= 6)
    assert loads(server) == before
    assert not sidecar.has("lost")
    sidecar.end()


def test_the_sidecar_gets_every_setting_that_its_script_reads() -> None:
    given = watch_container(ServedModel.of(models()["llama3.2:1b"], context=8192, slots=1))
    names = {one["name"] for one in given["env"]}
    text = SCRIPT.read_text()
    assert set(re.findall(r'environment\["([A-Z_]+)"\]', text)) <= names
    assert given["restartPolicy"] == "Always"
    assert "nvidia.com/gpu" not in json.dumps(given)
