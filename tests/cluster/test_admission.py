"""Namespaces have the strictest Pod Security level that admits their pods, as the real admission proves."""

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.graph import Graph
from tests.cluster.charts import objects_of
from tests.cluster.deployment import CHARTS, Deployment, Graphs, manifests, releases
from tests.control_plane.api import ApiError

Object = dict[str, Any]
LEVEL = "pod-security.kubernetes.io/enforce"
PLUGIN, DISCOVERY, PROOF = "nvidia-device-plugin", "node-feature-discovery", "share-proof-gpu"
CASES = [
    # (stack, namespace, level, what the next level refuses in its pods)
    ("timeslice", "ollama", "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("volumes", "ollama", "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("monitored", "ollama", "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("mps", "ollama", "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("timeslice", PROOF, "restricted", []),
    ("exclusive", PROOF, "restricted", []),
    ("mig", PROOF, "restricted", []),
    ("mps", PROOF, "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("mps-per-model", "ollama", "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("mps-per-model", PROOF, "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
    ("timeslice", PLUGIN, "privileged", ["hostPath volumes", "privileged", "non-default capabilities"]),
    ("timeslice", DISCOVERY, "privileged", ["hostPath volumes"]),
    ("monitored", "dcgm-exporter", "privileged", ["host namespaces", "hostPath volumes", "non-default capabilities"]),
    ("monitored", "tandem-monitoring", "restricted", []),
    ("ui", "open-webui", "restricted", []),
    ("karpenter-scheduled", "ollama", "baseline", ["runAsNonRoot != true", "runAsUser=0"]),
]
STRICTER = {"privileged": "baseline", "baseline": "restricted"}


def pods(graph: Graph, namespace: str) -> Iterator[Object]:
    """The pods that a stack's objects and charts make in a namespace, as their controllers create them."""
    found = [one for release in releases(graph, *CHARTS) for one in objects_of(release)]
    for one in (*manifests(graph), *found):
        spec = one.get("spec", {})
        template = spec.get("jobTemplate", {"spec": spec})["spec"].get("template")
        if template and one["metadata"].get("namespace") == namespace:
            # Charts create the accounts, and controllers name the pods.
            spec = {key: value for key, value in template["spec"].items() if key != "serviceAccountName"}
            metadata = {**template.get("metadata", {}), "name": one["metadata"]["name"], "namespace": namespace}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"restartPolicy": "Always", **spec}}


def refusals(cluster: Deployment, namespace: Object, wanted: list[Object]) -> str:
    """Everything that admission says against pods in a namespace."""
    cluster.api.apply(namespace)
    said = []
    for pod in wanted:
        try:
            cluster.api.apply(pod, dry_run=True)
        except ApiError as error:
            if "violates PodSecurity" not in str(error):
                raise
            said.append(str(error))
    return "\n".join(said)


@pytest.mark.parametrize(("stack", "name", "level", "refused"), CASES)
def test_a_namespace_takes_its_pods_and_the_next_level_would_not(
    cluster: Deployment, graphs: Graphs, stack: str, name: str, level: str, refused: list[str]
) -> None:
    graph = graphs(stack)
    [namespace] = [one for one in manifests(graph) if one["kind"] == "Namespace" and one["metadata"]["name"] == name]
    wanted = list(pods(graph, name))
    assert wanted
    assert namespace["metadata"]["labels"][LEVEL] == level
    assert refusals(cluster, namespace, wanted) == ""
    if level in STRICTER:
        stricter = {**namespace, "metadata": {"name": name, "labels": {LEVEL: STRICTER[level]}}}
        said = refusals(cluster, stricter, wanted)
        cluster.api.apply(namespace)
        assert all(one in said for one in refused), said
