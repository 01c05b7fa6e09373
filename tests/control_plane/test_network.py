"""The stand-in for a cluster's network leads each name to its port, and nothing else anywhere."""

import http.client
import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.control_plane.network import Network, network
from tests.control_plane.running import LOOPBACK


@pytest.fixture
def net() -> Iterator[Network]:
    """A network with one server, which says what it was asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            said = f"{self.headers['Host']} {self.path} {self.rfile.read(size).decode()}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        with network({"model.ollama:11434": port, "pod:9090": port}) as running:
            yield running
        server.shutdown()


def ask(net: Network, host: str, port: int) -> str | None:
    """What the server answers to a program in Go: it connects as RFC 1928 says. None if the network refuses."""
    address, _, at = net.address.partition(":")
    with socket.create_connection((address, int(at)), timeout=30) as one:
        one.sendall(b"\x05\x01\x00")
        assert one.recv(2) == b"\x05\x00"
        kind = b"\x01" + socket.inet_aton(host) if host[0].isdigit() else b"\x03" + bytes([len(host)]) + host.encode()
        one.sendall(b"\x05\x01\x00" + kind + port.to_bytes(2, "big"))
        answer = one.recv(10)
        if answer[1] != 0:
            return None
        connection = http.client.HTTPConnection(host)
        connection.sock = one
        connection.request("POST", "/api/chat", "body", {"Host": "caller"})
        return connection.getresponse().read().decode()


def test_a_service_and_a_pod_have_their_ports(net: Network) -> None:
    assert ask(net, "model.ollama", 11434) == "caller /api/chat body"
    assert ask(net, "10.0.0.7", 9090) == "caller /api/chat body"


@pytest.mark.parametrize(
    ("host", "port"), [("model.ollama", 80), ("other.ollama", 11434), ("10.0.0.7", 11434), ("pod.ollama", 9090)]
)
def test_anything_else_is_unknown(net: Network, host: str, port: int) -> None:
    assert ask(net, host, port) is None
    connection = http.client.HTTPConnection(net.address, timeout=30)
    connection.set_tunnel(f"{host}:{port}")
    with pytest.raises(OSError, match="502 No such name"):
        connection.connect()


def test_a_tunnel_goes_on_for_several_requests(net: Network) -> None:
    """gRPC uses one."""
    connection = http.client.HTTPConnection(net.address, timeout=30)
    connection.set_tunnel("model.ollama:11434")
    for body in ("one", "two"):
        connection.request("POST", "/", body)
        assert connection.getresponse().read().decode() == f"model.ollama:11434 / {body}"
    connection.close()


def test_a_name_can_be_served_later(net: Network) -> None:
    assert ask(net, "late.ollama", 11434) is None
    net.serve("late.ollama:11434", net.served["pod:9090"])
    assert ask(net, "late.ollama", 11434) == "caller /api/chat body"
