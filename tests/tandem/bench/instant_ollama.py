"""Ollama servers without a network or a process: they answer at once, and note every prompt."""

import asyncio
import gc
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tandem.bench.stream import Exchange
from tandem.command import main
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Memory
from tandem.deployed.ollama_replies import Details, Model

LOAD = ("--prompt-words", "8", "--output-tokens", "4", "--concurrency", "2", "--requests", "3", "--repeats", "1")


@dataclass
class Instant:
    """What the servers are, by name, and what they were asked."""

    monkeypatch: pytest.MonkeyPatch
    version: str = "0.32.15"
    digest: str = "d"
    quantization: str = "Q4_0"
    places: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """Bytes, and bytes on the GPU; None: not listed as loaded. The others are on the GPU."""
    refusing: frozenset[str] = frozenset()
    step_ns: int = 1_000_000
    """Between the pieces; below 0 as if somebody set the clock."""
    prompts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.monkeypatch.setattr("tandem.bench.measuring.Ollama", lambda endpoint: Described(self, endpoint))
        self.monkeypatch.setattr("tandem.bench.run.Sender", lambda url, **_: Answering(self, url.rpartition("/")[2]))

    def bench(self, path: Path, *more: str, names: str = "ab") -> int:
        """Runs the command against servers of those names."""
        urls = [part for name in names for part in ("--url", f"{name}=http://127.0.0.1/{name}")]
        return main(["bench", *urls, "-o", str(path), *LOAD, *more])


class Described:
    """What a server says about itself."""

    def __init__(self, servers: Instant, endpoint: Endpoint) -> None:
        self._servers, self.endpoint = servers, endpoint

    def __enter__(self) -> "Described":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def with_model(self) -> Endpoint:
        return replace(self.endpoint, model="tiny:1b")

    def version(self) -> str:
        return self._servers.version

    def models(self) -> list[Model]:
        details = Details(family="llama", parameter_size="1B", quantization_level=self._servers.quantization)
        return [Model(name="tiny:1b", digest=self._servers.digest, details=details)]

    def memory(self) -> Memory | None:
        place = self._servers.places.get(self.endpoint.id, (2**30, 2**30))
        if place is None:
            return None
        return Memory(size=place[0], size_vram=place[1], context=4096, expires="")


class Answering:
    """A server that answers each request with two pieces."""

    def __init__(self, servers: Instant, name: str) -> None:
        self._servers, self._name = servers, name

    async def close(self) -> None:
        await asyncio.sleep(0)

    async def exchange(self, body: Mapping[str, Any], into: Exchange) -> None:
        self._servers.prompts.append(str(body["prompt"]))
        into.sent_ns = time.monotonic_ns()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            into.failure = "stopped at the end of the run"
            raise
        if self._name in self._servers.refusing:
            into.status, into.parts = 503, [(into.sent_ns, b'{"error": "server busy"}')]
            return
        last = {"done": True, "eval_count": 2, "done_reason": "length"}
        lines = [{"response": "one"}, {"response": "two"}, last]
        into.status = 200
        into.parts = [
            (into.sent_ns + self._servers.step_ns * number, json.dumps(line).encode() + b"\n")
            for number, line in enumerate(lines, start=1)
        ]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Instant]:
    """Servers on the GPU. Each run collects garbage twice, which takes long with all that a test session has loaded."""
    gc.freeze()
    yield Instant(monkeypatch)
    gc.unfreeze()
