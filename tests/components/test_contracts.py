"""The contract of every component: parents, names, tokens, outputs, providers, tags."""

import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest

import components
from components import ExistingVpc, GpuCluster, GpuClusterArgs
from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Question, Values
from sandbox.graph import STACK_TYPE, Graph, Resource, Secret, holds_secret
from sandbox.preview.program import run
from tests.components.conftest import BUILDERS, TAGS, Builder
from tests.conftest import Golden
from tests.goldens import describe, in_full

NAMES = ("one", "two")
REGION = "eu-west-1"
ZONES = {"subnet-1": "eu-west-1a", "subnet-2": "eu-west-1b"}

TOKEN = "tandem:index:{}"
"""Tokens are frozen, because they identify users' resources. A rename needs an alias and a line in the changelog."""


class Outer(pulumi.ComponentResource):
    """A user's component with its own providers."""

    def __init__(self, build: Builder) -> None:
        super().__init__("somebody:index:Outer", "outer")
        provider = aws.Provider("theirs", region=REGION)
        cluster = k8s.Provider("their-cluster", kubeconfig="{}")
        for name in NAMES:
            build(name, pulumi.ResourceOptions(parent=self, providers=[provider, cluster]))
        self.register_outputs({})


class Listening(Cloud):
    """An account with the clusters and a node group of both instances, which keeps what it is asked."""

    def __init__(self) -> None:
        group = {"labels": {"tandem/pool": "gpu"}, "tags": {}, "instanceTypes": ["g4dn.xlarge"]}
        super().__init__(
            answers={
                "aws:eks/getClusters:getClusters": {"names": [f"{name}-cluster" for name in NAMES]},
                "aws:eks/getNodeGroups:getNodeGroups": {"names": ["gpu-1234"]},
                "aws:eks/getNodeGroup:getNodeGroup": group,
                "aws:ec2/getSubnet:getSubnet": lambda asked: {"availabilityZone": ZONES[asked.args["id"]]},
            }
        )
        self.asked: list[Question] = []

    def answer(self, question: Question) -> Values:
        self.asked.append(question)
        return super().answer(question)


CLOUDS: dict[str, Listening] = {}
"""The account of each component."""


@pytest.fixture(scope="module")
def graph(component: str) -> Graph:
    """The component, built twice inside another one."""
    CLOUDS[component] = Listening()
    return run(lambda: Outer(BUILDERS[component]), project="test", stack="test", cloud=CLOUDS[component])


@pytest.fixture(scope="module")
def own(graph: Graph, component: str) -> list[Resource]:
    """The two instances of the component."""
    return [resource for resource in graph if resource.type == TOKEN.format(component)]


def below(graph: Graph, component: str) -> Iterator[Resource]:
    for resource in graph.of_type(TOKEN.format(component)):
        yield from graph.descendants(resource.urn)


def discovered() -> dict[str, type[pulumi.ComponentResource]]:
    modules = [import_module(f"components.{module.name}") for module in iter_modules(components.__path__)]
    return {
        name: kind
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, pulumi.ComponentResource) and kind.__module__ == module.__name__
    }


def test_every_component_is_exported_and_has_a_frozen_token_and_a_builder() -> None:
    assert set(discovered()) == set(BUILDERS)
    for name in discovered():
        assert getattr(components, name) is discovered()[name]
        assert hasattr(components, f"{name}Args")


def test_a_component_registers_the_resources_of_its_golden(component: str, golden: Golden) -> None:
    """`--regen` writes `tests/golden/components`. Arguments that a caller omits appear with their defaults."""
    cloud = Listening()
    graph = run(lambda: BUILDERS[component]("one", None), project="test", stack="test", cloud=cloud)
    asked = sorted({in_full({one.token: one.args}) for one in cloud.asked})
    golden(f"components/{component}.json", f"{in_full({**describe(graph), 'asked': [*map(json.loads, asked)]})}\n")


@pytest.mark.slow
def test_a_component_registers_under_its_token_and_its_name(own: list[Resource]) -> None:
    assert [resource.name for resource in own] == list(NAMES)


def test_every_resource_of_a_component_is_its_descendant(graph: Graph, component: str) -> None:
    for resource in graph:
        above = [parent.type for parent in graph.ancestors(resource.urn)]
        ours = resource.type == TOKEN.format(component) or TOKEN.format(component) in above
        assert ours or resource.type in (STACK_TYPE, "somebody:index:Outer") or resource.name.startswith("their")


def test_names_of_children_begin_with_the_name_of_the_component(graph: Graph, own: list[Resource]) -> None:
    for parent in own:
        for child in graph.descendants(parent.urn):
            assert child.name.startswith(f"{parent.name}-"), child.urn


