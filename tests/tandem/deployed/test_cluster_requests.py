"""What is asked of a cluster, and what its refusals mean, without a cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import httpx_ws
import kr8s
import pytest
from kr8s.asyncio.objects import DaemonSet, Deployment, Job, Node, Pod, Secret

from tandem.deployed import kubernetes
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.kubeconfig import Chosen
from tandem.deployed.kubernetes import Cluster, explained

CHOSEN = Chosen("x", {"server": "https://api.example:6443"}, {}, Path("/"))
MODEL = {"metadata": {"name": "llama-0", "namespace": "ollama"}}


def cluster(api: object = None) -> Cluster:
    portal: Any = SimpleNamespace(call=lambda asked: asyncio.run(asked()))
    pretended: Any = api
    return Cluster(portal, pretended, CHOSEN)


def answer(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://api.example:6443"))


def refusal(status: int | None, text: str = "why\nand more") -> kr8s.ServerError:
    return kr8s.ServerError(text, response=None if status is None else answer(status))


ASKED: list[tuple[Callable[[Cluster], object], tuple[object, ...]]] = [
    (lambda found: found.nodes(), (Node,)),
    (lambda found: found.pods(), (Pod, None, None)),
    (lambda found: found.pods("ollama", {"a": "b"}), (Pod, "ollama", {"a": "b"})),
    (lambda found: found.daemon_sets("keda"), (DaemonSet, "keda")),
    (lambda found: found.deployments("keda"), (Deployment, "keda")),
    (lambda found: found.jobs("keda"), (Job, "keda")),
    (lambda found: found.secrets({"owner": "helm"}), (Secret, None, {"owner": "helm"})),
]


@pytest.mark.parametrize(("ask", "asked"), ASKED)
def test_lists_are_of_one_kind_in_one_namespace_or_all(
    ask: Callable[[Cluster], object], asked: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[object] = []

    async def listed(api: object, *what: object) -> list[str]:
        got.extend(what)
        return ["one"]

    monkeypatch.setattr(kubernetes, "listed", listed)
    assert (ask(cluster()), tuple(got)) == (["one"], asked)
    assert cluster().host == "api.example:6443"


def test_a_path_is_read_as_it_is_and_an_unknown_one_is_none() -> None:
    asked: list[tuple[str, Any]] = []

    @asynccontextmanager
    async def call_api(method: str, **where: str) -> AsyncIterator[httpx.Response]:
        asked.append((method, where))
        if where["url"] != "storage.k8s.io/v1":
            raise refusal(500 if where["url"] == "broken" else 404)
        yield httpx.Response(200, json={"kind": "APIResourceList"})

    found = cluster(SimpleNamespace(call_api=call_api))
    assert found.read("/apis/storage.k8s.io/v1") == {"kind": "APIResourceList"}
    assert asked == [("GET", {"version": "", "base": "/apis", "url": "storage.k8s.io/v1"})]
    assert found.read("/apis/none") is None
    with pytest.raises(NotConnectedError, match=r"answered with an error: why\. Try again"):
        found.read("/apis/broken")


class Asked:
    """A pod whose deletion and whose commands end with this error, if there is one."""

    def __init__(self, error: Exception | None = None, said: bytes = b"") -> None:
        self._error, self._said = error, said
        self.asked: list[object] = []

    def __call__(self, *_: object, **__: object) -> "Asked":
        return self

    def __await__(self) -> Generator[None, None, "Asked"]:
        yield from ()
        return self

    async def delete(self, *, force: bool) -> None:
        self.asked.append(force)
        if self._error:
            raise self._error

    async def exec(self, command: list[str], container: str, stdout: Any) -> None:
        self.asked.append((command, container))
        stdout.write(self._said)
        if self._error:
            raise self._error


@pytest.mark.parametrize("error", [None, kr8s.NotFoundError("gone"), refusal(404)])
def test_a_pod_that_is_not_there_counts_as_deleted(error: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = Asked(error)
    monkeypatch.setattr(kubernetes, "Pod", pod)
    cluster().delete_pod("llama-0", "ollama")
    assert pod.asked == [True]


def test_a_deletion_that_is_refused_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "Pod", Asked(refusal(403)))
    with pytest.raises(NotConnectedError, match="denied access: why"):
        cluster().delete_pod("llama-0", "ollama")


def test_a_command_runs_in_a_container_and_its_output_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = Asked(said=b"Tesla T4 \xff\n")
    monkeypatch.setattr(kubernetes, "Pod", pod)
    assert cluster().run_in(MODEL, "plugin", ["nvidia-smi", "-L"]) == "Tesla T4 \ufffd\n"
    assert pod.asked == [(["nvidia-smi", "-L"], "plugin")]


@pytest.mark.parametrize(
    ("error", "printed", "said"),
    [
        (kr8s.ExecError("exit code 9"), b"no\ndriver", "`nvidia-smi` failed in llama-0: no driver"),
        (kr8s.ExecError("exit code 9"), b"", "`nvidia-smi` failed in llama-0: exit code 9"),
        (
            httpx_ws.WebSocketUpgradeError(answer(403)),
            b"",
            "`nvidia-smi` may not run in llama-0 (403). Request `get` and `create` on pods/exec in namespace ollama.",
        ),
    ],
)
def test_a_command_that_fails_says_why(
    error: Exception, printed: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "Pod", Asked(error, printed))
    with pytest.raises(NotConnectedError) as failed:
        cluster().run_in(MODEL, "plugin", ["nvidia-smi"])
    assert str(failed.value) == said


UNVERIFIED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch (_ssl.c:1006)"


@pytest.mark.parametrize(
    ("error", "said", "passing"),
    [
        (refusal(None), "answered with an error: why. Try again.", True),
        (refusal(429), "answered with an error: why. Try again.", True),
        (refusal(500), "answered with an error: why. Try again.", True),
        (refusal(503), "answered with an error: why. Try again.", True),
        (refusal(400), "answered with an error: why. Try again.", False),
        (refusal(409), "answered with an error: why. Try again.", False),
        (refusal(401), "rejected the token", False),
        (refusal(403), "denied access: why. Request", False),
        (refusal(404), "did not find it: why. Check", False),
        (httpx.ConnectError(UNVERIFIED), "does not match context 'x' (Hostname mismatch). Pass", False),
        (httpx.ConnectError("CERTIFICATE_VERIFY_FAILED"), "does not match context 'x' (not verified). Pass", False),
        (httpx.ConnectError("refused"), "cannot be reached (refused). Check", True),
        (httpx.ReadTimeout(""), "cannot be reached (ReadTimeout). Check", True),
        (TimeoutError(), "cannot be reached (no answer in time). Check", True),
        (kr8s.APITimeoutError("late"), "cannot be reached (late). Check", True),
        (httpx_ws.HTTPXWSException("cut"), "cannot be reached (cut). Check", True),
        (RuntimeError("closed"), "cannot be reached (closed). Check", False),
        # What kr8s raises for an answer of another form.
        (KeyError("items"), "does not answer like a Kubernetes API server (KeyError). Check", False),
        (TypeError(), "does not answer like a Kubernetes API server (TypeError). Check", False),
        (ValueError("no JSON"), "does not answer like a Kubernetes API server (ValueError). Check", False),
        (AttributeError(), "does not answer like a Kubernetes API server (AttributeError). Check", False),
    ],
)
def test_only_what_may_end_by_itself_is_waited_for(error: Exception, said: str, passing: bool) -> None:
    with pytest.raises(NotConnectedError) as failed, explained(CHOSEN):
        raise error
    assert said in str(failed.value)
    assert failed.value.passing is passing
