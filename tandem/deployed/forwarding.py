"""A local port that leads to a pod, through the Kubernetes API: nothing has to be public.

Uses kr8s's websocket instead of its `PortForward`: that one retries forever, without a pause and without a reason, if
it is forbidden or its pod was deleted (0.20.15). Here each connection looks for the pod again, so it finds a
replacement, and `trouble` has the reason of the last failure.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import httpx_ws
import kr8s
from kr8s.asyncio import Api
from kr8s.asyncio.objects import APIObject, Pod

from sharing.printable import one_line
from tandem.deployed.objects import FORWARD_REFUSED, is_ready, name, state
from tandem.terminal import CallError

LOOPBACK = "127.0.0.1"
CHUNK = 64 * 1024
DATA, ERRORS = b"\0", b"\1"
"""Channels of the protocol: the first byte of each frame."""
FIND_SECONDS = 20.0
LINE_END, END_OF_HEAD = b"\r\n", b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a port: the ready pod with these labels."""

    name: str
    """Its name in messages."""
    namespace: str
    labels: Mapping[str, str]
    port: int
    host: str = ""
    """The host that HTTP requests get, for a pod that serves several; their own if empty."""


class Forward:
    """One forwarded port."""

    url: str
    """Its local address, once it is open."""

    def __init__(self, api: Api, target: Target) -> None:
        self._api, self._target = api, target
        self._open: set[asyncio.Task[None]] = set()
        self.pod = ""
        """The pod of the last connection."""
        self.trouble = ""
        """Why the last connection failed; empty after a success."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection; never raises, since nothing handles errors of a server's tasks."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # dropped: asyncio reports the end of a cancelled connection as an error
        except NoPodError as error:
            self.trouble = str(error)
        except kr8s.ServerError as error:
            self.trouble = f"the cluster refuses: {one_line(str(error))}"
        except httpx_ws.WebSocketUpgradeError as error:
            self.trouble = f"{FORWARD_REFUSED} to {self.pod} ({error.response.status_code})"
        # Any error of a server between here and the pod: nothing handles errors of a server's tasks.
        except Exception as error:
            self.trouble = f"the connection to {self.pod or self._target.name} was lost ({type(error).__name__})"
        finally:
            self._open.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def drop(self) -> None:
        """Closes open connections."""
        dropped = list(self._open)
        for task in dropped:
            task.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with anyio.fail_after(FIND_SECONDS):
            self.pod = await self._ready_pod()
        into = self._api.open_websocket(
            url=f"pods/{self.pod}/portforward",
            namespace=self._target.namespace,
            params={"ports": str(self._target.port)},
        )
        async with into as socket:
            sending = asyncio.ensure_future(_send(reader, socket, self._target.host))
            receiving = asyncio.ensure_future(self._receive(socket, writer))
            try:
                await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (sending, receiving):
                    task.cancel()
                await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _ready_pod(self) -> str:
        target = self._target
        pods = await listed(self._api, Pod, target.namespace, target.labels)
        ready = [name(pod) for pod in pods if is_ready(pod)]
        if ready:
            return ready[0]
        raise NoPodError(f"{target.name} has no ready pod{f' ({state(pods[0])})' if pods else ''}")

    async def _receive(self, socket: httpx_ws.AsyncWebSocketSession, writer: asyncio.StreamWriter) -> None:
        """Each channel starts with a frame that repeats the port."""
        begun = set()
        with suppress(httpx_ws.WebSocketDisconnect, httpx_ws.WebSocketNetworkError, ConnectionError):
            while True:
                frame = await socket.receive_bytes()
                channel, data = frame[:1], frame[1:]
                if channel not in begun:
                    begun.add(channel)
                elif channel == ERRORS:
                    self.trouble = f"{self.pod}: {one_line(data)}"
                    return
                else:
                    self.trouble = ""
                    writer.write(data)
                    await writer.drain()


async def listed(
    api: Api, kind: type[APIObject], namespace: str | None = None, labels: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The objects of a kind with these labels, in one namespace or all."""
    objects = api.get(kind, namespace=namespace or kr8s.ALL, label_selector=dict(labels or {}), raw=True)
    return [item async for item in objects if isinstance(item, dict)]


class NoPodError(Exception):
    """There is no pod to forward to."""


def address_to(host: str, head: bytes) -> bytes:
    """The head of an HTTP request with another host. It ends its connection, so that no later one keeps its own."""
    first, *fields = head.removesuffix(END_OF_HEAD).split(LINE_END)
    kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in (b"host", b"connection")]
    return LINE_END.join([first, b"Host: " + host.encode(), b"Connection: close", *kept]) + END_OF_HEAD


async def _send(reader: asyncio.StreamReader, socket: httpx_ws.AsyncWebSocketSession, host: str) -> None:
    broken = (asyncio.IncompleteReadError, asyncio.LimitOverrunError)  # not the head of an HTTP request
    with suppress(httpx_ws.HTTPXWSException, ConnectionError, *broken):
        if host:
            await socket.send_bytes(DATA + address_to(host, await reader.readuntil(END_OF_HEAD)))
        while data := await reader.read(CHUNK):
            await socket.send_bytes(DATA + data)


@asynccontextmanager
async def forwarded(api: Api, target: Target, local: int) -> AsyncIterator[Forward]:
    """A forwarded port while the block runs: `local`, or any free port. Raises `CallError` if `local` is in use."""
    forward = Forward(api, target)
    try:
        server = await asyncio.start_server(forward.accept, host=LOOPBACK, port=local)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CallError(f"Local port {local} cannot be used ({why}). Choose another one with `--port`.") from None
    port = server.sockets[0].getsockname()[1]
    forward.url = f"http://{LOOPBACK}:{port}"
    try:
        yield forward
    finally:
        server.close()
        await forward.drop()
        # From 3.12 on it waits for the connections, which have just been dropped.
        await server.wait_closed()
