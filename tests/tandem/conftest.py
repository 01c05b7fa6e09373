"""Fixtures for the commands of several packages."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.bench.stream import Sender
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama
from tests.command import Ended, call
from tests.tandem.fake_network import ClockedNetwork, Network, transport
from tests.tandem.fake_ollama import FakeOllama, ollama

LOAD = ("--prompt-words", "8", "--output-tokens", "4", "--concurrency", "2", "--requests", "3", "--repeats", "1")


@pytest.fixture(autouse=True)
def without_garbage_of_other_tests(request: pytest.FixtureRequest) -> None:
    """A benchmark collects garbage before it measures, half a second for the objects of a whole test run."""
    if "bench" in request.path.name:
        gc.freeze()


@pytest.fixture
def llama() -> Iterator[FakeOllama]:
    """A small but real server of one model."""
    with ollama("llama2:7b") as server:
        yield server


@pytest.fixture
def mistral() -> Iterator[FakeOllama]:
    """The server of the other model."""
    with ollama("mistral:7b") as server:
        yield server


class Servers(dict[str, FakeOllama]):
    """Two servers in memory, which `tandem bench` uses instead of the network, and the file of its result."""

    late_ns = 0
    path: Path

    def network(self, url: str) -> Network:
        return Network(self[url.removeprefix("http://")])

    def change(self, **changes: Any) -> None:
        """Changes both servers."""
        for server in self.values():
            vars(server).update(changes)

    @property
    def prompts(self) -> list[str]:
        """The prompts to both servers."""
        return [body["prompt"] for server in self.values() for body in server.requests]

    def bench(self, *more: str, names: str = "ab", path: Path | None = None) -> Ended:
        """Runs the command against the servers with those names."""
        urls = [part for name in names for part in ("--url", f"{name}=http://{name}")]
        return call("bench", *urls, "-o", str(path or self.path), *LOAD, *more)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Servers:
    """Servers whose models are on the GPU."""
    found = Servers(a=FakeOllama(), b=FakeOllama())
    found.path = tmp_path / "r.json"

    def asked(endpoint: Endpoint) -> Ollama:
        return Ollama(endpoint, transport=transport(found.network(endpoint.url)))

    def sender(url: str, **options: Any) -> Sender:
        return Sender(url, **options, network=ClockedNetwork(found.network(url), found.late_ns))

    monkeypatch.setattr("tandem.bench.measuring.Ollama", asked)
    monkeypatch.setattr("tandem.bench.run.Sender", sender)
    return found
