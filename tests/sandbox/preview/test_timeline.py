"""The duration of an `up`: small graphs, and the waits of their resources."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandbox.graph import Graph, Ref, Resource
from sandbox.preview.timeline import longest_path
from tests.sandbox.conftest import TRUST

CASES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "timeline.yaml").read_text(encoding="utf-8"))


def resource(urn: str, *, inputs: dict[str, Any] | None = None, takes: float = 0, **given: Any) -> Resource:
    """A resource whose name is its URN. `{"resource": urn}` among the inputs is a resource used as a value."""
    refs = {key: Ref(value["resource"], "id") for key, value in (inputs or {}).items()}
    return Resource(urn=urn, name=urn, outputs={}, inputs=refs, **{"type": "a:b:C", **given})


def graph_of(resources: dict[str, dict[str, Any]]) -> Graph:
    return Graph({urn: resource(urn, **given) for urn, given in sorted(resources.items())})


@pytest.mark.parametrize("case", CASES)
def test_the_longest_path(case: str) -> None:
    resources, steps = CASES[case]["resources"], CASES[case]["path"]
    path = longest_path(graph_of(resources), lambda one: resources[one.urn]["takes"], CASES[case].get("until"))
    assert [[step.urn, step.start, step.end] for step in path] == steps
    assert [step.waits_for for step in path] == [None, *(urn for urn, *_ in steps)][: len(steps)]


def test_a_programs_resources_wait_for_the_children_of_its_cluster(cluster_graph: Callable[..., Graph]) -> None:
    def then(cluster: eks.Cluster) -> None:
        aws.iam.Role("nodes", assume_role_policy=TRUST, opts=pulumi.ResourceOptions(depends_on=[cluster]))

    graph = cluster_graph(then)
    minutes = {"c-eksCluster": 9, "c-kube-proxy": 1, "c-vpc-cni": 2, "net-vpc": 1, "net-b": 2, "nodes": 1}
    path = longest_path(graph, lambda one: minutes.get(one.name, 0), graph.named("nodes").urn)
    own_role = graph.named("c-eksRole-role")
    assert [(graph[step.urn].name, step.start, step.end) for step in path][-3:] == [
        ("c-eksCluster", 3, 12),
        ("c-vpc-cni", 12, 14),
        ("nodes", 14, 15),
    ]
    assert own_role.dependencies == ()
    assert longest_path(graph, lambda one: minutes.get(one.name, 0), own_role.urn)[-1].start == 3


@given(st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 20))), max_size=12))
def test_the_path_is_as_long_as_the_longest_chain_of_dependencies(nodes: list[tuple[int, set[int]]]) -> None:
    resources = {
        f"{number:02}": {"dependencies": tuple(f"{other:02}" for other in sorted(before) if other < number)}
        for number, (_, before) in enumerate(nodes)
    }
    ends: dict[str, float] = {}
    for urn, one in resources.items():
        ends[urn] = nodes[int(urn)][0] + max((ends[other] for other in one["dependencies"]), default=0)
    path = longest_path(graph_of(resources), lambda one: nodes[int(one.urn)][0])
    assert sum(step.minutes for step in path) == max(ends.values(), default=0)
    for previous, after in pairwise(path):
        assert previous.urn in resources[after.urn]["dependencies"]
        assert after.start == previous.end
