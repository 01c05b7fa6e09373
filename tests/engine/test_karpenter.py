"""A stack with Karpenter's nodes: the effect of changes, and their deletion before their dependencies.

Karpenter itself runs in the cluster tier.
"""

import pytest

from tests.engine.emulated import Raise, Stack
from tests.sandbox.outside import Outside

INSTANCE = "aws:ec2/instance:Instance"
RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.fixture
def stack(raised: Raise) -> Stack:
    return raised("karpenter")


def instances(stack: Stack) -> list[str]:
    """Ids of the instances that Karpenter has started."""
    return [instance.id for instance in stack.entities(INSTANCE) if instance.made_by == "karpenter"]


def test_more_replicas_reach_karpenter_and_the_plugin_at_once(stack: Stack) -> None:
    stack.configure({"sharing": {"replicas": 4}})
    run = stack.comes_up()
    assert {"tandem-karpenter-gpu-1-gpu", "tandem-sharing-gpu-plugin"} <= run.operations["update"]
    # Labels and taints of its nodes say which mode they were made for.
    assert "tandem-karpenter-gpu-pool" in run.operations["replace"]
    assert stack.findings().agree


def test_parking_touches_the_models_alone(stack: Stack) -> None:
    stack.configure({"gpu-nodes": {"desired": 0}})
    updated = {"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"}
    assert stack.comes_up().changed == {"update": updated, "delete": {"tandem-gpu-proof"}}


def test_a_destroy_without_a_controller_says_what_hangs_and_goes_on_when_it_is_back(stack: Stack) -> None:
    def kill(world: Outside) -> None:
        [release] = [
            entity
            for entity in world.entities()
            if entity.name == "tandem-karpenter-controller" and entity.type == RELEASE
        ]
        world.forget(release.type, release.id)

    stack.behind(kill)
    run = stack.destroy()
    assert run.code != 0
    assert any("NodePool gpu is Terminating" in error for error in run.errors)
    assert len(instances(stack)) == 2, "the `max` of the stack file"
    stack.comes_up("--refresh")
    stack.goes_down()


def test_karpenters_nodes_take_over_from_a_node_group(raised: Raise) -> None:
    stack = raised("timeslice")
    stack.configure({"gpu-nodes": {"provisioner": "karpenter"}})
    run = stack.comes_up()
    assert "tandem-gpu" in run.changed["delete"]
    assert not {"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"} & set().union(*run.changed.values())
    assert len(instances(stack)) == 1
    assert stack.findings().agree
