from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.graph import Graph, Ref, Resource
from sandbox.preview.program import run
from sandbox.preview.timeline import Step, longest_path, schedule

Built = Callable[..., Graph]
TRUST = "{}"


def role(name: str, *after: Any, **opts: Any) -> aws.iam.Role:
    options = pulumi.ResourceOptions(depends_on=list(after), **opts)
    return aws.iam.Role(name, assume_role_policy=TRUST, opts=options)


def resource(name: str, **given: Any) -> Resource:
    return Resource(urn=name, type="a:b:C", name=name, **{"parent": "", "inputs": {}, "outputs": {}, **given})


def taking(minutes: Mapping[str, float]) -> Callable[[Resource], float]:
    return lambda resource: minutes.get(resource.name, 0)


def steps(path: list[Step], graph: Graph) -> list[tuple[str, float, float]]:
    return [(graph[step.urn].name, step.start, step.end) for step in path]


class Group(pulumi.ComponentResource):
    """One role below a component."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tandem:index:Group", name, None, opts)
        self.role = role(f"{name}-role", parent=self)


def test_the_longest_path_goes_through_what_takes_longest() -> None:
    def program() -> None:
        slow, quick = role("slow"), role("quick")
        role("last", slow, quick)
        role("aside")

    graph = run(program, project="p", stack="s")
    path = longest_path(graph, taking({"slow": 3, "quick": 1, "last": 2, "aside": 4}))
    assert steps(path, graph) == [("slow", 0, 3), ("last", 3, 5)]
    assert [step.waits_for for step in path] == [None, path[0].urn]


def test_until_ends_the_path_at_a_resource() -> None:
    def program() -> None:
        first = role("first")
        role("second", first)
        role("long")

    graph = run(program, project="p", stack="s")
    minutes = taking({"first": 1, "second": 1, "long": 9})
    assert steps(longest_path(graph, minutes, graph.named("second").urn), graph) == [("first", 0, 1), ("second", 1, 2)]
    with pytest.raises(KeyError):
        longest_path(graph, minutes, "urn:unknown")


def test_a_resource_waits_for_its_provider() -> None:
    def program() -> None:
        provider = aws.Provider("aws", region="eu-west-1")
        role("mine", provider=provider)
        role("default")

    graph = run(program, project="p", stack="s")
    found = schedule(graph, taking({"aws": 2, "mine": 1}))
    assert found[graph.named("mine").urn].start == 2
    assert found[graph.named("default").urn].start == 0


def test_a_child_waits_for_what_its_component_depends_on() -> None:
    def program() -> None:
        before = role("before")
        group = Group("group", pulumi.ResourceOptions(depends_on=[before]))
        pulumi.export("arn", group.role.arn)

    graph = run(program, project="p", stack="s")
    assert graph.named("group-role").dependencies == ()
    assert steps(longest_path(graph, taking({"before": 3, "group-role": 1})), graph) == [
        ("before", 0, 3),
        ("group-role", 3, 4),
    ]


def test_a_child_of_a_custom_resource_waits_until_that_is_there() -> None:
    graph = run(lambda: role("below", parent=role("above")), project="p", stack="s")
    assert schedule(graph, taking({"above": 2}))[graph.named("below").urn].start == 2


def test_deleted_with_is_waited_for_by_the_one_that_says_it() -> None:
    def program() -> None:
        target = role("target")
        Group("group", pulumi.ResourceOptions(deleted_with=target))
        role("aside")

    graph = run(program, project="p", stack="s")
    found = schedule(graph, taking({"target": 2}))
    assert found[graph.named("group-role").urn].start == 2
    assert found[graph.named("aside").urn].start == 0


CLUSTER_MINUTES = {"c-eksCluster": 9, "c-kube-proxy": 1, "c-vpc-cni": 2, "net-vpc": 1, "c-eksRole-4b490823": 1}


def test_a_dependency_on_the_cluster_waits_for_its_last_child(cluster_graph: Built) -> None:
    def then(cluster: eks.Cluster, _: Any) -> None:
        role("nodes", cluster)

    graph = cluster_graph(then)
    path = longest_path(graph, taking({**CLUSTER_MINUTES, "nodes": 1}), graph.named("nodes").urn)
    assert steps(path, graph)[-3:] == [("c-eksCluster", 2, 11), ("c-vpc-cni", 11, 13), ("nodes", 13, 14)]
    assert path[-1].waits_for == graph.named("c-vpc-cni", "aws:eks/addon:Addon").urn


def test_a_child_of_the_cluster_waits_for_everything_that_its_arguments_depend_on(cluster_graph: Built) -> None:
    graph = cluster_graph()
    own_role = graph.named("c-eksRole-role")
    assert own_role.dependencies == ()
    assert schedule(graph, taking({"net-vpc": 1, "net-b": 2}))[own_role.urn].start == 3


def test_a_child_of_a_remote_component_waits_for_a_resource_among_its_arguments() -> None:
    # Such a resource is not among the component's dependencies: the SDK leaves it out for remote components.
    given = resource("given")
    component = resource("component", custom=False, remote=True, inputs={"role": Ref("given", "id")})
    child = resource("child", parent="component", constructed=True)
    graph = Graph({one.urn: one for one in (child, component, given)})
    assert schedule(graph, taking({"given": 5}))["child"].start == 5


def test_what_the_program_puts_below_the_cluster_waits_for_the_whole_cluster(cluster_graph: Built) -> None:
    def then(cluster: eks.Cluster, _: Any) -> None:
        role("below", parent=cluster)
        role("beside", cluster)

    graph = cluster_graph(then)
    found = schedule(graph, taking({**CLUSTER_MINUTES, "below": 50}))
    assert found[graph.named("below").urn].start == 13
    assert found[graph.named("beside").urn].start == 13


def test_the_path_until_a_component_ends_with_its_last_child(cluster_graph: Built) -> None:
    graph = cluster_graph()
    path = longest_path(graph, taking(CLUSTER_MINUTES), graph.named("c", "eks:index:Cluster").urn)
    assert steps(path, graph)[-1] == ("c-vpc-cni", 11, 13)


def test_of_equally_long_paths_the_one_with_the_smallest_urns_is_taken() -> None:
    def program() -> None:
        role("end", *[role(name) for name in ("b", "c", "a")])

    graph = run(program, project="p", stack="s")
    path = longest_path(graph, lambda _: 0.1)
    assert [name for name, *_ in steps(path, graph)] == ["a", "end"]


def test_the_noise_of_adding_fractions_does_not_decide() -> None:
    assert 0.1 + 0.2 > 0.3
    chain = resource("y"), resource("z", dependencies=("y",))
    graph = Graph({one.urn: one for one in (resource("c"), resource("end", dependencies=("c", "z")), *chain)})
    path = longest_path(graph, taking({"c": 0.3, "y": 0.1, "z": 0.2, "end": 1}))
    assert [step.urn for step in path] == ["c", "end"]


def test_a_resource_that_takes_no_time_is_still_what_the_next_one_waits_for() -> None:
    def program() -> None:
        role("end", Group("group").role)

    graph = run(program, project="p", stack="s")
    path = longest_path(graph, taking({"end": 1}))
    assert [name for name, *_ in steps(path, graph)] == ["group-role", "end"]


def test_an_empty_stack_takes_no_time() -> None:
    assert longest_path(run(lambda: None, project="p", stack="s"), lambda _: 1) == []


def test_a_graph_that_waits_for_itself_is_a_mistake() -> None:
    graph = Graph({"x": resource("x", dependencies=("y",)), "y": resource("y", dependencies=("x",))})
    with pytest.raises(AssertionError, match="cannot wait for itself"):
        longest_path(graph, lambda _: 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 20))), max_size=12))
def test_the_path_is_as_long_as_the_longest_chain_of_dependencies(nodes: list[tuple[int, set[int]]]) -> None:
    resources = {}
    for number, (_, before) in enumerate(nodes):
        urn = f"{number:02}"
        dependencies = tuple(f"{other:02}" for other in sorted(before) if other < number)
        resources[urn] = resource(urn, dependencies=dependencies)
    ends: dict[str, float] = {}
    for urn, one in resources.items():
        ends[urn] = nodes[int(urn)][0] + max((ends[other] for other in one.dependencies), default=0)
    path = longest_path(Graph(resources), lambda one: nodes[int(one.urn)][0])
    assert sum(step.minutes for step in path) == max(ends.values(), default=0)
    for previous, after in pairwise(path):
        assert previous.urn in resources[after.urn].dependencies
        assert after.start == previous.end
