"""A switch of mode on a deployed stack: its resources, and what the journal of the emulated cloud must say."""

from typing import Any

from sandbox.world import Event
from tests.engine.emulated import Stack

TWO_NODES: dict[str, Any] = {
    "gpu-nodes": {"desired": 2, "max": 2},
    "budget": {},
    "models": [
        {"name": "llama2:7b", "context": 2048, "cache": "volume"},
        {"name": "mistral:7b", "context": 2048},
    ],
}
"""Each model has a GPU under every mode, so that nothing but the mode changes; one keeps its files on a volume."""
CONFIGS = {"timeslice": "timeslice-2", "mps": "mps-2", "exclusive": "exclusive", "per-model": "mps-2-per-model"}
"""Name of the device plugin's configuration in each mode."""
GROUP, PLUGIN = "tandem-gpu-group", "tandem-sharing-gpu-plugin"
MODELS = frozenset({"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"})
VALUE = "tandem-gpu-mode"
"""The part that makes each value of the taint new."""
JOBS = frozenset({"tandem-gpu-proof-node-job", "tandem-gpu-proof-shares-gpu-job"})
NODE_GROUP, JOB, RELEASE = "aws:eks/nodeGroup:NodeGroup", "kubernetes:batch/v1:Job", "kubernetes:helm.sh/v3:Release"
INSTANCE = "aws:ec2/instance:Instance"


def journal(stack: Stack) -> list[Event]:
    return stack.behind(lambda world: world.journal)


def in_order(events: list[Event]) -> list[str]:
    """The kinds of events in order; consecutive events of one kind count once."""
    kinds = [event.kind for event in events]
    return [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before]


def assert_no_mode_meets_another(events: list[Event]) -> None:
    """A model starts on a node only in its mode, once that is proved and all models of another mode have stopped.

    No node has two device plugins."""
    modes: dict[str, str] = {}
    proved: set[str] = set()
    running: dict[str, Event] = {}
    for event in events:
        assert event.kind != "clash", event
        if event.kind == "mode":
            modes[event.node] = event.config
            proved.discard(event.node)
        elif event.kind == "prove":
            proved.add(event.node)
        elif event.kind == "start":
            assert event.node not in modes or modes[event.node] == event.config
            assert event.node not in modes or event.node in proved
            assert {other.config for other in running.values() if other.node == event.node} <= {event.config}
            running[event.who] = event
        else:
            running.pop(event.who, None)
