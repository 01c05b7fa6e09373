"""A forwarded port whose requests get another host, as a client of a model that scales to zero needs it."""

import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tandem.deployed import kubeconfig
from tandem.deployed.forwarding import address_to
from tandem.deployed.kubernetes import cluster
from tests.tandem.deployed.fake_kubernetes import CORE, FakeKubernetes, serving
from tests.tandem.seen import pod

pytestmark = pytest.mark.slow

PODS = f"{CORE}/namespaces/ollama/pods"


@pytest.fixture
def hosts() -> Iterator[tuple[int, list[str]]]:
    """The port of a server, and the `Host` and `Connection` of each request that it got."""
    got: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(f"{self.headers['Host']} {self.headers['Connection']} {self.path} {body.decode()}")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            # As Go's server answers such a request (net/http, transfer.go), which the interceptor uses.
            self.send_header("Connection", self.headers["Connection"])
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_port, got
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_request_gets_the_host_and_a_connection_of_its_own(hosts: tuple[int, list[str]], tmp_path: Path) -> None:
    """The interceptor knows a model by the host alone (http-add-on v0.15.0, pkg/routing)."""
    port, got = hosts
    fake = FakeKubernetes()
    fake.answers[PODS] = {"items": [pod("a", "a-1")]}
    fake.leads[f"{PODS}/a-1"] = port
    with serving(fake), cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as found:
        leads = found.forward("a", "ollama", {"app.kubernetes.io/instance": "a"}, 11434, host="a.keda")
        with leads as forward, closing(HTTPConnection(forward.url.removeprefix("http://"))) as client:
            for text in ("one", "two"):
                # It connects again by itself: the answer says that the connection ends.
                client.request("POST", "/api/chat", text, {"Connection": "keep-alive"})
                assert client.getresponse().read() == text.encode()
    assert got == ["a.keda close /api/chat one", "a.keda close /api/chat two"]


def test_a_head_keeps_its_other_fields() -> None:
    head = b"GET / HTTP/1.1\r\nHOST : x:1\r\nAccept: */*\r\nconnection: keep-alive\r\nHost-Like: y\r\n\r\n"
    assert address_to("a.keda", head) == (
        b"GET / HTTP/1.1\r\nHost: a.keda\r\nConnection: close\r\nAccept: */*\r\nHost-Like: y\r\n\r\n"
    )
