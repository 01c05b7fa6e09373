"""Fixtures for the commands of several packages."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Ended, call
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
    """Two servers whose models are on the GPU, and the file of the result of `tandem bench`."""

    path: Path

    @property
    def prompts(self) -> list[str]:
        """The prompts to both servers."""
        return [body["prompt"] for server in self.values() for body in server.requests]

    def bench(self, *more: str, names: str = "ab", path: Path | None = None) -> Ended:
        """Runs the command against the servers with those names."""
        urls = [part for name in names for part in ("--url", f"{name}={self[name].url}")]
        return call("bench", *urls, "-o", str(path or self.path), *LOAD, *more)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Two small but real servers."""
    with ollama() as a, ollama() as b:
        servers = Servers(a=a, b=b)
        servers.path = tmp_path / "r.json"
        yield servers
