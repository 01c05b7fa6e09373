"""Node groups as a schedule of EventBridge leaves them, behind Pulumi's back."""

from collections.abc import Callable

from sandbox.world import tokens
from tests.engine.emulated import Stack
from tests.sandbox.outside import Outside

PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI", "timezone": "Europe/Paris"}


def park(stack: Stack) -> None:
    """Sets every GPU node group to 0, as at the beginning of the night."""
    _resize(stack, lambda sizes: 0)


def wake(stack: Stack) -> None:
    """Sets every GPU node group to its maximum, as in the morning."""
    _resize(stack, lambda sizes: sizes["maxSize"])


def _resize(stack: Stack, nodes: Callable[[dict[str, int]], int]) -> None:
    def resize(world: Outside) -> None:
        for group in world.entities():
            if group.type == tokens.NODE_GROUP and "tandem/pool" in group.inputs.get("labels", {}):
                sizes = group.inputs["scalingConfig"]
                world.resize(group.id, {**sizes, "minSize": 0, "desiredSize": nodes(sizes)})

    stack.behind(resize)


def nodes(stack: Stack) -> int:
    """GPU nodes that run."""
    return len([node for node in stack.entities(tokens.INSTANCE) if node.inputs["instanceType"].startswith("g4dn")])


def serving(stack: Stack) -> int:
    """Models that run on a node."""
    pods = [pod for pod in stack.entities("kubernetes:core/v1:Pod") if pod.id.startswith("ollama/")]
    return sum(bool(pod.outputs["node"]) for pod in pods)
