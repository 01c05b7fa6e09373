"""Models of different importance compete for shares on the real scheduler: who evicts whom."""

from typing import Any

import pytest

from components import OllamaPair, OllamaPairArgs
from components.ollama_pair import OllamaModel
from sandbox.graph import Graph
from sandbox.preview.program import run
from tests.cluster.deployment import Deployment, Graphs, Object, instance_of, manifests, releases
from tests.cluster.nodes import nodes
from tests.cluster.test_placement import GPU_NODE, NO_SHARE_LEFT
from tests.cluster.test_share_proof import NAMESPACE, Kubelet, gpu_nodes, job_of
from tests.cluster.test_share_proof import proof as proof  # a fixture

TAGS = {"one": "llama2:7b", "two": "mistral:7b", "three": "llama3.2:1b"}


def pair(**importances: Any) -> Graph:
    """Models by their ids, each with its importance."""
    models = [OllamaModel(TAGS[id], id=id, importance=one) for id, one in importances.items()]
    return run(lambda: OllamaPair("pair", OllamaPairArgs(models=models)), project="test", stack="test")


def apply(cluster: Deployment, graph: Graph) -> dict[str, Any]:
    """Applies all objects except the releases, which it returns by name."""
    for manifest in manifests(graph):
        cluster.api.apply(manifest)
    return {release["name"]: release for release in releases(graph, "ollama")}


def join_a_node(cluster: Deployment, graphs: Graphs) -> None:
    """A node with two shares."""
    cluster.join(next(one for one in nodes(graphs("timeslice")) if one["metadata"]["name"] == GPU_NODE))
    cluster.wait_for_nodes(GPU_NODE)


def identities(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


@pytest.mark.parametrize(
    ("importances", "waits"),
    [
        ({"one": "low", "two": "normal", "three": "high"}, "one"),
        ({"one": "high", "two": "low", "three": None}, "two"),
        ({"one": "high", "two": None, "three": "high"}, "two"),
        ({"one": "high", "two": "normal", "three": "low"}, "three"),
        ({"one": "normal", "two": "normal", "three": None}, "three"),
        ({"one": None, "two": None, "three": None}, "three"),
    ],
)
def test_the_model_that_comes_last_takes_the_share_of_a_less_important_one(
    cluster: Deployment, graphs: Graphs, importances: dict[str, Any], waits: str
) -> None:
    join_a_node(cluster, graphs)
    found = apply(cluster, pair(**importances))
    cluster.install(found["one"])
    cluster.install(found["two"])
    cluster.wait_for_models("one", "two")
    before = {instance_of(one): one["metadata"]["uid"] for one in cluster.pods("ollama")}
    cluster.install(found["three"])
    cluster.wait_until_refused(waits, NO_SHARE_LEFT)
    runs = set(TAGS) - {waits}
    cluster.wait_for_models(*runs)
    after = {instance_of(one): one["metadata"]["uid"] for one in cluster.pods("ollama")}
    assert all(after[id] == before[id] for id in runs & set(before))


def test_no_model_evicts_a_pod_of_a_share_check(cluster: Deployment, graphs: Graphs, proof: list[Object]) -> None:
    for one in proof:
        if one["kind"] != "Job":
            cluster.api.apply(one)
    gpu_nodes(cluster, graphs("mps"), int(job_of(proof, "shares")["spec"]["completions"]))
    job = Kubelet(cluster, job_of(proof, "shares"))
    job.wait_until_placed()
    before = identities(job.pods())
    # It tolerates every mode, so that only its priority keeps it from the shares.
    found = apply(cluster, pair(three="high"))
    cluster.install(found["three"])
    cluster.wait_until_refused("three", "No preemption victims found for incoming pod")
    assert identities(cluster.pods(NAMESPACE)) == before
    assert job.wait()["type"] == "Complete"
    cluster.wait_for_models("three")
