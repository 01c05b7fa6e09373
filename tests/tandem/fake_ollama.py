"""An Ollama server with answers that a test defines, on a local port or in memory (`fake_network.Network`).

Its replies have the fields of the real ones: tests/ollama/test_fake_ollama.py compares them.
"""

import asyncio
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpcore

from tests.tandem.fake_network import Event, whole

GIB = 2**30
NDJSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
NOW = "2026-11-22T12:00:00.123456789Z"
REFUSALS = {"busy": "server busy", "refuses": ""}
DETAILS = {"format": "gguf", "family": "llama", "parameter_size": "1B", "quantization_level": "Q4_0"}
TOKEN_NS = 20_000_000
"""The duration that the server reports for a token: 50 tokens per second."""


@dataclass
class FakeOllama:
    """The models and behaviour of a server, and the requests that it got."""

    models: Sequence[str] = ("tiny:1b",)
    version: str = "0.32.15"
    digest: str = "d"
    size: int = 5 * GIB
    size_vram: int = 5 * GIB
    load_s: float = 0.0
    first_s: float = 0.0
    """Seconds before the first piece."""
    prompt_s: float | None = None
    """The part of them that it reports as the prompt's evaluation; None: all."""
    next_s: float = 0.0
    """Seconds before each other piece."""
    pieces: Sequence[str] | None = None
    """The pieces of its answer; None: `word0`, `word1`, … up to `num_predict`."""
    thinking: Sequence[str] = ()
    """The pieces of its thoughts before that."""
    endless: bool = False
    """The answer continues until the client disconnects."""
    fault: str = ""
    """`breaks` (closes the connection halfway), `stops` (no last piece), `says` (`error` in it), or a refusal."""
    fault_from: int = 0
    """Number of the first request, from 0, that has the fault or is endless."""
    fault_every: int = 1
    """From then on, one of this many requests has it."""
    error: str = "an error was encountered while running the model: CUDA error"
    answers: dict[str, Any] = field(default_factory=dict)
    """Replacement answers by path, as JSON or bytes."""
    status: dict[str, int] = field(default_factory=dict)
    """Status codes of those answers, if not 200."""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    sent: dict[str, list[int]] = field(default_factory=dict)
    """By prompt, in `time.monotonic_ns`: its arrival, and when each piece was passed to the socket."""
    url: str = ""

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests to the models."""
        return [body for path, body in self.asked if path in ("/api/generate", "/api/chat")]

    def events(self, path: str, body: Any) -> Iterator[Event]:
        """All bytes of the reply, with the pauses between them."""
        self.asked.append((path, body or {}))
        held = {"digest": self.digest, "details": DETAILS}
        listed = [{"name": name, "model": name, "size": self.size, **held} for name in self.models]
        own: dict[str, Any] = {
            "/api/version": {"version": self.version},
            "/api/tags": {"models": listed},
            "/api/ps": {"models": [loaded(name, self.size, self.size_vram) for name in self.models]},
            "/api/embed": {"model": "", "embeddings": [[0.0] * 384], "total_duration": 9, "load_duration": 5},
        }
        if path not in self.answers and path in ("/api/generate", "/api/chat"):
            yield from self._generate(path, body)
            return
        known = path in self.answers or path in own
        status = self.status.get(path, 200 if known else 404)
        if path == "/api/embed":
            yield self.load_s
        yield from whole(self.answers.get(path, own.get(path, b"404 page not found")), status)()

    def _figures(self, count: int) -> dict[str, int]:
        prompt_s = self.first_s if self.prompt_s is None else self.prompt_s
        before, prompt = round(1e9 * self.first_s), round(1e9 * prompt_s)
        return {
            "total_duration": before + TOKEN_NS * count, "load_duration": 1, "prompt_eval_count": 7,
            "prompt_eval_duration": prompt, "eval_count": count, "eval_duration": TOKEN_NS * count,
        }  # fmt: skip

    def _generate(self, path: str, body: Mapping[str, Any]) -> Iterator[Event]:
        number, stamps = next(self._numbers), self.sent.setdefault(str(body.get("prompt")), [])
        stamps.append(time.monotonic_ns())
        met = number >= self.fault_from
        fault = self.fault if met and (number - self.fault_from) % self.fault_every == 0 else ""
        if fault in REFUSALS:
            yield from whole({"error": REFUSALS[fault] or self.error}, 503)()
        elif body.get("model") not in self.models:
            yield from whole({"error": f"model '{body.get('model')}' not found"}, 404)()
        elif not body.get("prompt") and not body.get("messages"):
            yield self.load_s
            yield from whole({"model": body["model"], "created_at": NOW, "response": "", **_done("load")})()
        else:
            count = int(body.get("options", {}).get("num_predict", 8))
            words = [f"word{index} " for index in range(count)] if self.pieces is None else self.pieces
            last = {
                **_done("length" if self.pieces is None else "stop"),
                **self._figures(len(self.thinking) + len(words)),
            }
            if not body.get("stream", True):
                yield from whole({"model": body["model"], "created_at": NOW, "response": "".join(words), **last})()
                return
            yield NDJSON
            said = [*self.thinking, *words]
            for index, piece in enumerate(
                itertools.chain(said, itertools.repeat("more ") if self.endless and met else ())
            ):
                yield self.next_s if index else self.first_s
                if fault and index == len(said) // 2:
                    break
                line = _line(path, body, piece, thinks=index < len(self.thinking))
                stamps.append(time.monotonic_ns())
                yield line
                yield 0.001 * self.endless
            if fault == "breaks":
                yield httpcore.ReadError("connection reset")
            elif fault == "says":
                yield _chunk({"error": self.error})
            elif fault != "stops":
                yield _line(path, body, "", **last)
            yield b"0\r\n\r\n"


def loaded(tag: str, size: int = 5 * GIB, size_vram: int = 5 * GIB) -> dict[str, Any]:
    """A model as `/api/ps` lists it."""
    return {
        "name": tag, "model": tag, "digest": "d", "details": DETAILS, "size": size, "size_vram": size_vram,
        "context_length": 2048, "expires_at": "2318-03-04T05:06:07.123456789Z",
    }  # fmt: skip


def _done(reason: str) -> dict[str, Any]:
    return {"done": True, "done_reason": reason}


def _line(path: str, body: Mapping[str, Any], piece: str, *, thinks: bool = False, **last: Any) -> bytes:
    said = {"thinking": piece} if thinks else {}
    text = "" if thinks else piece
    if path == "/api/chat":
        part: dict[str, Any] = {"message": {"role": "assistant", "content": text, **said}}
    else:
        part = {"response": text, **said}
    return _chunk({"model": body["model"], "created_at": NOW, **part, "done": False, **last})


def _chunk(part: Mapping[str, Any]) -> bytes:
    line = json.dumps(part).encode() + b"\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


@contextmanager
def ollama(*models: str, **script: Any) -> Iterator[FakeOllama]:
    """Such a server on a port of this machine, for as long as the block runs.

    It has one event loop, because threads would delay each other between the timestamp of a piece and its sending.
    """
    fake = FakeOllama(models or FakeOllama.models, **script)
    loop, started, stopped = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                for event in fake.events(head.split(b" ", 2)[1].decode(), json.loads(body or b"{}")):
                    if isinstance(event, bytes):
                        writer.write(event)
                        await writer.drain()
                    elif isinstance(event, Exception):
                        writer.transport.abort()
                    elif event:
                        await asyncio.sleep(event)

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=512)
        fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await stopped.wait()
        server.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        yield fake
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
