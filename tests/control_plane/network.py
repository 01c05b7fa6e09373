"""A stand-in for a cluster's network, which KWOK's pods do not have: a proxy that knows Services and pods by name.

Programs written in Go reach HTTP servers through the SOCKS proxy that `HTTP_PROXY` names, and gRPC servers through a
tunnel of the HTTP proxy that `HTTPS_PROXY` names; both get the name of a host, not its address. They use no proxy for
loopback addresses: the API server is reached directly.
"""

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address

from tests.control_plane.running import LOOPBACK

CHUNK = 65536
HEAD_END = b"\r\n\r\n"
ANY_POD = "pod"
"""The name of every pod, in front of a port: `pod:9090`."""
SOCKS = 5
IS_ADDRESS, IS_NAME = 1, 3
DONE, UNREACHABLE = 0, 4
"""Words of RFC 1928."""


@dataclass(frozen=True)
class Network:
    """A running proxy."""

    address: str
    served: dict[str, int]
    """Ports of this machine, by name and port in the cluster."""

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to see this network."""
        return {
            "HTTP_PROXY": f"socks5://{self.address}",
            "HTTPS_PROXY": f"http://{self.address}",
            "NO_PROXY": LOOPBACK,
        }

    def serve(self, name: str, port: int) -> None:
        """Gives a name such as `ollama.models:11434` or `pod:9090` to a port of this machine."""
        self.served[name] = port


@contextmanager
def network(served: Mapping[str, int]) -> Iterator[Network]:
    """A network while the block runs. It refuses names that it does not know."""
    names = dict(served)
    with socket.create_server((LOOPBACK, 0)) as listening:
        threading.Thread(target=_accept, args=(listening, names), daemon=True).start()
        yield Network(f"{LOOPBACK}:{listening.getsockname()[1]}", names)
        with suppress(OSError):  # wakes the thread
            listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, names: Mapping[str, int]) -> None:
    with suppress(OSError):  # closed
        while True:
            caller, _ = listening.accept()
            threading.Thread(target=_connect, args=(caller, names), daemon=True).start()


def _connect(caller: socket.socket, names: Mapping[str, int]) -> None:
    with caller, suppress(OSError, EOFError):
        speaks_socks = caller.recv(1, socket.MSG_PEEK) == bytes([SOCKS])
        host = _asked_by_socks(caller) if speaks_socks else _asked_by_connect(caller)
        port = names.get(_name(host))
        if speaks_socks:
            caller.sendall(struct.pack("!BBBBIH", SOCKS, UNREACHABLE if port is None else DONE, 0, IS_ADDRESS, 0, 0))
        else:
            caller.sendall(b"HTTP/1.1 502 No such name" + HEAD_END if port is None else b"HTTP/1.1 200 OK" + HEAD_END)
        if port is not None:
            with socket.create_connection((LOOPBACK, port)) as called:
                threading.Thread(target=_copy, args=(caller, called), daemon=True).start()
                _copy(called, caller)


def _asked_by_socks(caller: socket.socket) -> str:
    _, ways = _read(caller, 2)
    _read(caller, ways)
    caller.sendall(bytes([SOCKS, 0]))  # no password
    _, _, _, kind = _read(caller, 4)
    if kind == IS_ADDRESS:
        host = str(IPv4Address(_read(caller, 4)))
    else:
        assert kind == IS_NAME, kind
        host = _read(caller, _read(caller, 1)[0]).decode()
    return f"{host}:{int.from_bytes(_read(caller, 2), 'big')}"


def _asked_by_connect(caller: socket.socket) -> str:
    head = b""
    while not head.endswith(HEAD_END):
        head += _read(caller, 1)
    return head.split(b" ", 2)[1].decode()


def _read(caller: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        received = caller.recv(count - len(found))
        if not received:
            raise EOFError
        found += received
    return found


def _name(host: str) -> str:
    name, _, port = host.rpartition(":")
    with suppress(ValueError):
        return f"{ANY_POD}:{port}" if ip_address(name) else host
    return host


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while received := source.recv(CHUNK):
            sink.sendall(received)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
