"""A cluster that answers, and one error with a fix for each that does not: requests to a local API server."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tandem.deployed import connection, kubeconfig
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.kubernetes import cluster
from tandem.deployed.objects import AdmissionError
from tandem.deployed.patience import Patience
from tandem.main import end_on_signals, main
from tests.tandem.deployed.errors import ERRORS
from tests.tandem.deployed.fake_kubernetes import CORE, FakeKubernetes, serving
from tests.tandem.deployed.pretended import Clock
from tests.tandem.seen import ROOT, planned

pytestmark = pytest.mark.slow

FILE = str(ROOT / "Pulumi.timeslice.yaml")
JOBS, CRON_JOBS = "/apis/batch/v1/namespaces/ollama/jobs", "/apis/batch/v1/namespaces/ollama/cronjobs"
PODS = f"{CORE}/namespaces/ollama/pods"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "ollama"}, "spec": {}}
TEMPLATE = {"template": {"spec": {"containers": [{"name": "scaler", "env": [{"name": "A", "value": "1"}]}]}}}


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    with serving(FakeKubernetes()) as server:
        yield server


def error_of(path: Path) -> str:
    """The error of a look at the nodes."""
    with pytest.raises(NotConnectedError) as error, cluster(kubeconfig.read(path, None)) as reached:
        reached.nodes()
    line = str(error.value)
    assert line.isprintable()
    assert line.endswith(".")
    assert "very-secret" not in line
    return line


@pytest.mark.parametrize(("path", "answer", "status", "says"), ERRORS["answers"])
def test_a_server_that_is_no_api_server_is_one_line(
    fake: FakeKubernetes, path: str, answer: Any, status: int, says: str, tmp_path: Path
) -> None:
    fake.answers[path], fake.status[path] = answer.encode() if isinstance(answer, str) else answer, status
    assert says in error_of(fake.kubeconfig(tmp_path))


def test_a_server_without_tls_used_with_tls_is_one_line(fake: FakeKubernetes, tmp_path: Path) -> None:
    path = fake.kubeconfig(tmp_path)
    path.write_text(path.read_text().replace("http:", "https:"))
    line = error_of(path)
    assert "does not speak TLS like a Kubernetes API server ([SSL" in line
    assert "Check the server of context 'x', and any proxy in front of it." in line


def test_a_server_with_tls_used_without_it_is_one_line(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.answers["/version"], fake.status["/version"] = b"Client sent an HTTP request to an HTTPS server.", 400
    line = error_of(fake.kubeconfig(tmp_path))
    assert "refused a request without TLS (400). Write https:// in the server of context 'x'." in line


@pytest.mark.parametrize("user", [{"token": "x"}, {"client-key": "key", "client-certificate": "key"}])
def test_wait_does_not_wait_for_tls_that_fails(user: dict[str, str], fake: FakeKubernetes, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no PEM")
    path, clock = fake.kubeconfig(tmp_path, **user), Clock()
    path.write_text(path.read_text().replace("http:", "https:"))
    patience = Patience(12, clock=clock, sleep=clock.sleep)
    with pytest.raises(NotConnectedError), cluster(kubeconfig.read(path, None), patience):
        pass
    assert clock.slept == []


def login(folder: Path, script: str) -> dict[str, Any]:
    program = folder / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}


@pytest.mark.parametrize(("script", "says"), ERRORS["logins"])
def test_a_login_program_that_fails_is_one_line(fake: FakeKubernetes, script: str, says: str, tmp_path: Path) -> None:
    assert says in error_of(fake.kubeconfig(tmp_path, **login(tmp_path, script)))


def test_a_login_program_that_cannot_be_run_is_one_line(fake: FakeKubernetes, tmp_path: Path) -> None:
    path = fake.kubeconfig(tmp_path, **login(tmp_path, ""))
    (tmp_path / "login").chmod(0o644)
    assert "provided no token: it cannot run (Permission denied)" in error_of(path)
    (tmp_path / "login").unlink()
    assert "/login`, which is not on the PATH. Install `" in error_of(path)


def test_a_login_program_that_hangs_is_given_up(
    fake: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.deployed.kubernetes.CREDENTIALS_SECONDS", 0.5)
    line = error_of(fake.kubeconfig(tmp_path, **login(tmp_path, "exec sleep 600")))
    assert "provided no token: no answer within" in line


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"username": "me", "password": "very-secret"}, "username/password authentication was removed"),
        ({"token": "very-secret\nx"}, "cannot be reached (LocalProtocolError)"),
        (
            {"client-key": "key", "client-certificate": "key"},
            "a certificate or key of context 'x' cannot be used ([SSL] PEM lib (",
        ),
    ],
)
def test_unusable_credentials_are_one_line(
    user: dict[str, str], says: str, fake: FakeKubernetes, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("no PEM")
    assert says in error_of(fake.kubeconfig(tmp_path, **user))


def test_objects_are_those_of_their_namespace(fake: FakeKubernetes, tmp_path: Path) -> None:
    with cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as reached:
        found = reached.daemon_sets("nvidia-device-plugin")
        assert found == fake.answers["/apis/apps/v1/namespaces/nvidia-device-plugin/daemonsets"]["items"]
        assert found
        assert len(reached.pods("ollama")) == len(reached.pods())
        assert reached.deployments("ollama") == []


def test_a_login_that_has_expired_is_repeated(fake: FakeKubernetes, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    script = f'printf \'{{"status": {{"token": "%s"}}}}\' "$(cat {tmp_path}/token)"'
    with cluster(kubeconfig.read(fake.kubeconfig(tmp_path, **login(tmp_path, script)), None)) as reached:
        assert reached.nodes()
        fake.refuses = lambda path, token: token == "Bearer first"
        (tmp_path / "token").write_text("second")
        assert reached.nodes()
    assert {token for _, token in fake.asked} == {"Bearer first", "Bearer second"}


def test_wait_waits_for_a_server_that_does_not_exist_yet(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fake = FakeKubernetes()
    fake.port, fake.answers[f"{CORE}/nodes"] = port, {"items": []}
    begun: list[Any] = []

    def pause(_: float) -> None:
        if not begun:
            begun.append(serving(fake, port))
            begun[0].__enter__()

    words: list[str] = []
    patience = Patience(60, tell=words.append, clock=Clock(), sleep=pause)
    way = connection.by_kubeconfig(fake.kubeconfig(tmp_path), None)
    with connection.connect(planned(), way, patience) as connected:
        assert connected.cluster.nodes() == []
    begun[0].__exit__(None, None, None)
    assert len(words) == 1
    assert "cannot be reached" in words[0]


def test_wait_ends_after_the_given_time(tmp_path: Path) -> None:
    fake, clock = FakeKubernetes(), Clock()
    fake.port = 1
    way = connection.by_kubeconfig(fake.kubeconfig(tmp_path), None)
    patience = Patience(12, clock=clock, sleep=clock.sleep)
    with pytest.raises(NotConnectedError, match="cannot be reached"), connection.connect(planned(), way, patience):
        pass
    assert clock.slept == [5, 5, 2]


def test_a_pod_refused_by_a_rule_is_not_reported_as_missing_access(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.answers[PODS], fake.status[PODS] = {"message": 'pods "x" is forbidden: exceeded quota: small'}, 403
    with cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as reached:
        with pytest.raises(AdmissionError, match=r"^exceeded quota: small$"):
            reached.create_pod(POD)
        fake.answers[PODS] = {"message": 'pods is forbidden: User "x" cannot create resource "pods" in API group ""'}
        with pytest.raises(NotConnectedError, match="Request an EKS access entry"):
            reached.create_pod(POD)


def serving_nightly() -> FakeKubernetes:
    fake = FakeKubernetes()
    nightly: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "ollama", "uid": "u-1"},
        "spec": {"schedule": "0 20 * * *", "suspend": True, "jobTemplate": {"spec": TEMPLATE}},
    }
    fake.answers |= {CRON_JOBS: {"items": [nightly]}, JOBS: {"metadata": {"name": "nightly-now-x"}}, f"{PODS}/x": POD}
    return fake


def test_a_cron_job_is_started_as_kubectl_does(tmp_path: Path) -> None:
    with serving(serving_nightly()) as fake, cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as found:
        assert found.start_cron_job("nightly", "ollama") == "nightly-now-x"
    [(path, job)] = fake.created
    assert path == JOBS
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u-1", "controller": True}
    assert job["metadata"] == {
        "generateName": "nightly-now-",
        "namespace": "ollama",
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [owner],
    }
    assert job["spec"] == TEMPLATE


def test_each_of_two_clusters_gets_its_own_requests(tmp_path: Path) -> None:
    """kr8s sends a request without `api` to the first cluster, or to that of the user's own kubeconfig."""
    (tmp_path / "other").mkdir()
    with serving(serving_nightly()) as fake, serving(serving_nightly()) as other:
        one, two = (at.kubeconfig(folder) for at, folder in ((fake, tmp_path), (other, tmp_path / "other")))
        with cluster(kubeconfig.read(two, None)), cluster(kubeconfig.read(one, None)) as found:
            connected, before = len(fake.asked), len(other.asked)
            found.create_pod(POD)
            found.delete_pod("x", "ollama")
            found.start_cron_job("nightly", "ollama")
        asked = [path for path, _ in fake.asked[connected:]]
        assert [path for path in asked if path != CRON_JOBS] == [PODS, f"{PODS}/x", JOBS]
        assert len(other.asked) == before
        # As `kubectl delete --force`: it does not wait until the containers have ended (API reference, DeleteOptions).
        assert fake.deleted == [(f"{PODS}/x", {"gracePeriodSeconds": 0})]


def test_ctrl_c_while_a_port_is_being_forwarded_is_silent(
    fake: FakeKubernetes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs the callback of a connection that is cancelled twice, with a traceback (Python 3.11, streams.py)."""
    way = connection.by_kubeconfig(fake.kubeconfig(tmp_path), None)
    with suppress(KeyboardInterrupt), connection.connect(planned(), way) as connected:
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


@pytest.fixture
def kept() -> Iterator[None]:
    """Restores the signal handlers afterwards."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_command_leaves_no_credentials_behind(
    fake: FakeKubernetes, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    seen: list[list[str]] = []

    def ends(path: str, token: str) -> bool:
        if not seen:
            seen.append([folder.name for folder in private.iterdir()])
            os.kill(os.getpid(), number)
        return False

    end_on_signals()
    fake.refuses = ends
    try:
        code: Any = main(["watch", "--once", FILE, "--kubeconfig", str(fake.kubeconfig(tmp_path))])
    except SystemExit as ended:
        code = ended.code
    assert code == 128 + number
    [[folder]] = seen
    assert folder.startswith("tandem-kubeconfig-")
    assert list(private.iterdir()) == []


@pytest.mark.usefixtures("kept")
def test_ignored_hangups_stay_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_on_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
