"""The exporter of metrics against the real Ollama server, with a stand-in for its engine."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.ollama_pair.model_metrics import Source, collect, render
from components.ollama_pair.values import metrics_container
from sharing.models.catalogue import models
from sharing.models.served import ServedModel
from tests.gpu.engine import free_port
from tests.ollama.test_model_start import OWN, FakeGpu, Server, engine_arguments, fake_gpu
from tests.ollama.test_model_watch import ask, engine

__all__ = ["fake_gpu"]
SCRIPT = Path(__file__).parents[2] / "components" / "ollama_pair" / "model_metrics.py"
COUNTERS = {
    "tandem_prompt_tokens_total",
    "tandem_prompt_seconds_total",
    "tandem_tokens_predicted_total",
    "tandem_tokens_predicted_seconds_total",
}
ENGINE = COUNTERS | {"tandem_requests_processing", "tandem_requests_deferred"}


def values(text: str) -> dict[str, float]:
    """The samples by name, as Prometheus' own library reads them. They all belong to one model."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {tuple(sample.labels.items()) for sample in samples} == {(("id", "tiny"), ("model", OWN))}
    assert len({sample.name for sample in samples}) == len(samples)
    return {sample.name: sample.value for sample in samples}


def pod_sockets(server: Server) -> Path:
    """The kernel's table of sockets as in the pod, where nobody but the server and its engine listens."""
    folder = server.folder / "net"
    folder.mkdir(exist_ok=True)
    started = engine(server, "arguments")
    words = engine_arguments(server).split() if started.exists() else ["--port", "0"]
    ports = [int(words[words.index("--port") + 1]), int(server.environment["OLLAMA_HOST"].rpartition(":")[2])]
    for table in ("tcp", "tcp6"):
        head, *lines = Path("/proc/net", table).read_text().splitlines()
        kept = [line for line in lines if int(line.split()[1].rpartition(":")[2], 16) in ports]
        (folder / table).write_text("\n".join([head, *kept, ""]))
    return folder


def read(server: Server) -> dict[str, float]:
    url = f"http://{server.environment['OLLAMA_HOST']}"
    return values(render(collect(Source(id="tiny", model=OWN, server=url, sockets=pod_sockets(server)))))


@pytest.fixture
def with_metrics(monkeypatch: pytest.MonkeyPatch, fake_gpu: FakeGpu) -> FakeGpu:
    """A server whose engine counts, as in a stack with metrics."""
    monkeypatch.setenv("LLAMA_ARG_ENDPOINT_METRICS", "1")
    return fake_gpu


def test_nothing_is_loaded_then_a_model_is_on_the_gpu_and_its_tokens_are_counted(with_metrics: FakeGpu) -> None:
    server = with_metrics("full", 14900)
    before = read(server)
    assert before == {"tandem_ollama_up": 1, "tandem_model_loaded": 0, "tandem_client_connections": 0}

    assert server.start().exit_code == 0
    loaded = read(server)
    assert loaded["tandem_model_loaded"] == 1
    # The engine logs 70.31 MiB on the CPU, which Ollama leaves out, and 3,577.56 + 1,024 MiB on the GPU.
    assert loaded["tandem_model_size_bytes"] == loaded["tandem_model_size_vram_bytes"]
    assert loaded["tandem_model_size_vram_bytes"] == pytest.approx(4601.56 * 2**20, rel=0.05)
    assert loaded["tandem_model_context_tokens"] == 8192
    assert loaded["tandem_model_expires_timestamp_seconds"] > 10_000_000_000, "it never expires: after the year 2286"
    assert set(loaded) >= ENGINE

    ask(server, "three words here", num_predict=40).join()
    after = read(server)
    assert after["tandem_tokens_predicted_total"] - loaded["tandem_tokens_predicted_total"] == 40
    assert after["tandem_prompt_tokens_total"] > loaded["tandem_prompt_tokens_total"]
    assert after["tandem_tokens_predicted_seconds_total"] - loaded["tandem_tokens_predicted_seconds_total"] == (
        pytest.approx(0.0025)
    )


def test_a_request_that_the_engine_works_on_is_counted_and_one_that_waits_in_ollama_is_not(
    with_metrics: FakeGpu,
) -> None:
    """The server has one slot, so the engine never sees the second request."""
    server = with_metrics("full", 14900)
    server.start()
    engine(server, "hold").touch()
    clients = [ask(server), ask(server)]
    while not (found := read(server)).get("tandem_requests_processing"):
        time.sleep(0.02)
    assert (found["tandem_requests_processing"], found["tandem_requests_deferred"]) == (1, 0)
    engine(server, "hold").unlink()
    for client in clients:
        client.join()


def test_the_sidecar_serves_it_until_it_is_stopped(with_metrics: FakeGpu, tmp_path: Path) -> None:
    """Its program with the environment of its container, on a port of this machine."""
    server, port = with_metrics("full", 14900), free_port()
    server.start()
    (tmp_path / "ready").touch()
    given = metrics_container(ServedModel.of(models()["llama3.2:1b"], id="tiny", context=8192, slots=1))
    environment = {one["name"]: one["value"] for one in given["env"]} | {
        "MODEL": OWN,
        "SERVER": f"http://{server.environment['OLLAMA_HOST']}",
        "READY": str(tmp_path / "ready"),
        "PORT": str(port),
    }
    process = subprocess.Popen([sys.executable, "-u", "-B", SCRIPT], env={"PATH": os.environ["PATH"], **environment})
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None
            time.sleep(0.02)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            found = values(answer.read().decode())
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
    assert (found["tandem_ollama_up"], found["tandem_model_loaded"], found["tandem_model_ready"]) == (1, 1, 1)