def test_registered_outputs_are_the_attributes_that_are_outputs(
    graph: Graph, own: list[Resource], component: str
) -> None:
    hints = discovered()[component].__annotations__
    attributes = {name for name, hint in hints.items() if getattr(hint, "__origin__", None) is pulumi.Output}
    for resource in own:
        registered = {re.sub(r"(?<!^)([A-Z])", r"_\1", key).lower() for key in graph.outputs[resource.urn]}
        assert registered == attributes


def test_children_use_the_providers_that_the_outer_component_was_given(graph: Graph, component: str) -> None:
    for child in below(graph, component):
        provider = graph.effective_provider(child.urn)
        if child.type.startswith("aws:"):
            assert provider.endswith("::theirs"), child.urn
        if child.type.startswith("kubernetes:") and component != "GpuCluster":
            assert provider.endswith("::their-cluster"), child.urn


def asked_elsewhere(cloud: Listening) -> set[str]:
    """The functions that were not called with the provider of the outer component."""
    return {one.token for one in cloud.asked if one.token.startswith("aws:") and one.provider.get("region") != REGION}


def test_functions_of_aws_are_called_with_the_provider_of_the_outer_component(graph: Graph, component: str) -> None:
    assert graph
    assert asked_elsewhere(CLOUDS[component]) == set()


def test_the_zones_of_an_existing_vpc_are_asked_with_the_provider_of_the_outer_component() -> None:
    vpc, cloud = ExistingVpc(id="vpc-0a1b2c3d", subnet_ids=["subnet-1", "subnet-2"]), Listening()

    def build(name: str, opts: pulumi.ResourceOptions | None) -> pulumi.ComponentResource:
        return GpuCluster(name, GpuClusterArgs(cluster_name=f"{name}-cluster", vpc=vpc), opts)

    run(lambda: Outer(build), project="test", stack="test", cloud=cloud)
    # All functions of EC2 and EKS by which zones are chosen.
    asked = {one.token.rpartition(":")[2] for one in cloud.asked}
    assert asked >= {"getSubnet", "getInstanceTypeOfferings", "getClusters", "getNodeGroups", "getNodeGroup"}
    assert asked_elsewhere(cloud) == set()
    groups = [one for one in cloud.asked if "NodeGroup" in one.token]
    assert {(one.args["clusterName"], one.args.get("nodeGroupName")) for one in groups} == {
        (f"{name}-cluster", group) for name in NAMES for group in (None, "gpu-1234")
    }


def test_resources_in_a_new_cluster_use_that_clusters_provider() -> None:
    graph = run(lambda: BUILDERS["GpuCluster"]("made", None), project="test", stack="test")
    inside = [resource for resource in graph if resource.type.startswith("kubernetes:")]
    assert inside
    assert all(graph.effective_provider(one.urn).endswith("::made-kubernetes") for one in inside)


def test_every_taggable_resource_has_the_tags(graph: Graph, component: str) -> None:
    for resource in below(graph, component):
        if resource.type.startswith("aws:") and "tags" in inputs_of(resource.type):
            assert TAGS.items() <= dict(resource.inputs.get("tags", {})).items(), resource.urn
        if resource.type == "aws:ec2/launchTemplate:LaunchTemplate":
            specified = {spec["resourceType"]: spec["tags"] for spec in resource.inputs["tagSpecifications"]}
            assert set(specified) == {"instance", "volume", "network-interface"}
            assert all(TAGS.items() <= given.items() for given in specified.values())


def inputs_of(token: str) -> set[str]:
    package, module, name = token.split(":")
    assert package == "aws"
    kind: Any = getattr(import_module(f"pulumi_aws.{module.split('/')[0]}"), name)
    return set(inspect.signature(kind._internal_init).parameters)


def test_no_secret_is_stored_as_plain_text(graph: Graph, component: str) -> None:
    for resource in below(graph, component):
        if resource.constructed:
            continue  # the provider inside eks.Cluster: its kubeconfig has no credential, only a command that gets one
        if "kubeconfig" in resource.inputs:
            assert isinstance(resource.inputs["kubeconfig"], Secret)
        assert "apiVersion" not in str(resource.inputs.get("kubeconfig", ""))
    for urn in (resource.urn for resource in graph.of_type(TOKEN.format(component))):
        for key, value in graph.outputs[urn].items():
            assert holds_secret(value) == (key in ("kubeconfig", "adminPassword")), key


def test_children_do_not_depend_on_their_ancestors(graph: Graph, component: str) -> None:
    for resource in (one for one in below(graph, component) if not one.constructed):
        above = {parent.urn for parent in graph.ancestors(resource.urn)}
        assert not above & set(resource.dependencies), resource.urn
