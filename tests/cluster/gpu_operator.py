"""The real GPU Operator on the control plane, and its effect on the nodes of our pools."""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sandbox.graph import Graph
from sharing.modes.base import ENTIRE_GPU_LABELS, LAYOUT_STATE_LABEL
from tests.cluster.charts import Render
from tests.cluster.deployment import Deployment, Object, manifests, releases
from tests.cluster.nodes import Node, nodes
from tests.control_plane.api import ApiError

PROGRAM, NAMESPACE = "gpu-operator", "gpu-operator"
POLICY = "/apis/nvidia.com/v1/clusterpolicies"
DISCOVERED = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "amzn",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "2023",
}
"""The labels that feature discovery, with our configuration, writes together on a GPU node of the EKS AMI."""
NVIDIAS = re.compile("nvidia.com/")
PATIENCE_SECONDS = 120
MARKER = "marker"
"""A node on which the operator runs nothing. Its label shows that the operator has processed all nodes."""


class Operated:
    """A cluster with a pool of entire GPUs and a pool with MIG, during the steps of a scenario."""

    def __init__(
        self, cluster: Deployment, graph: Graph, render: Render, running: ExitStack, *, unlabelled: bool
    ) -> None:
        """With `unlabelled`, the nodes with entire GPUs lack the label that makes the operator ignore them."""
        self.cluster, self.api, self._graph, self._render = cluster, cluster.api, graph, render
        self.nodes = dict(gpu_nodes(graph, unlabelled=unlabelled))
        self._given = {name: dict(node["metadata"]["labels"]) for name, node in self.nodes.items()}
        self._running = running
        for one in manifests(graph):
            if one["kind"] == "Namespace":
                self.api.apply(one)
        self._since = {path: self._version(path) for path in ("/api/v1/nodes", "/api/v1/pods")}

    def take(self, step: str) -> None:
        """`nodes` adds the nodes; `plugin` and `operator` install these; `discovery` writes or removes its labels."""
        match step:
            case "nodes":
                for node in self.nodes.values():
                    self.cluster.join(node)
                self.cluster.wait_for_nodes(*(node["metadata"]["name"] for node in self.nodes.values()))
            case "plugin":
                for release in releases(self._graph, "nvidia-device-plugin"):
                    self.cluster.install(release)
            case "operator":
                self._install_operator()
            case "discovery" | "discovery lost":
                for node in self.nodes.values():
                    lost: Mapping[str, Any] = dict.fromkeys(DISCOVERED)
                    self.cluster.relabel(node["metadata"]["name"], lost if step == "discovery lost" else DISCOVERED)
            case _:
                raise ValueError(f"no step `{step}`")

    def wait_for(self, expected: Object) -> None:
        """Waits until the nodes have the expected labels and pods."""
        self.cluster.plane.wait_for(f"{expected} was there", lambda: self.seen() == expected, PATIENCE_SECONDS)

    def seen(self) -> Object:
        """For each pool's node: NVIDIA's labels that it did not join with, and the DaemonSets with a pod on it."""
        pods = [pod for pod in self.api.list("v1", "Pod") if "deletionTimestamp" not in pod["metadata"]]
        found: Object = {}
        for pool, node in self.nodes.items():
            name = node["metadata"]["name"]
            there = self.api.get("v1", "Node", name)
            labels = self._written(pool, there["metadata"]["labels"]) if there else {}
            daemons = {daemon for daemon, target in map(_placed, pods) if target == name}
            found[pool] = {"labels": labels, "daemons": sorted(daemons)}
        return found

    def history(self) -> Object:
        """For each pool's node: every DaemonSet that made a pod for it, and the values of each label that changed.

        The history is complete: by then the operator has processed all nodes once more.
        """
        labels = {**DISCOVERED, "nvidia.com/gpu.deploy.operands": "false"}
        self.api.call("POST", "/api/v1/nodes", {"metadata": {"name": MARKER, "labels": labels}})
        self.cluster.wait_for("the operator had seen the last node", self._has_marked)
        daemons = {pool: set[str]() for pool in self.nodes}
        values: dict[str, dict[str, list[str | None]]] = {pool: {} for pool in self.nodes}
        pool_of = {node["metadata"]["name"]: pool for pool, node in self.nodes.items()}
        for change in self.api.changes("/api/v1/pods", self._since["/api/v1/pods"]):
            daemon, target = _placed(change["object"])
            if target in pool_of:
                daemons[pool_of[target]].add(daemon)
        for change in self.api.changes("/api/v1/nodes", self._since["/api/v1/nodes"]):
            metadata = change["object"]["metadata"]
            if pool := pool_of.get(metadata["name"]):
                given, rows = self._given[pool], values[pool]
                for label in {*rows, *filter(NVIDIAS.match, metadata["labels"])}:
                    row = rows.setdefault(label, [given.get(label)])
                    if (value := metadata["labels"].get(label)) != row[-1]:
                        row.append(value)
        return {
            pool: {
                "daemons": sorted(daemons[pool]),
                "labels": {label: row for label, row in sorted(values[pool].items()) if len(row) > 1},
            }
            for pool in self.nodes
        }

    def selectors(self) -> dict[str, dict[str, str]]:
        """The node selector of every DaemonSet of the operator."""
        found = self.api.list("apps/v1", "DaemonSet", NAMESPACE)
        pods = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found}
        return {name: pods[name]["nodeSelector"] for name in sorted(pods)}

    def is_ready(self) -> bool:
        """Whether the operator calls its ClusterPolicy ready."""
        [policy] = self.api.call("GET", POLICY)["items"]
        return bool(policy.get("status", {}).get("state") == "ready")

    def _has_marked(self) -> bool:
        there = self.api.get("v1", "Node", MARKER)
        return there is not None and there["metadata"]["labels"].get("nvidia.com/gpu.present") == "true"

    def _written(self, pool: str, labels: Mapping[str, str]) -> dict[str, str]:
        given = self._given[pool].items()
        return {key: value for key, value in sorted(labels.items()) if NVIDIAS.match(key) and (key, value) not in given}

    def _version(self, path: str) -> str:
        return str(self.api.call("GET", path)["metadata"]["resourceVersion"])

    def _install_operator(self) -> None:
        """Creates the chart's objects except the Deployment, whose program runs on this machine."""
        [release] = releases(self._graph, "gpu-operator")
        objects = [one for one in self._render(release) if one["kind"] != "Deployment"]
        definitions = [one for one in objects if one["kind"] == "CustomResourceDefinition"]
        for one in definitions:
            self._create(one)
        self.cluster.plane.wait_until_served(definitions)
        for one in objects:
            if one not in definitions:
                self._create(one)
        environment = {
            "KUBECONFIG": str(self.cluster.plane.kubeconfig),
            "OPERATOR_NAMESPACE": NAMESPACE,
            "VALIDATOR_IMAGE": "none/validator:none",
            "DRIVER_MANAGER_IMAGE": "none/driver-manager:none",
        }
        flags = "--metrics-bind-address=0", "--health-probe-bind-address=0"
        self._running.callback(self.api.call, "DELETE", POLICY, propagationPolicy="Background")
        self._running.enter_context(self.cluster.plane.part(Path(PROGRAM), *flags, environment=environment))

    def _create(self, one: Object) -> None:
        """Creates it, as Helm does: the server prunes the chart's `mig: null`, but refuses to apply it."""
        namespace = one["metadata"].setdefault("namespace", NAMESPACE)
        try:
            self.api.call("POST", self.api.collection(one["apiVersion"], one["kind"], namespace), one)
        except ApiError as error:
            if error.status != 409:  # of an earlier scenario
                raise


def gpu_nodes(graph: Graph, *, unlabelled: bool) -> Iterator[tuple[str, Node]]:
    """The first node of each GPU pool as it joins, before the operator and feature discovery see it."""
    for node in nodes(graph):
        labels = node["metadata"]["labels"]
        if pool := labels.get("tandem/pool"):
            labels.pop(LAYOUT_STATE_LABEL, None)
            if unlabelled:
                for label in ENTIRE_GPU_LABELS:
                    labels.pop(label, None)
            yield pool, node


def _placed(pod: Object) -> tuple[str, str]:
    """The DaemonSet that made a pod, and the intended node, whether or not the pod is bound yet."""
    [owner] = pod["metadata"].get("ownerReferences") or [{"kind": "", "name": ""}]
    if owner["kind"] != "DaemonSet":
        return "", ""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [field] = affinity["nodeSelectorTerms"][0]["matchFields"]
    [name] = field["values"]
    return str(owner["name"]), str(name)
