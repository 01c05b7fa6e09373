"""A fake network: it sends a server's bytes on its own clock, and counts every read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

if TYPE_CHECKING:
    from tests.tandem.fake_ollama import FakeOllama

Event = bytes | float | Exception
"""Bytes that arrive, seconds that pass first, or the error that ends the connection."""
Reply = Callable[[], Iterable[Event]]


def whole(body: object, status: int = 200, *headers: str) -> Reply:
    """An answer with a known length; `body` is bytes, or is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Some Reason", f"Content-Length: {len(content)}", *headers]
    return raw("\r\n".join([*head, "", ""]).encode() + content)


def raw(*events: Event) -> Reply:
    """Exactly these events, then the end of the connection."""
    return lambda: events


def streamed(*lines: Event) -> Reply:
    """An answer without a length, which may be endless."""
    return lambda: [OPEN, *lines]


def endless(*events: Event, head: bytes | None = None) -> Reply:
    """These events, repeated forever."""

    def going_on() -> Iterator[Event]:
        yield from [OPEN] if head is None else [head] if head else []
        while True:
            yield from events

    return going_on


OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"


class Network(httpcore.NetworkBackend):
    """Answers each path with its reply, or as `server` would; `now` is its clock."""

    def __init__(self, server: FakeOllama | None = None, /, **replies: Reply | object) -> None:
        """Replies by the last part of the path: `tags` is `/api/tags`. Any other object is sent as JSON."""
        self.server, self.replies = server, replies
        self.seconds = 0.0
        self.reads = self.bytes = 0
        self.asked: list[tuple[str, Any]] = []
        self.connecting: float | None = None
        """Seconds that the last connection may take."""

    def now(self) -> float:
        return self.seconds

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *_: object, **__: object) -> Stream:
        self.connecting = timeout
        return Stream(self)

    def events(self, request: bytes) -> Iterator[Event]:
        head, _, body = request.partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        self.asked.append((path, json.loads(body) if body else None))
        if self.server:
            yield from self.server.events(*self.asked[-1])
            return
        reply: Any = self.replies.get(path.rpartition("/")[2], whole({"error": "no such path"}, 404))
        yield from (reply if callable(reply) else whole(reply))()

    def next(self, events: Iterator[Event], timeout: float) -> bytes:
        """The bytes of a read with this timeout in seconds."""
        self.reads += 1
        for event in events:
            if isinstance(event, Exception):
                raise event
            if isinstance(event, bytes):
                self.bytes += len(event)
                return event
            self.seconds += min(event, timeout)
            if event >= timeout:
                raise httpcore.ReadTimeout
        return b""


class Stream(httpcore.NetworkStream):
    def __init__(self, network: Network) -> None:
        self._network, self._request = network, b""
        self._events: Iterator[Event] = iter(())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._request += buffer

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._request:
            self._events, self._request = self._network.events(self._request), b""
        return self._network.next(self._events, timeout if timeout is not None else float("inf"))

    def close(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else None


def transport(network: Network) -> httpx.BaseTransport:
    """Sends what httpx asks through the network."""
    sending = httpx.HTTPTransport(verify=False)
    sending._pool = httpcore.ConnectionPool(network_backend=network)
    return sending
