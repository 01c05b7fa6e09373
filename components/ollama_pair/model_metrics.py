"""Serves what an Ollama server and its engine know as Prometheus metrics.

It runs next to the server, as a native sidecar, and uses only Python's standard library. `tandem metrics` imports it.

- Ollama lists the models in memory (`/api/ps`): their size, the part on the GPU, the context and the expiry.
- llama-server counts tokens and requests (`/metrics`, which LLAMA_ARG_ENDPOINT_METRICS=1 turns on). Ollama starts one
  for each loaded model, on 127.0.0.1 and a random port. /proc/net/tcp lists that port, because the containers of a pod
  share a network namespace. Its counters start at 0 with each load, which PromQL's `rate` allows for.

Neither source is trusted: each reply is limited in time and size, and each name is made printable.

Environment: ID (of the model in its stack), MODEL (its name), SERVER (URL), PORT (to listen on), READY (the file that
`model_watch.py` keeps while the model is ready).
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

FAMILIES = {
    "tandem_ollama_up": ("gauge", "Whether the Ollama server answers."),
    "tandem_model_ready": ("gauge", "Whether the model's sidecar reports it as ready."),
    "tandem_model_loaded": ("gauge", "Whether the model is in memory."),
    "tandem_model_size_bytes": ("gauge", "Memory of the loaded model, on GPU and CPU."),
    "tandem_model_size_vram_bytes": (
        "gauge",
        "Memory of the loaded model on the GPU; less than its size if it spilled.",
    ),
    "tandem_model_context_tokens": ("gauge", "Context length of the loaded model."),
    "tandem_model_expires_timestamp_seconds": ("gauge", "Time when the server unloads the model."),
    "tandem_client_connections": ("gauge", "Open connections from outside the pod to the Ollama server."),
    "tandem_requests_processing": ("gauge", "Requests that the engine processes."),
    "tandem_requests_deferred": ("gauge", "Requests that wait in the engine. Most wait in Ollama, which counts none."),
    "tandem_prompt_tokens_total": ("counter", "Prompt tokens processed since the model was loaded."),
    "tandem_prompt_seconds_total": ("counter", "Seconds spent on prompts since the model was loaded."),
    "tandem_tokens_predicted_total": ("counter", "Tokens generated since the model was loaded."),
    "tandem_tokens_predicted_seconds_total": ("counter", "Seconds spent on generation since the model was loaded."),
}
"""Type and help of each metric."""
ENGINE = {
    "llamacpp:requests_processing": "tandem_requests_processing",
    "llamacpp:requests_deferred": "tandem_requests_deferred",
    "llamacpp:prompt_tokens_total": "tandem_prompt_tokens_total",
    "llamacpp:prompt_seconds_total": "tandem_prompt_seconds_total",
    "llamacpp:tokens_predicted_total": "tandem_tokens_predicted_total",
    "llamacpp:tokens_predicted_seconds_total": "tandem_tokens_predicted_seconds_total",
}
"""Metrics of llama-server that are passed on. Source: llama.cpp 0c1e57098, tools/server/server-task.cpp. Its averages
are left out, because each scrape restarts them."""
SECONDS = 2.0
"""Time limit of a reply. A scrape has 10 seconds by default."""
MOST_BYTES = 2**20
MOST_MODELS = 16
"""Models per server: a server of ours holds one."""
MOST_ENGINES = 3
"""Ports that are asked for the engine's metrics. Nothing but the engine listens on the loopback address of a pod."""
MOST_NAME = 200
LISTENING, ESTABLISHED = "0A", "01"
"""States in /proc/net/tcp. Source: linux include/net/tcp_states.h."""
LOOPBACKS = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
"""127.0.0.1, ::1 and ::ffff:127.0.0.1 as the kernel of a little-endian machine writes them."""


