"""Importance and spill on the real engine: they come, change, go, and leave nothing."""

from typing import Any

from sandbox.world import World
from tests.engine.emulated import Raise, Stack
from tests.program.conftest import VARIANTS

CLASS, RELEASE = "kubernetes:scheduling.k8s.io/v1:PriorityClass", "kubernetes:helm.sh/v3:Release"
SECTIONS = VARIANTS["placed"][1]
LLAMA2, MISTRAL, SMALL = SECTIONS["models"]


def classes(stack: Stack) -> dict[str, int]:
    return {one.inputs["metadata"]["name"]: one.inputs["value"] for one in stack.entities(CLASS)}


def ranks(stack: Stack) -> dict[str, str | None]:
    """The PriorityClass of each model."""
    found = {one.inputs["name"]: one.inputs["values"] for one in stack.entities(RELEASE)}
    return {name: values.get("priorityClassName") for name, values in found.items() if "ollama" in values}


def without(model: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key not in keys}


def test_importance_and_spill_come_change_and_go(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    assert classes(stack) == {"tandem-ollama-high": 0, "tandem-ollama-normal": -5, "tandem-ollama-low": -10}
    assert ranks(stack) == {
        "llama2-7b": "tandem-ollama-high",
        "mistral-7b": "tandem-ollama-normal",
        "llama3-2-1b": "tandem-ollama-low",
    }
    assert stack.comes_up().changed == {}, "nothing has changed"

    stack.configure({"models": [LLAMA2, MISTRAL, {**SMALL, "importance": "high"}]})
    changed = stack.comes_up().changed
    assert changed == {"update": {"tandem-ollama-llama3-2-1b"}, "delete": {"tandem-ollama-low"}}
    assert ranks(stack)["llama3-2-1b"] == "tandem-ollama-high"

    stack.configure({"models": [LLAMA2, MISTRAL, without(SMALL, "spill", "importance")]})
    assert stack.comes_up().changed == {"update": {"tandem-ollama-llama3-2-1b"}}

    stack.configure(
        {"models": [without(LLAMA2, "spill", "importance"), MISTRAL, without(SMALL, "spill", "importance")]}
    )
    assert stack.comes_up().changed["delete"] == {"tandem-ollama-high", "tandem-ollama-normal"}
    assert classes(stack) == {}
    assert set(ranks(stack).values()) == {None}
    stack.goes_down()
    assert stack.behind(World.entities) == []
