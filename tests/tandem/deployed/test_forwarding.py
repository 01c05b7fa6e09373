"""A forwarded port whose requests get another host, as a client of a model that scales to zero needs it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import httpx_ws
import kr8s
import pytest

from sharing.sections.scale_to_zero import ScaleToZeroSettings
from tandem.deployed import forwarding, kubeconfig
from tandem.deployed.connection import forward_for_clients
from tandem.deployed.forwarding import Forward, Target, address_to, forwarded
from tandem.deployed.kubernetes import cluster
from tandem.terminal import CallError
from tests.tandem.deployed.fake_kubernetes import CORE, FakeKubernetes, serving
from tests.tandem.deployed.pretended import connected, well
from tests.tandem.seen import pending, pod

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


@pytest.mark.slow
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


def test_clients_of_a_model_that_scales_to_zero_pass_the_interceptor() -> None:
    """Labels: chart keda-add-ons-http 0.15.0, templates/interceptor. A port as without it."""
    fake = well()
    plain = connected(fake)
    config = plain.plan.config.changed(scale_to_zero=ScaleToZeroSettings(enabled=True))
    for stack in (plain, replace(plain, plan=replace(plain.plan, config=config))):
        with forward_for_clients(stack, config.models[0], 7):
            pass
    labels = {"app.kubernetes.io/component": "interceptor", "app.kubernetes.io/name": "http-add-on"}
    assert fake.forwarded == [
        ("llama2-7b", "ollama", {"app.kubernetes.io/instance": "llama2-7b"}, 11434, {"local": 7}),
        ("llama2-7b", "keda", labels, 11434, {"host": "llama2-7b.keda", "local": 7}),
    ]


def response(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://x"))


@pytest.mark.parametrize(
    ("pods", "error", "trouble"),
    [
        ([], None, "llama has no ready pod"),
        ([pending("a", "Insufficient memory")], None, "llama has no ready pod (Pending, Insufficient memory)"),
        ([pod("a", "a-1")], kr8s.ServerError("no\nway"), "the cluster refuses: no way"),
        (
            [pod("a", "a-1")],
            httpx_ws.WebSocketUpgradeError(response(403)),
            "the cluster refuses to forward a port to a-1 (403)",
        ),
        ([pod("a", "a-1")], OSError("reset"), "the connection to a-1 was lost (OSError)"),
        (None, OSError("reset"), "the connection to llama was lost (OSError)"),
    ],
)
def test_a_connection_that_fails_says_why(
    pods: list[Any] | None, error: Exception | None, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listed(*_: object) -> list[Any]:
        if pods is None:
            assert error
            raise error
        return pods

    def open_websocket(**_: object) -> None:
        assert error
        raise error

    closed: list[bool] = []

    class Writer:
        def close(self) -> None:
            closed.append(True)

        async def wait_closed(self) -> None:
            raise OSError

    monkeypatch.setattr(forwarding, "listed", listed)
    api: Any = SimpleNamespace(open_websocket=open_websocket)
    nobody: Any = Writer()
    forward = Forward(api, Target("llama", "ollama", {}, 11434))
    asyncio.run(forward.accept(nobody, nobody))
    assert (forward.trouble, closed) == (trouble, [True])


@pytest.mark.parametrize("ends", ["the client", "the pod", "tandem"])
def test_a_connection_ends_when_either_side_does_or_the_port_closes(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sends nothing else, and the pod says nothing."""
    asked: list[dict[str, object]] = []
    closed: list[bool] = []

    async def listed(*_: object) -> list[Any]:
        return [pod("a", "a-1")]

    class Writer:
        def close(self) -> None:
            closed.append(True)

        async def wait_closed(self) -> None: ...

    class Socket:
        async def __aenter__(self) -> "Socket":
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def receive_bytes(self) -> bytes:
            if ends != "the pod":
                await asyncio.Event().wait()
            raise httpx_ws.WebSocketDisconnect

    def open_websocket(**how: object) -> Socket:
        asked.append(how)
        return Socket()

    async def accepted() -> str:
        reader = asyncio.StreamReader()
        forward = Forward(api, Target("llama", "ollama", {}, 11434))
        connection = asyncio.create_task(forward.accept(reader, writer))
        for _ in range(20):
            await asyncio.sleep(0)
        assert connection.done() is (ends == "the pod")
        if ends == "the client":
            reader.feed_eof()
            for _ in range(20):
                await asyncio.sleep(0)
        elif ends == "tandem":
            await forward.drop()
        assert connection.done()
        return forward.trouble

    monkeypatch.setattr(forwarding, "listed", listed)
    api: Any = SimpleNamespace(open_websocket=open_websocket)
    writer: Any = Writer()
    assert (asyncio.run(accepted()), closed) == ("", [True])
    # Kubernetes API, connect GET requests to portforward of Pod.
    assert asked == [{"url": "pods/a-1/portforward", "namespace": "ollama", "params": {"ports": "11434"}}]


def test_a_port_is_free_again_after_its_block() -> None:
    async def reopened() -> None:
        api: Any = None
        async with forwarded(api, Target("llama", "ollama", {}, 11434), 0) as first:
            port = int(first.url.removeprefix("http://127.0.0.1:"))
            with pytest.raises(CallError, match=rf"^Local port {port} cannot be used \(Address already in use\)\."):
                await forwarded(api, Target("llama", "ollama", {}, 11434), port).__aenter__()
        async with forwarded(api, Target("llama", "ollama", {}, 11434), port) as second:
            assert second.url == first.url

    asyncio.run(reopened())


def test_what_a_pod_says_on_the_channel_for_errors_is_the_trouble_until_an_answer_comes() -> None:
    """Each channel begins with the port in two bytes (kubelet, portforward/websocket.go)."""
    port = (11434).to_bytes(2, "little")
    written: list[bytes] = []

    class Writer:
        write = written.append

        async def drain(self) -> None: ...

    async def receive(*frames: bytes) -> str:
        left = iter(frames)

        async def receive_bytes() -> bytes:
            try:
                return next(left)
            except StopIteration:
                raise httpx_ws.WebSocketDisconnect from None

        socket: Any = SimpleNamespace(receive_bytes=receive_bytes)
        writer: Any = Writer()
        await forward._receive(socket, writer)
        return forward.trouble

    forward = Forward(None, Target("llama", "ollama", {}, 11434))  # type: ignore[arg-type]
    forward.pod = "a-1"
    begin = (b"\0" + port, b"\1" + port)
    assert asyncio.run(receive(*begin, b"\1connection\nrefused", b"\0late")) == "a-1: connection refused"
    assert asyncio.run(receive(*begin, b"\0an", b"\0swer")) == ""
    assert written == [b"an", b"swer"]


def test_a_head_keeps_its_other_fields() -> None:
    head = b"GET / HTTP/1.1\r\nHOST : x:1\r\nAccept: */*\r\nconnection: keep-alive\r\nHost-Like: y\r\n\r\n"
    assert address_to("a.keda", head) == (
        b"GET / HTTP/1.1\r\nHost: a.keda\r\nConnection: close\r\nAccept: */*\r\nHost-Like: y\r\n\r\n"
    )