class Sample(NamedTuple):
    """A value of a metric."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Source:
    """The sources of one model's metrics."""

    id: str
    """Id of the model in its stack, or a name of the server."""
    model: str
    """Name of the model; empty for any."""
    server: str
    """URL of the Ollama server."""
    sockets: Path | None = None
    """Folder with the tables `tcp` and `tcp6` of the server's network namespace; None if it is another machine."""
    ready: Path | None = None
    """File that exists while the model is ready; None if that is unknown."""


def collect(source: Source) -> list[Sample]:
    """The metrics of one model."""
    own = {"id": printable(source.id), "model": printable(source.model)}
    found: list[Sample] = []
    if source.ready:
        found.append(Sample("tandem_model_ready", own, float(source.ready.exists())))
    if source.sockets:
        found.append(Sample("tandem_client_connections", own, float(count_clients(source.sockets, source.server))))
    try:
        entries = loaded(fetch(f"{source.server}/api/ps"))
    except (OSError, HTTPException, ValueError):
        return [*found, Sample("tandem_ollama_up", own, 0.0)]
    found.append(Sample("tandem_ollama_up", own, 1.0))
    names = [name_of(entry, source.model) for entry in entries]
    if source.model and source.model not in names:
        found.append(Sample("tandem_model_loaded", own, 0.0))
    for name, entry in zip(names, entries, strict=True):
        labels = {**own, "model": printable(name)}
        found += [Sample("tandem_model_loaded", labels, 1.0), *memory(entry, labels)]
    # With two models, nothing says which engine is whose.
    if source.sockets and len(names) == 1:
        found += read_engine(source.sockets, {**own, "model": printable(names[0])})
    return found


def fetch(url: str) -> bytes:
    """The body of a reply. Raises an error for any that is late, too large, incomplete, compressed or not a success."""
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection, late = connect(parts.hostname or "", parts.port, timeout=SECONDS), threading.Event()

    def end(opened: socket.socket) -> None:
        late.set()
        with suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)

    try:
        connection.connect()
        # The timeout of a socket limits each read, so a byte now and then would never end.
        timer = threading.Timer(SECONDS, end, [connection.sock])
        timer.daemon = True
        timer.start()
        try:
            connection.request("GET", parts.path, headers={"Accept-Encoding": "identity", "Connection": "close"})
            reply = connection.getresponse()
            body = reply.read(MOST_BYTES + 1)
        finally:
            timer.cancel()
    finally:
        connection.close()
    if late.is_set() or reply.status != 200 or reply.length or reply.headers.get("Content-Encoding"):
        raise ValueError("not a complete, plain and successful reply")
    return body


def loaded(body: bytes) -> list[dict[str, Any]]:
    """The models in a reply to `/api/ps`. Raises `ValueError` for another shape."""
    try:
        models = json.loads(body)["models"] or []
        return [entry for entry in models[:MOST_MODELS] if isinstance(entry["name"], str)]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a list of models: {type(error).__name__}") from None


def name_of(entry: Mapping[str, Any], model: str) -> str:
    """The entry's name; `model` if that means the same, because Ollama adds `:latest` to a name without a tag."""
    name: str = entry["name"]
    return model if name in (model, f"{model}:latest") else name


def memory(entry: Mapping[str, Any], labels: dict[str, str]) -> Iterator[Sample]:
    """The metrics of a loaded model. Malformed fields are left out."""
    for key, name in (
        ("size", "tandem_model_size_bytes"),
        ("size_vram", "tandem_model_size_vram_bytes"),
        ("context_length", "tandem_model_context_tokens"),
    ):
        value = entry.get(key)
        if type(value) is int and 0 <= value < 2**63:
            yield Sample(name, labels, float(value))
    with suppress(TypeError, ValueError, OverflowError):
        expires = datetime.fromisoformat(entry.get("expires_at", ""))
        yield Sample("tandem_model_expires_timestamp_seconds", labels, expires.timestamp())


