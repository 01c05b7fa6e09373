"""`tandem verify` and `tandem watch` against a server that is broken or no API server: one line, never a traceback."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from kr8s.asyncio import Api

from tandem.deployed import connection, kubeconfig
from tandem.deployed.answers import AdmissionError
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.forwarding import Forward, Target
from tandem.deployed.kubernetes import cluster
from tandem.deployed.patience import Patience
from tandem.main import main
from tests.tandem.deployed.errors import ERRORS
from tests.tandem.deployed.fake_kubernetes import APPS, CORE, FakeKubernetes, serving
from tests.tandem.deployed.pretended import Clock
from tests.tandem.seen import ROOT, expected, facts

pytestmark = pytest.mark.slow

FILE = str(ROOT / "Pulumi.timeslice.yaml")


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    with serving(FakeKubernetes()) as server:
        yield server


def shown(command: str, path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """The exit code and the one line on stderr. With --json, an object on stdout has the same text."""
    code = main([command, FILE, "--kubeconfig", str(path), *options])
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in printed.out + printed.err
    assert "very-secret" not in printed.out + printed.err
    assert all(line.isprintable() for line in printed.err.splitlines())
    assert main([command, FILE, "--kubeconfig", str(path), "--json", *options]) == code
    printed = capsys.readouterr()
    if code == 2:
        [line] = lines
        assert f"error: {json.loads(printed.out)['error']}" == line
        return code, line
    return code, printed.out


@pytest.mark.parametrize("command", ["verify", "watch"])
@pytest.mark.parametrize(("path", "answer", "status", "says"), ERRORS["answers"])
def test_a_server_that_is_no_api_server_is_one_line(
    fake: FakeKubernetes,
    command: str,
    path: str,
    answer: Any,
    status: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake.answers[path], fake.status[path] = answer.encode() if isinstance(answer, str) else answer, status
    code, line = shown(command, fake.kubeconfig(tmp_path), capsys, *(["--once"] if command == "watch" else []))
    assert code == 2
    assert says in line


def test_a_tls_port_used_without_tls_is_one_line(
    fake: FakeKubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer of Go's server: net/http server.go, `Client sent an HTTP request to an HTTPS server.`"""
    fake.answers["/version"] = b"Client sent an HTTP request to an HTTPS server.\n"
    fake.status["/version"] = 400
    code, line = shown("verify", fake.kubeconfig(tmp_path), capsys)
    assert code == 2
    assert "refuses requests without TLS (400). Write https:// in the server of context 'x'." in line
    assert "developer.mozilla.org" not in line


def test_a_server_without_tls_used_with_tls_is_one_line(
    fake: FakeKubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fake.kubeconfig(tmp_path)
    path.write_text(path.read_text().replace("http:", "https:"))
    code, line = shown("verify", path, capsys)
    assert code == 2
    assert "does not speak TLS like a Kubernetes API server" in line


@pytest.mark.parametrize("answer", [b"", b"\0" * 100, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"SSH-2.0\r\n"])
def test_a_reply_that_ends_early_is_one_line(answer: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answering() -> None:
        with suppress(OSError):
            while True:
                connected, _ = listening.accept()
                with connected:
                    connected.recv(4096)
                    connected.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answering, daemon=True)
        thread.start()
        fake = FakeKubernetes()
        fake.port = listening.getsockname()[1]
        code, line = shown("verify", fake.kubeconfig(tmp_path), capsys)
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert code == 2
    assert "cannot be reached" in line


def login(folder: Path, script: str) -> dict[str, Any]:
    program = folder / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}


