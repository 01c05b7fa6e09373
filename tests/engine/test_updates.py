"""Updates and replacements of GPU nodes against the account's vCPU quota, with both orders of replacement."""

import pytest

from sandbox.world import World
from tests.engine.emulated import Raise, Stack

STACK = "timeslice"
G_SPOT = "L-3819A6DF"
"""All G and VT Spot Instance Requests."""
POD, NODE = "kubernetes:core/v1:Pod", "kubernetes:core/v1:Node"
NODE_GROUP, GROUP = "aws:eks/nodeGroup:NodeGroup", "tandem-gpu-group"
MODELS = ("llama2-7b", "mistral-7b")
ON_OLD, ON_NEW = (dict.fromkeys(MODELS, kind) for kind in ("g4dn.xlarge", "g4dn.2xlarge"))
"""Both models on the old group's nodes, with 4 vCPUs each, and on the new group's nodes, with 8 each."""
DELETE_FIRST = {"gpu-nodes": {"replacement": "delete-first"}}
SHIPPED = {"gpu-nodes": {"instance-types": ["g4dn.xlarge", "g4dn.2xlarge"]}}
LARGER = {"gpu-nodes": {"instance-types": ["g4dn.2xlarge"]}}


def allow(stack: Stack, vcpus: int) -> None:
    """Sets the account's quota for G instances on spot."""
    stack.behind(lambda world: world.allow_vcpus(G_SPOT, vcpus))


def serving(stack: Stack) -> dict[str, str]:
    """The instance type of each running model's node, by the name of its pod."""
    types: dict[str, str] = {}
    entities = {entity.key: entity for entity in stack.behind(World.entities)}
    for model in MODELS:
        if node := entities[POD, f"ollama/{model}-0"].outputs["node"]:
            owner = entities[NODE, node].owner
            assert owner is not None
            types[model] = entities[owner].outputs["instanceType"]
    return types


def groups(stack: Stack) -> list[str]:
    """The instance type of each node group of GPUs in the cloud."""
    return [entity.inputs["instanceTypes"][0] for entity in stack.entities(NODE_GROUP, GROUP)]


@pytest.mark.real_world(
    behaviour="Models keep answering on the old node group when the new one gets no capacity",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html, AsgInstanceLaunchFailures; "
    "pulumi pkg/resource/deploy/step.go, CreateStep.Apply",
)
def test_create_first_keeps_models_on_the_old_group_when_the_new_one_gets_no_capacity(raised: Raise) -> None:
    stack = raised(STACK)
    allow(stack, 4 + 7)
    stack.configure(LARGER)
    stack.stops(saying="MaxSpotInstanceCountExceeded")
    assert serving(stack) == ON_OLD
    allow(stack, 4 + 8)
    stack.comes_up()
    assert (groups(stack), serving(stack)) == (["g4dn.2xlarge"], ON_NEW)
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="A refresh clears the mark of a node group that failed to create and leaves the old group alone",
    source="pulumi pkg/resource/deploy/step.go, RefreshStep.Apply; "
    "terraform-provider-aws internal/service/eks/node_group.go, resourceNodeGroupRead",
)
def test_after_a_refresh_a_replacement_that_got_no_capacity_is_finished_by_the_command_that_up_names(
    raised: Raise,
) -> None:
    stack = raised(STACK)
    allow(stack, 4 + 7)
    stack.configure(LARGER)
    stack.stops()
    assert stack.refresh().code == 0
    assert serving(stack) == ON_OLD
    allow(stack, 4 + 8)
    said = stack.stops(saying="CREATE_FAILED")
    assert serving(stack) == ON_OLD
    stack.comes_up("--replace", said.partition("--replace '")[2].partition("'")[0])
    assert (groups(stack), serving(stack)) == (["g4dn.2xlarge"], ON_NEW)
    assert stack.findings().agree


def test_a_replacement_that_got_no_capacity_can_be_taken_back(raised: Raise) -> None:
    stack = raised(STACK)
    allow(stack, 4 + 7)
    stack.configure(LARGER)
    stack.stops()
    stack.configure(SHIPPED)
    allow(stack, 4 + 4)
    stack.comes_up()
    assert (groups(stack), serving(stack)) == (["g4dn.xlarge"], ON_OLD)
    assert stack.findings().agree


def test_delete_first_leaves_no_model_when_the_new_group_gets_no_capacity(raised: Raise) -> None:
    stack = raised(STACK, DELETE_FIRST)
    allow(stack, 7)
    stack.configure(LARGER)
    stack.stops(saying="MaxSpotInstanceCountExceeded")
    assert serving(stack) == {}
    stack.configure(SHIPPED)
    stack.comes_up()
    assert (groups(stack), serving(stack)) == (["g4dn.xlarge"], ON_OLD)
    assert stack.findings().agree


def test_the_order_of_replacement_can_be_chosen_with_the_change_that_needs_it(raised: Raise) -> None:
    stack = raised(STACK)
    allow(stack, 8)
    stack.configure({"gpu-nodes": {**DELETE_FIRST["gpu-nodes"], **LARGER["gpu-nodes"]}})
    assert stack.comes_up().changed == {"replace": {GROUP}}
    assert (stack.peaks()[G_SPOT], groups(stack), serving(stack)) == (8, ["g4dn.2xlarge"], ON_NEW)
    assert stack.findings().agree