def read_engine(sockets: Path, labels: dict[str, str]) -> list[Sample]:
    """The metrics of the only llama-server; empty if it is not ready, or does not answer in time."""
    ports = sorted({port for local, port, _, state in connections(sockets) if is_engine(local, state)})
    for port in ports[:MOST_ENGINES]:
        with suppress(OSError, HTTPException, ValueError):
            if found := [*from_engine(fetch(f"http://127.0.0.1:{port}/metrics"), labels)]:
                return found
    return []


def is_engine(local: str, state: str) -> bool:
    """Whether a socket may be that of llama-server."""
    return state == LISTENING and local == LOOPBACKS[0]


def from_engine(body: bytes, labels: dict[str, str]) -> Iterator[Sample]:
    """The metrics in a reply of llama-server to `/metrics`."""
    for line in body.decode(errors="replace").split("\n"):
        name, _, text = line.partition(" ")
        if name in ENGINE:
            value = float(text)
            if isfinite(value) and value >= 0:
                yield Sample(ENGINE[name], labels, value)


def count_clients(sockets: Path, server: str) -> int:
    """Open connections to the server from outside its pod: the sidecars of the pod ask it, too."""
    own = urlsplit(server).port
    return sum(
        port == own and state == ESTABLISHED and remote not in LOOPBACKS
        for _, port, remote, state in connections(sockets)
    )


def connections(sockets: Path) -> Iterator[tuple[str, int, str, str]]:
    """Local address, local port, remote address and state of each TCP socket."""
    for table in ("tcp", "tcp6"):
        lines: Sequence[str] = ()
        with suppress(OSError):
            lines = (sockets / table).read_text(encoding="ascii").splitlines()[1:]
        for line in lines:
            _, local, remote, state, *_ = line.split()
            address, _, port = local.partition(":")
            yield address, int(port, 16), remote.partition(":")[0], state


def printable(text: str) -> str:
    """The text without control characters, and not too long."""
    return "".join(one if one.isprintable() else "?" for one in text[:MOST_NAME])


def render(samples: Sequence[Sample]) -> str:
    """The samples in Prometheus' text format. Of two with the same name and labels, only the first."""
    lines: dict[str, dict[str, str]] = {name: {} for name in FAMILIES}
    for name, labels, value in samples:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines[name].setdefault(pairs, f"{name}{{{pairs}}} {value!r}")
    parts = []
    for name, found in lines.items():
        kind, description = FAMILIES[name]
        if found:
            parts += [f"# HELP {name} {description}", f"# TYPE {name} {kind}", *found.values()]
    return "".join(f"{line}\n" for line in parts)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Exporter(ThreadingHTTPServer):
    """Serves what `read` returns: `/metrics` as text, and `/metrics.json` for `tandem metrics`."""

    def __init__(self, address: tuple[str, int], read: Callable[[], list[Sample]]) -> None:
        super().__init__(address, _Handler)
        self._read, self._lock = read, threading.Lock()

    def samples(self) -> list[Sample]:
        """The metrics now. Requests wait for each other, so that the sources get one at a time."""
        with self._lock:
            return self._read()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing about clients that hang up."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = 5
    server: Exporter

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._say("text/plain; version=0.0.4; charset=utf-8", render(self.server.samples()))
        elif self.path == "/metrics.json":
            self._say("application/json", json.dumps([sample._asdict() for sample in self.server.samples()]))
        else:
            self.send_error(404)

    def _say(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(environment: Mapping[str, str]) -> None:
    """Serves the metrics until the pod stops."""
    # Process 1 ignores SIGTERM by default, which would delay the end of the pod.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    source = Source(
        id=environment["ID"],
        model=environment["MODEL"],
        server=environment["SERVER"],
        sockets=Path("/proc/net"),
        ready=Path(environment["READY"]),
    )
    with Exporter(("", int(environment["PORT"])), lambda: collect(source)) as exporter:
        exporter.serve_forever()


if __name__ == "__main__":
    main(os.environ)
