"""Models that scale to zero on the real engine: they come and go, and KEDA goes last. tests/scale wakes them."""

from sandbox.world import World
from tests.engine.emulated import Raise, Stack

RELEASE = "kubernetes:helm.sh/v3:Release"
INSTANCE = "aws:ec2/instance:Instance"
MODELS = {"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"}
ON = {"scale-to-zero": {"enabled": True}}


def nodes(stack: Stack) -> int:
    """Karpenter's nodes."""
    return sum(one.made_by == "karpenter" for one in stack.entities(INSTANCE))


def test_models_come_without_nodes_and_a_change_brings_none(raised: Raise) -> None:
    stack = raised("karpenter", ON)
    assert nodes(stack) == 0
    for options in ((), ("--refresh",)):
        assert stack.comes_up(*options).changed == {}, options
    stack.configure({"scale-to-zero": {"idle-minutes": 30, "cold-requests": "refuse"}})
    assert stack.comes_up().changed == {"update": MODELS}
    stack.configure({"models": [{"name": "llama2:7b", "context": 4096}, {"name": "mistral:7b", "context": 2048}]})
    assert stack.comes_up().changed == {"update": {"tandem-ollama-llama2-7b"}}
    assert nodes(stack) == 0
    stack.goes_down()


def test_without_the_section_the_models_run_again_and_keda_is_deleted(raised: Raise) -> None:
    stack = raised("karpenter")
    stack.configure(ON)
    changed = stack.comes_up().changed
    assert changed["create"] == {"tandem-zero"}
    assert changed["delete"] == {"tandem-gpu-proof"}
    assert changed["update"] > MODELS

    stack.configure({"scale-to-zero": {"enabled": False}})
    changed = stack.comes_up().changed
    assert changed["delete"] == {"tandem-zero"}
    assert changed["create"] == {"tandem-gpu-proof"}
    assert nodes(stack) == 1
    assert not {"keda", "keda-add-ons-http"} & {one.inputs["chart"] for one in stack.entities(RELEASE)}
    stack.goes_down()


def test_a_destroy_without_keda_says_what_hangs_and_goes_on_when_it_is_back(raised: Raise) -> None:
    """Pulumi would delete KEDA last. Here somebody has deleted it before."""
    stack = raised("karpenter", ON)
    stack.behind(lambda world: world.forget(RELEASE, "keda/keda"))
    run = stack.destroy()
    assert run.code != 0
    assert any("no KEDA removes its finalizer" in error for error in run.errors)
    stack.comes_up("--refresh")
    stack.goes_down()
    assert stack.behind(World.entities) == []


def test_a_node_group_is_refused_before_anything_is_created(raised: Raise) -> None:
    stack = raised("karpenter")
    stack.configure({"gpu-nodes": {"provisioner": "node-group"}, **ON})
    assert "needs Karpenter: the node group keeps its nodes" in stack.refuses()
