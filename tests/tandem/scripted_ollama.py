"""An Ollama server of known timing and known faults, in a process of its own: it notes when it really sent what.

    python -m tests.tandem.scripted_ollama '{"first_s": 0.05, "next_s": 0.02}'      prints its address

`GET /sent` answers with what it noted: for each prompt when the request was there, and when each piece was given to the
socket, by `time.monotonic_ns`, which on Linux is one clock for all processes.
"""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Script:
    """What a server does."""

    models: list[str] = field(default_factory=lambda: ["tiny:1b"])
    version: str = "0.32.15"
    first_s: float = 0.0
    """Before the first piece."""
    next_s: float = 0.0
    """Before each other piece."""
    pieces: list[str] | None = None
    """What it says; None: `word0`, `word1`, … up to `num_predict`."""
    thinking: list[str] = field(default_factory=list)
    """What it thinks before."""
    fault: str = ""
    """`breaks` (the connection closes in the middle), `stops` (no last piece), `says` (an error in the stream), `busy`
    (503), `gone` (404)."""
    fault_from: int = 0
    """Number of the first request, from 0, that meets the fault or has no end."""
    fault_every: int = 1
    """Each so-and-so-many-th from then on does."""
    endless: bool = False
    """Goes on until the client leaves."""
    size: int = 1000
    size_vram: int = 1000


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs."""

    url: str
    process: "subprocess.Popen[str]"


@contextmanager
def scripted(**script: Any) -> Iterator[Running]:
    """A server of that script, for as long as the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tandem.scripted_ollama", json.dumps(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Running(process.stdout.readline().strip(), process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class _Server:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._sent: dict[str, list[int]] = {}
        self._asked: list[dict[str, Any]] = []
        self._numbers = itertools.count()

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                length = next(
                    (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line), 0
                )
                body = json.loads(await reader.readexactly(length)) if length else {}
                if path in ("/api/generate", "/api/chat"):
                    await self._generate(path, body, time.monotonic_ns(), writer)
                else:
                    self._answer(path, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        script = self._script
        listed = [
            {"name": name, "model": name, "digest": f"digest of {name}", "size": script.size,
             "details": {"family": "llama", "parameter_size": "1B", "quantization_level": "F16"}}
            for name in script.models
        ]  # fmt: skip
        loaded = [{**one, "size_vram": script.size_vram, "context_length": 4096} for one in listed]
        answers: dict[str, Any] = {
            "/api/version": {"version": script.version},
            "/api/tags": {"models": listed},
            "/api/ps": {"models": loaded},
            "/sent": self._sent,
            "/asked": self._asked,
        }
        status = "200 OK" if path in answers else "404 Not Found"
        _whole(writer, status, answers.get(path, {"error": "no such path"}))

    async def _generate(self, path: str, body: Mapping[str, Any], received: int, writer: asyncio.StreamWriter) -> None:
        script, number = self._script, next(self._numbers)
        self._asked.append(dict(body))
        stamps = self._sent.setdefault(str(body.get("prompt")), [])
        stamps.append(received)
        met = number >= script.fault_from and (number - script.fault_from) % script.fault_every == 0
        fault = script.fault if met else ""
        if fault in ("busy", "gone"):
            refusal = {"busy": ("503 Busy", "server busy"), "gone": ("404 Not Found", "model 'x' not found")}[fault]
            _whole(writer, refusal[0], {"error": refusal[1]})
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
        count = int(body.get("options", {}).get("num_predict", 8))
        endless = script.endless and number >= script.fault_from
        said = [*script.thinking, *(script.pieces if script.pieces is not None else self._words(count))]
        for index, piece in enumerate(itertools.chain(said, itertools.repeat("more ")) if endless else said):
            pause = script.next_s if index else script.first_s
            if pause:
                await asyncio.sleep(pause)
            if writer.transport.is_closing():
                return
            if fault and index == len(said) // 2:
                break
            line = json.dumps(self._part(path, body, piece, thinks=index < len(script.thinking)))
            stamps.append(time.monotonic_ns())
            _chunk(writer, line)
            if endless:
                await asyncio.sleep(0.001)
                await writer.drain()
        if fault == "breaks":
            writer.transport.abort()
            raise ConnectionResetError
        if fault == "says":
            _chunk(writer, json.dumps({"error": "an error was encountered while running the model: CUDA error"}))
        elif fault != "stops":
            _chunk(writer, json.dumps(self._last(path, body, len(said))))
        writer.write(b"0\r\n\r\n")

    @staticmethod
    def _words(count: int) -> list[str]:
        return [f"word{index} " for index in range(count)]

    @staticmethod
    def _part(path: str, body: Mapping[str, Any], piece: str, *, thinks: bool) -> dict[str, Any]:
        text, thinking = ("", piece) if thinks else (piece, "")
        if path == "/api/chat":
            message = {"role": "assistant", "content": text, **({"thinking": thinking} if thinking else {})}
            return {"model": body["model"], "message": message, "done": False}
        return {"model": body["model"], "response": text, "thinking": thinking, "done": False}

    @staticmethod
    def _last(path: str, body: Mapping[str, Any], count: int) -> dict[str, Any]:
        empty: dict[str, Any] = {"message": {"role": "assistant", "content": ""}}
        return {
            "model": body["model"], **(empty if path == "/api/chat" else {"response": ""}), "done": True,
            "done_reason": "stop", "total_duration": 5, "load_duration": 1, "prompt_eval_count": 7,
            "prompt_eval_duration": 2, "eval_count": count, "eval_duration": 3,
        }  # fmt: skip


def _whole(writer: asyncio.StreamWriter, status: str, answer: object) -> None:
    body = json.dumps(answer).encode()
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def _chunk(writer: asyncio.StreamWriter, line: str) -> None:
    data = line.encode() + b"\n"
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def main(text: str) -> None:
    """Serves until it is ended."""
    given = json.loads(text)
    assert set(given) <= {one.name for one in fields(Script)}, given
    script = Script(**given)
    asyncio.run(_Server(script).serve())


if __name__ == "__main__":
    main(sys.argv[1])
