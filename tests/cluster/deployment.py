"""A stack on the control plane: its objects, its charts' objects, its nodes, and the placement of its pods."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandbox.cloud.identity import autonamed
from sandbox.graph import Graph, Resource, plain
from tests.cluster.charts import objects_of
from tests.cluster.nodes import Node, nodes
from tests.control_plane.kept import StartError
from tests.control_plane.running import ControlPlane, T

Object = dict[str, Any]
Graphs = Callable[[str], Graph]
"""The graph of a stack by its name."""
SECONDS = 40
"""Seconds within which pods are placed; two or three are usual."""
RELEASE = "kubernetes:helm.sh/v3:Release"
CHARTS = (
    "node-feature-discovery",
    "nvidia-device-plugin",
    "ollama",
    "dcgm-exporter",
    "victoria-metrics-single",
    "grafana",
)
"""The charts whose objects `charts.py` makes."""
ORDER = ("Namespace", "StorageClass", "PersistentVolume", "PersistentVolumeClaim")
"""The kinds to create first, in this order."""
CLEARED = (
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
)


def manifests(graph: Graph) -> list[Object]:
    """The Kubernetes objects that a stack emits, namespaces first."""
    found = [
        _named(resource) for resource in graph if resource.type.startswith("kubernetes:") and resource.type != RELEASE
    ]
    return sorted(found, key=lambda one: ORDER.index(one["kind"]) if one["kind"] in ORDER else len(ORDER))


def _named(resource: Resource) -> Object:
    """The object with a name, if the provider would generate one."""
    found: Object = plain(resource.inputs)
    metadata = found["metadata"]
    return {**found, "metadata": {**metadata, "name": autonamed(resource.name, metadata.get("name"))}}


def releases(graph: Graph, *charts: str) -> list[Mapping[str, Any]]:
    """A stack's releases of these charts, in this order."""
    found = [plain(release.inputs) for release in graph.of_type(RELEASE)]
    return [one for chart in charts for one in found if one["chart"].rpartition("/")[2] == chart]


