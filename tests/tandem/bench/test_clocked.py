"""The arrival time of bytes is the kernel's, not the time at which they are read."""

import asyncio
import socket
import sys

import pytest

from tandem.bench.clocked import ClockedBackend


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
