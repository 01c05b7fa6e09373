"""The arrival time of bytes is the kernel's, not the time at which they are read."""

import asyncio
import socket
import ssl
import struct
import sys
import time

import httpcore
import pytest

from tandem.bench.clocked import SO_TIMESTAMPNS, TIMESPEC, ClockedBackend, _stamp
from tandem.bench.stream import Sender


def test_a_server_that_speaks_no_tls_is_a_connection_error() -> None:
    async def connect() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.write(b"no TLS here\n"), "127.0.0.1", 0)
        async with server:
            stream = await ClockedBackend().connect_tcp(*server.sockets[0].getsockname())
            await stream.start_tls(ssl.create_default_context())

    with pytest.raises(httpcore.ConnectError):
        asyncio.run(connect())


@pytest.mark.parametrize(("url", "trusts"), [("https://h", ["the system's"]), ("http://h", [None])])
def test_the_certificates_of_https_are_checked_with_the_systems_authorities(
    url: str, trusts: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str | None] = []
    monkeypatch.setattr("tandem.bench.stream.ssl.create_default_context", lambda: "the system's")
    monkeypatch.setattr(
        "tandem.bench.stream.httpcore.AsyncConnectionPool", lambda *, ssl_context, **_: given.append(ssl_context)
    )
    Sender(url, timeout=1.0, tokens=1)
    assert given == trusts


def test_a_port_that_nobody_listens_on_is_a_connection_error() -> None:
    with pytest.raises(httpcore.ConnectError):
        asyncio.run(ClockedBackend().connect_tcp("127.0.0.1", 1))


@pytest.mark.parametrize("is_reset", [False, True])
def test_the_end_of_a_connection_is_no_error_and_a_reset_is_one(is_reset: bool) -> None:
    async def read_to_the_end() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            stream = await ClockedBackend().connect_tcp(*listening.getsockname())
            server, _ = listening.accept()
            if is_reset:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            server.close()
            return await stream.read(1)

    if is_reset:
        with pytest.raises(httpcore.ReadError, match="reset"):
            asyncio.run(read_to_the_end())
    else:
        assert asyncio.run(read_to_the_end()) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's timestamps are read on Linux only")
@pytest.mark.parametrize(("age_s", "counts"), [(10, True), (59, True), (61, False), (-1, False)])
def test_a_stamp_counts_only_if_its_age_is_plausible(age_s: int, counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wall_s, now = 1_764_000_000, 10**15
    monkeypatch.setattr(time, "time_ns", lambda: wall_s * 10**9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    assert SO_TIMESTAMPNS is not None
    stamp = _stamp([(socket.SOL_SOCKET, SO_TIMESTAMPNS, TIMESPEC.pack(wall_s - age_s, 0))])
    assert stamp == now - age_s * 10**9 * counts


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's timestamps are read on Linux only")
def test_the_arrival_time_is_the_kernels() -> None:
    async def exchange() -> bool:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            stream = await ClockedBackend().connect_tcp(*listening.getsockname())
            with listening.accept()[0] as server:
                # Linux starts to record times shortly after the request (net/core/dev.c, net_enable_timestamp).
                for _ in range(10_000):
                    server.sendall(b"early")
                    await stream.write(b"later")
                    assert (await stream.read(99), server.recv(99)) == (b"early", b"later")
                    if stream.arrived_ns < stream.sent_ns:
                        return True
        return False

    assert asyncio.run(exchange())
