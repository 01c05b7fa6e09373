"""A network of a test: what a server sends byte by byte, on a clock of its own, with every read counted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import httpcore

from tandem.bench.clocked import ClockedStream

if TYPE_CHECKING:
    from tests.tandem.fake_ollama import FakeOllama

Event = bytes | float | Exception
"""Bytes that come, seconds that pass before anything does, or what the connection ends with."""
Reply = Callable[[], Iterable[Event]]


def whole(body: object, status: int = 200, *headers: str) -> Reply:
    """An answer of known length; `body` is sent as it is, or as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Some Reason", f"Content-Length: {len(content)}", *headers]
    return raw("\r\n".join([*head, "", ""]).encode() + content)


def raw(*events: Event) -> Reply:
    """Exactly these, and then the end of the connection."""
    return lambda: events


def streamed(*lines: Event) -> Reply:
    """An answer without a length, so that it may go on for ever."""
    return lambda: [OPEN, *lines]


def endless(*events: Event, head: bytes | None = None) -> Reply:
    """These again and again."""

    def going_on() -> Iterator[Event]:
        yield from [OPEN] if head is None else [head] if head else []
        while True:
            yield from events

    return going_on


OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"


class Network(httpcore.NetworkBackend):
    """Answers each path with its reply, or as `server` does; `now` is its clock."""

    def __init__(self, server: FakeOllama | None = None, /, **replies: Reply | object) -> None:
        """By the last part of the path: `tags` is `/api/tags`. What is no reply is sent as JSON."""
        self.server, self.replies = server, replies
        self.seconds = 0.0
        self.reads = self.bytes = 0
        self.asked: list[tuple[str, Any]] = []

    def now(self) -> float:
        return self.seconds

    def connect_tcp(self, host: str, *_: object, **__: object) -> Stream:
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
        """The bytes of a read that may take this many seconds."""
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


class ClockedNetwork(httpcore.AsyncNetworkBackend):
    """The same for `bench`, whose own timer is a whole request's."""

    def __init__(self, network: Network, late_ns: int = 0) -> None:
        """`late_ns`: by how much its stamps are off, as after somebody has set the clock."""
        self.network, self.late_ns = network, late_ns

    async def connect_tcp(self, host: str, *_: object, **__: object) -> ClockedStream:
        return _Clocked(self)


class _Clocked(ClockedStream):
    def __init__(self, network: ClockedNetwork) -> None:
        super().__init__()
        self._stream, self._late_ns = Stream(network.network), network.late_ns

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._begin_writing()
        self._stream.write(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)
        self._writing, self.arrived_ns = False, time.monotonic_ns() + self._late_ns
        return self._stream.read(max_bytes)

    async def aclose(self) -> None:
        pass
