"""A fake cluster that keeps pods in a list, and servers on local ports."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tandem.deployed.connection import Connected, Reach
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import AdmissionError, Facts, labels, requested
from tests.tandem.fake_ollama import FakeOllama
from tests.tandem.seen import NODE, facts, planned

TOO_FEW = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available."


class Cluster:
    """Answers with `facts`, and schedules new pods while there are free `shares`."""

    host = "api.example"

    def __init__(self, seen: Facts, shares: int = 2) -> None:
        self.facts, self.shares = seen, shares
        self.made: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.fails: list[NotConnectedError] = []
        self.words = TOO_FEW
        self.on_create: Callable[[], None] = lambda: None
        self.refuses = ""
        self.gpu: str | NotConnectedError = "GPU-1, Tesla T4, 9300, 15360, 37\n"
        self.looked_in: list[str] = []
        """The namespaces of the Deployments that were asked for."""
        self.ran: list[tuple[str, str]] = []
        """Pod and container of each command."""
        self.command: list[str] = []
        """The last one."""
        self.url, self.forwarded = "", list[tuple[Any, ...]]()
        """Where its forwarded ports lead, and those that were asked for, with their options."""

    def nodes(self) -> Any:
        if self.fails:
            raise self.fails.pop(0)
        return self.facts.nodes

    def daemon_sets(self, namespace: str) -> Any:
        return self.facts.daemon_sets.get(namespace, [])

    def deployments(self, namespace: str) -> Any:
        self.looked_in.append(namespace)
        return self.facts.deployments

    def pods(self, namespace: str | None = None, wanted: Mapping[str, str] | None = None) -> Any:
        every = [*self.facts.pods, *self.facts.mps_pods, *self.made]
        every = [one for one in every if namespace in (None, one["metadata"]["namespace"])]
        return [one for one in every if (wanted or {}).items() <= labels(one).items()]

    def create_pod(self, manifest: dict[str, Any]) -> None:
        if self.refuses:
            raise AdmissionError(self.refuses)
        pod = copy.deepcopy(manifest)
        taken = sum(requested(one, "nvidia.com/gpu") for one in self.pods() if "nodeName" in one["spec"])
        if taken < self.shares:
            pod["spec"]["nodeName"] = NODE
            pod["status"] = {"phase": "Pending"}
        else:
            refused = {"type": "PodScheduled", "status": "False", "message": self.words}
            pod["status"] = {"phase": "Pending", "conditions": [refused]}
        self.made.append(pod)
        self.on_create()

    def delete_pod(self, name: str, namespace: str) -> None:
        self.deleted.append(name)
        self.made = [one for one in self.made if one["metadata"]["name"] != name]

    def run_in(self, pod: Any, container: str, command: list[str]) -> str:
        self.ran.append((pod["metadata"]["name"], container))
        self.command = command
        if isinstance(self.gpu, NotConnectedError):
            raise self.gpu
        return self.gpu

    @contextmanager
    def forward(self, *target: Any, **options: Any) -> Iterator[SimpleNamespace]:
        self.forwarded.append((*target, options))
        yield SimpleNamespace(url=self.url, trouble="")


def connected(cluster: Cluster, outputs: Mapping[str, Any] | None = None, stack: str = "timeslice") -> Connected:
    pretended: Any = cluster
    return Connected(pretended, planned(stack), outputs)


def well() -> Cluster:
    return Cluster(facts())


def reaching(**fakes: FakeOllama) -> Reach:
    """Reaches servers without forwarded ports; keys are ids with `_` instead of `-`."""

    @contextmanager
    def reach(_: Connected) -> Iterator[Mapping[str, Any]]:
        yield {name.replace("_", "-"): SimpleNamespace(url=fake.url, trouble="") for name, fake in fakes.items()}

    return reach


class Clock:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