class Deployment:
    """What is deployed on the control plane during one test."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.api

    def deploy(self, graph: Graph, *, nodes_desired: int | None = None, with_nodes: bool = True) -> None:
        """Applies a stack as `pulumi up` and its charts do, without the proof's Jobs, which end before models start."""
        for manifest in manifests(graph):
            if manifest["kind"] != "Job":
                self.api.apply(manifest)
        if with_nodes:
            for node in nodes(graph, desired=nodes_desired):
                self.join(node)
        for release in releases(graph, *CHARTS):
            self.install(release)

    def install(self, release: Mapping[str, Any]) -> None:
        for one in objects_of(release):
            self.api.apply(one)

    def join(self, node: Node) -> None:
        """Adds a node with its status, as kubelet does."""
        self.api.call("POST", "/api/v1/nodes", node)

    def wait_for_nodes(self, *names: str) -> None:
        """Waits until nodes are ready and without the taint of a node that is not ready."""

        def settled(name: str) -> bool:
            node = self.api.get("v1", "Node", name) or {}
            taints = {taint["key"] for taint in node.get("spec", {}).get("taints", [])}
            return is_ready(node) and "node.kubernetes.io/not-ready" not in taints

        self.wait_for(f"{names} were ready", lambda: all(map(settled, names)))

    def taint(self, node: str, taints: list[Object]) -> None:
        """Gives a node these taints, and no others."""
        self.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})

    def relabel(self, node: str, labels: Mapping[str, str]) -> None:
        self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})

    def offer(self, node: str, resource: str, shares: int) -> None:
        """Sets a node's shares, as the device plugin does through kubelet when its config changes."""
        status = {part: {resource: str(shares)} for part in ("capacity", "allocatable")}
        self.api.patch(f"/api/v1/nodes/{node}/status", {"status": status})

    def token_of(self, account: str, namespace: str = "default") -> str:
        """A token as Kubernetes gives one to a pod of that account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.call("POST", path, asked)["status"]["token"])

    def allocatable(self, resource: str) -> int:
        return sum(int(node["status"]["allocatable"].get(resource, 0)) for node in self.api.list("v1", "Node"))

    def pods(self, namespace: str) -> list[Object]:
        return [pod for pod in self.api.list("v1", "Pod", namespace) if "deletionTimestamp" not in pod["metadata"]]

    def models(self) -> dict[str, str]:
        """The node on which each model's pod runs, by release; none for a pod that is not ready."""
        return {
            pod["metadata"]["labels"]["app.kubernetes.io/instance"]: pod["spec"]["nodeName"]
            for pod in self.pods("ollama")
            if is_ready(pod)
        }

    def wait_for_models(self, *releases: str) -> dict[str, str]:
        """Waits until these models run, and no others; returns their nodes."""
        self.wait_for(f"{releases} ran, and they alone", lambda: set(self.models()) == set(releases))
        return self.models()

    def wait_for_deployments(self, *releases: str) -> None:
        """Waits until the controllers have processed these models' deployments."""

        def seen(name: str) -> bool:
            found = self.api.get("apps/v1", "Deployment", name, "ollama") or {}
            return bool(found.get("status", {}).get("observedGeneration"))

        self.wait_for(f"{releases} were deployed", lambda: all(map(seen, releases)))

    def wait_until_refused(self, release: str, why: str) -> None:
        """Waits until the scheduler reports that it cannot place a model's pod for this reason."""
        self.wait_until_unplaced("ollama", lambda pod: instance_of(pod) == release, why)

    def wait_until_unplaced(self, namespace: str, chosen: Callable[[Object], bool], why: str = "") -> str:
        """Waits until the scheduler reports `why` it cannot place a pod; returns its message.

        The first message can have another reason: a node that has just joined is tainted until it is ready.
        """

        def reasons() -> list[str]:
            return [
                condition["message"]
                for pod in self.pods(namespace)
                if chosen(pod)
                for condition in pod.get("status", {}).get("conditions", [])
                if condition["type"] == "PodScheduled"
                and condition["status"] == "False"
                and why in condition["message"]
            ]

        return self.wait_for(f"the scheduler refused the pod: {why}", reasons)[0]

    def wait_for(self, what: str, known: Callable[[], T]) -> T:
        try:
            return self.plane.wait_for(what, known, SECONDS)
        except StartError as error:
            raise AssertionError("\n".join([str(error), *self._shown()])) from None

    def _shown(self) -> Iterator[str]:
        """Every pod with its node, or the reason why it has none."""
        for pod in self.api.list("v1", "Pod"):
            conditions = pod.get("status", {}).get("conditions", [])
            why = [
                condition["message"]
                for condition in conditions
                if condition["type"] == "PodScheduled" and "message" in condition
            ]
            yield f"  {pod['metadata']['name']}: {pod['spec'].get('nodeName') or why}"

    def wait_for_daemons(self, name: str, nodes: set[str], namespace: str = "nvidia-device-plugin") -> None:
        """Waits until a DaemonSet runs on these nodes alone, and its status says so."""

        def running() -> bool:
            status = self._daemon_set(name, namespace).get("status", {})
            on = {
                pod["spec"].get("nodeName")
                for pod in self.pods(namespace)
                if pod["metadata"]["ownerReferences"][0]["name"] == name and is_ready(pod)
            }
            seen = status.get("observedGeneration", 0) >= 1
            counted = {status.get(count, 0) for count in ("desiredNumberScheduled", "numberReady")}
            return seen and on == nodes and counted == {len(nodes)}

        self.wait_for(f"{name} ran on {nodes or 'no node'}", running)

    def _daemon_set(self, name: str, namespace: str) -> Object:
        found = self.api.get("apps/v1", "DaemonSet", name, namespace)
        assert found is not None
        return found

    def clear(self) -> None:
        """Deletes everything except namespaces and objects that affect no other test."""

        def empty() -> bool:
            for namespace in self.api.list("v1", "Namespace"):
                for api_version, kind in CLEARED:
                    path = self.api.collection(api_version, kind, namespace["metadata"]["name"])
                    self.api.call("DELETE", path, gracePeriodSeconds="0", propagationPolicy="Background")
            self.api.call("DELETE", "/api/v1/persistentvolumes")
            self.api.call("DELETE", "/api/v1/nodes")
            kinds = (*CLEARED, ("v1", "PersistentVolume"), ("v1", "Node"))
            return not any(self.api.list(api_version, kind) for api_version, kind in kinds)

        self.wait_for("the cluster was empty", empty)


def is_ready(pod_or_node: Object) -> bool:
    conditions = pod_or_node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def instance_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get("app.kubernetes.io/instance"))
