"""Connections that know when bytes arrived: a network backend of httpcore with the kernel's time stamps.

A client that streams thirty answers on a busy machine reads bytes late, because its loop or its process had
to wait. Linux records when each packet arrived (SO_TIMESTAMPNS, for TCP since 4.18), and returns the time with the
bytes, even if they are read late. Elsewhere, and under TLS, the stamp is the time of the read.

Stamps are in nanoseconds of `time.monotonic_ns`.
"""

import asyncio
import socket
import ssl
import struct
import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import httpcore

CONNECT_SECONDS = 10.0
MOST_BYTES = 65536
SO_TIMESTAMPNS = 35 if sys.platform == "linux" else None
"""Missing in Python's socket module; the number is Linux's for x86-64 and arm64 (asm-generic/socket.h)."""
TIMESPEC = struct.Struct("@qq")
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class ClockedStream(httpcore.AsyncNetworkStream):
    """One connection. The last byte of the next part that httpcore yields arrived at `arrived_ns`."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._wanted: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._ended = self._writing = False
        self.sent_ns = 0
        """When the socket got the first byte of the latest request."""
        self.arrived_ns = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes, empty at the end.

        One arrival at a time, of any size. h11 asks for more only once it has used all of it, so the stamp
        of the last read is the stamp of the event that it completes.
        """
        if not self._waiting and not self._ended:
            self._wanted = asyncio.get_running_loop().create_future()
            await self._wanted
        self._writing = False
        if self._waiting:
            self.arrived_ns, data = self._waiting.popleft()
            return data
        if self._failure is not None:
            raise httpcore.ReadError(str(self._failure)) from self._failure
        return b""

    def get_extra_info(self, info: str) -> Any:
        return (self._ended or bool(self._waiting)) if info == "is_readable" else None

    def _received(self, stamp_ns: int, data: bytes) -> None:
        self._waiting.append((stamp_ns, data))
        self._wake()

    def _end(self, failure: Exception | None = None) -> None:
        self._ended, self._failure = True, self._failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)
        self._wanted = None

    def _begin_writing(self) -> None:
        if not self._writing:
            self._writing, self.sent_ns = True, time.monotonic_ns()


class PlainStream(ClockedStream):
    """A connection over its own socket."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        self._socket = connected
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if SO_TIMESTAMPNS is not None:
            connected.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connected, self._read_now)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._begin_writing()
        try:
            await self._loop.sock_sendall(self._socket, buffer)
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._end()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "SecureStream":
        self._loop.remove_reader(self._socket)
        stream = SecureStream()
        try:
            await self._loop.create_connection(
                lambda: stream, sock=self._socket, ssl=ssl_context, server_hostname=server_hostname or ""
            )
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return stream

    def _read_now(self) -> None:
        try:
            data, notes, _, _ = self._socket.recvmsg(MOST_BYTES, socket.CMSG_SPACE(TIMESPEC.size))
        except BlockingIOError:
            return
        except OSError as error:
            self._loop.remove_reader(self._socket)
            self._end(error)
            return
        if data:
            self._received(_stamp(notes), data)
        else:
            self._loop.remove_reader(self._socket)
            self._end()


class SecureStream(ClockedStream, asyncio.Protocol):
    """A connection under TLS, which needs asyncio's own transport: stamped when it hands the bytes over."""

    _transport: asyncio.Transport

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed")
        self._begin_writing()
        self._transport.write(buffer)

    async def aclose(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received(time.monotonic_ns(), data)

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)


class ClockedBackend(httpcore.AsyncNetworkBackend):
    """Opens `ClockedStream`s, on asyncio. The caller has all other timeouts: one timer per request, not per read."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> ClockedStream:
        try:
            connected = await asyncio.to_thread(socket.create_connection, (host, port), CONNECT_SECONDS)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return PlainStream(connected)


def _stamp(notes: list[tuple[int, int, bytes]]) -> int:
    """The kernel's stamp of the last packet read; the current time if there is none."""
    wall, now = time.time_ns(), time.monotonic_ns()  # in this order: a pause between the two makes the stamp later
    for level, kind, data in notes:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= TIMESPEC.size:
            seconds, nanoseconds = map(int, TIMESPEC.unpack_from(data))
            # The kernel uses the wall clock, which may be set: only the age counts, and only if it is plausible.
            age = wall - (seconds * 1_000_000_000 + nanoseconds)
            if 0 <= age < 60_000_000_000:
                return now - age
    return now
