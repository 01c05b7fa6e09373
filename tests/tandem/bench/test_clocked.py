"""When bytes came is what the kernel noted, not when they were read."""

import asyncio
import socket
import sys

import pytest

from tandem.bench.clocked import ClockedBackend


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's time stamps are read on Linux only")
def test_bytes_came_when_the_kernel_took_them() -> None:
    async def exchange() -> bool:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            stream = await ClockedBackend().connect_tcp(*listening.getsockname())
            with listening.accept()[0] as server:
                # Linux begins to note the time a little after it is asked to (net/core/dev.c, net_enable_timestamp).
                for _ in range(10_000):
                    server.sendall(b"early")
                    await stream.write(b"later")
                    assert (await stream.read(99), server.recv(99)) == (b"early", b"later")
                    if stream.arrived_ns < stream.sent_ns:
                        return True
        return False

    assert asyncio.run(exchange())
