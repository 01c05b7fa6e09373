"""Starts programs that serve models, waits for them, asks them, and ends them."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharing.models.catalogue import KvType, Model
from sharing.models.engine import ModelInEngine
from sharing.models.ollama import ALL_LAYERS
from tests.gpu.progress import FailedError

END_SECONDS = 20
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Ignores any proxy of the environment: all servers are on this machine."""


@dataclass(frozen=True, kw_only=True)
class Served(ModelInEngine):
    """A model and its settings. `ServedModel` would need pydantic, and this tier needs no package."""

    model: Model
    context: int
    slots: int = 1
    kv_type: KvType = KvType.F16
    batch: int | None = None
    prompt_cache_mib: int = 0


@dataclass(frozen=True)
class Server:
    """A program that answers on a port of this machine."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lines(self) -> list[str]:
        """What it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()

    def ask(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float) -> Any:
        """The JSON of its answer. Raises `FailedError`."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with OPENER.open(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(500).decode(errors="replace")
            raise FailedError(f"{path} answered {error.code}: {said}") from None
        except (OSError, ValueError) as error:
            raise FailedError(f"{path} gave no answer: {error}\n{self.last_words()}") from None

    def last_words(self, lines: int = 8) -> str:
        """The end of its log."""
        return "\n".join(self.lines()[-lines:])


def llama_arguments(served: ModelInEngine, model: Path, port: int) -> list[str]:
    """The arguments that Ollama gives to llama-server for a model with these settings.

    Source: ollama 0.32.15, llm/llama_server.go, `startLlamaServer`. Flash attention is `on` or `off` because
    sharing/models/ollama.py sets OLLAMA_FLASH_ATTENTION; layers and batch are those of ollama_pair/model_start.sh.
    """
    kv = [] if served.kv_type is KvType.F16 else ["--cache-type-k", served.kv_type.value]
    kv += [] if served.kv_type is KvType.F16 else ["--cache-type-v", served.kv_type.value]
    return [
        *("--model", str(model), "--port", str(port), "--host", "127.0.0.1", "--no-webui", "--offline"),
        *("-c", str(served.total_context), "-np", str(served.effective_slots)),
        *("--log-verbosity", "4", "--no-log-prefix", "--no-log-timestamps"),
        *kv,
        *("--flash-attn", "on" if served.model.has_flash_attention else "off"),
        *(["--embedding"] if served.model.encoder else []),
        *("-b", str(served.effective_batch), "-ub", str(served.effective_batch), "-ngl", ALL_LAYERS),
    ]


@contextmanager
def serving(command: Sequence[str], port: int, log: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """The program, until the block ends. It gets its own process group, so that its children end with it."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # Not its own session: a runner that ends a command's remaining processes would miss it.
            process_group=0,
        )
    try:
        yield Server(process, port, log)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process group, politely at first."""
    for way in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, way)
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
        return


def wait_until_ready(server: Server, path: str, limit: float) -> float:
    """Seconds until it answers at `path`. Raises `FailedError` when it ends or the time is up."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        if server.process.poll() is not None:
            raise FailedError(f"the server ended with {server.process.returncode}:\n{server.last_words()}")
        try:
            with OPENER.open(server.url + path, timeout=5) as answer:
                if answer.status == 200:
                    return time.monotonic() - begun
        except OSError:
            time.sleep(0.2)
    raise FailedError(f"the server did not answer within {limit:.0f} s:\n{server.last_words()}")


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