@pytest.mark.parametrize(("script", "says"), ERRORS["logins"])
def test_a_login_program_that_fails_is_one_line(
    fake: FakeKubernetes, script: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, line = shown("verify", fake.kubeconfig(tmp_path, **login(tmp_path, script)), capsys)
    assert code == 2
    assert says in line


def test_a_login_program_that_cannot_be_run_is_one_line(
    fake: FakeKubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fake.kubeconfig(tmp_path, **login(tmp_path, ""))
    (tmp_path / "login").chmod(0o644)
    _, line = shown("verify", path, capsys)
    assert "provided no token: it cannot run (Permission denied)" in line
    (tmp_path / "login").unlink()
    _, line = shown("verify", path, capsys)
    assert "gets its token from" in line
    assert "which is not on the PATH" in line


def test_a_login_program_that_hangs_is_given_up(
    fake: FakeKubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.deployed.kubernetes.CREDENTIALS_SECONDS", 0.5)
    _, line = shown("verify", fake.kubeconfig(tmp_path, **login(tmp_path, "exec sleep 600")), capsys)
    assert "provided no token: no answer within" in line


def test_a_token_file_is_read_again_if_the_token_has_expired(fake: FakeKubernetes, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    path = fake.kubeconfig(tmp_path, tokenFile="token")
    with cluster(kubeconfig.read(path, None)) as reached:
        assert reached.nodes()
        fake.refuses = lambda path, token: token == "Bearer first"
        (tmp_path / "token").write_text("second\n")
        assert reached.nodes()
    assert {token for _, token in fake.asked} == {"Bearer first", "Bearer second"}


def test_wait_waits_for_a_server_that_does_not_exist_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fake = FakeKubernetes()
    fake.port, fake.answers[f"{CORE}/nodes"] = port, {"items": []}
    path = fake.kubeconfig(tmp_path)
    begun: list[Any] = []

    def pause(_: float) -> None:
        if not begun:
            begun.append(serving(fake, port))
            begun[0].__enter__()

    words: list[str] = []
    clock = Clock()
    patience = Patience(60, tell=words.append, clock=clock, sleep=pause)
    with connection.connect(expected(), connection.by_kubeconfig(path, None), patience) as connected:
        assert connected.cluster.nodes() == []
    begun[0].__exit__(None, None, None)
    assert len(words) == 1
    assert "cannot be reached" in words[0]
    with pytest.raises(NotConnectedError), connection.connect(expected(), connection.by_kubeconfig(path, None)):
        pass


def test_wait_ends_after_the_given_time(tmp_path: Path) -> None:
    fake, clock = FakeKubernetes(), Clock()
    fake.port = 1
    way = connection.by_kubeconfig(fake.kubeconfig(tmp_path), None)
    patience = Patience(12, clock=clock, sleep=clock.sleep)
    with pytest.raises(NotConnectedError, match="cannot be reached"), connection.connect(expected(), way, patience):
        pass
    assert clock.slept == [5, 5, 2]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ('pods "x" is forbidden: exceeded quota: small, requested: pods=1', "exceeded quota: small, requested: pods=1"),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest"', 'violates PodSecurity "restricted:latest"'),
    ],
)
def test_a_pod_refused_by_a_rule_is_not_reported_as_missing_access(
    fake: FakeKubernetes, message: str, why: str, tmp_path: Path
) -> None:
    pods = f"{CORE}/namespaces/ollama/pods"
    fake.answers[pods], fake.status[pods] = {"message": message}, 403
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "ollama"}, "spec": {}}
    with cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as reached:
        with pytest.raises(AdmissionError) as refused:
            reached.create_pod(manifest)
        assert str(refused.value) == why
        fake.answers[pods] = {"message": 'pods is forbidden: User "x" cannot create resource "pods" in API group ""'}
        with pytest.raises(NotConnectedError, match="Request an EKS access entry"):
            reached.create_pod(manifest)


def test_every_page_of_a_list_is_read(fake: FakeKubernetes, tmp_path: Path) -> None:
    page = {"metadata": {"continue": "next"}, "items": facts().nodes}
    fake.answers[f"{CORE}/nodes"] = page
    pages: list[Callable[[], None]] = [lambda: page.update(metadata={})]

    def refuses(path: str, token: str) -> bool:
        # The second request gets the last page.
        if path == f"{CORE}/nodes" and len([one for one in fake.asked if one[0] == path]) == 2:
            pages.pop()()
        return False

    fake.refuses = refuses
    with cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as reached:
        assert len(reached.nodes()) == 2
        assert reached.deployments("ollama") == []
    assert (f"{APPS}/namespaces/ollama/deployments", "Bearer very-secret-token") in fake.asked


def test_ctrl_c_while_a_port_is_being_forwarded_is_silent(
    fake: FakeKubernetes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs the callback of a connection that is cancelled twice, with a traceback (Python 3.11, streams.py)."""
    way = connection.by_kubeconfig(fake.kubeconfig(tmp_path), None)
    with suppress(KeyboardInterrupt), connection.connect(expected(), way) as connected:
        leads = connection.forwards(connected)
        port = int(leads.__enter__()["llama2-7b"].url.rpartition(":")[2])
        asking = socket.create_connection(("127.0.0.1", port))
        asking.sendall(b"GET /api/version HTTP/1.1\r\n\r\n")
        assert fake.forwarding.wait(60)
        raise KeyboardInterrupt
    asking.close()
    with suppress(RuntimeError):  # the event loop on which it could be closed has ended
        leads.__exit__(None, None, None)
    assert caplog.records == []


def test_a_connection_that_is_lost_before_a_pod_is_found_names_the_model() -> None:
    class Lost:
        def call_api(self, *_: Any, **__: Any) -> Any:
            raise ConnectionResetError

    async def connect() -> str:
        target = Target(name="llama2-7b", namespace="ollama", labels={}, port=11434)
        forward = Forward(cast(Api, Lost()), target)
        server = await asyncio.start_server(forward.accept, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()
        return forward.trouble

    assert asyncio.run(connect()) == "the connection to llama2-7b was lost (ConnectionResetError)"
