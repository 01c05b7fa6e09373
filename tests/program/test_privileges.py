"""The privileges of the containers of whole stacks; `tests/cluster/test_admission.py` has the levels of namespaces."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.graph import Graph, plain

Object = dict[str, Any]


def servers(graph: Graph) -> Iterator[Object]:
    """Values of the releases of models."""
    for release in graph.of_type("kubernetes:helm.sh/v3:Release"):
        if release.inputs["chart"] == "ollama":
            yield plain(release.inputs)["values"]


def own_pods(graph: Graph) -> Iterator[tuple[Object, list[Object]]]:
    """securityContext and containers of every pod that this program describes, without those of charts."""
    for values in servers(graph):
        server = {"securityContext": values["securityContext"], "resources": values["resources"]}
        yield values["podSecurityContext"], [server, *values["initContainers"]]
    for resource in graph:
        if resource.type.startswith(("kubernetes:batch/", "kubernetes:apps/")):
            spec = plain(resource.inputs)["spec"]
            pod = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
            yield pod["securityContext"], [*pod.get("initContainers", ()), *pod["containers"]]


def test_no_container_has_a_capability_or_gets_privileges_or_takes_memory_without_limit(
    graphs: Callable[[str], Graph], any_stack: str
) -> None:
    found = list(own_pods(graphs(any_stack)))
    assert found
    for pod, containers in found:
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert "privileged" not in container["securityContext"]
            assert container["resources"]["limits"]["memory"].endswith(("Mi", "Gi"))


@pytest.mark.slow
def test_the_proof_is_the_models_user_where_mps_serves_one_user_and_nobody_elsewhere(
    graphs: Callable[[str], Graph],
) -> None:
    def users(stack: str) -> set[int]:
        jobs = [
            resource for resource in graphs(stack).of_type("kubernetes:batch/v1:Job") if "-shares-" in resource.name
        ]
        return {plain(job.inputs)["spec"]["template"]["spec"]["securityContext"]["runAsUser"] for job in jobs}

    assert {values["podSecurityContext"]["runAsUser"] for values in servers(graphs("mps"))} == users("mps") == {0}
    for stack in ("timeslice", "exclusive", "mig", "karpenter"):
        assert users(stack) == {65534}
