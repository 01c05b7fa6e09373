"""Each optional section on the real engine: it comes, stays, changes and goes, and leaves nothing.

The stacks are variants of `tests/program/variants.yaml`.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox.world import World
from tests.engine.emulated import Raise, Stack
from tests.engine.parked import PARK, park, wake
from tests.program.conftest import VARIANTS

Changed = dict[str, set[str]]
LLAMA2, MISTRAL, SMALL = VARIANTS["placed"][1]["models"]
MODELS = {"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"}
SECRET = "kubernetes:core/v1:Secret"


def without(model: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key not in keys}


PLAIN = [without(model, "spill", "importance") for model in (LLAMA2, MISTRAL, SMALL)]


@dataclass(frozen=True)
class Feature:
    """Another value of a section and what it changes, and its end with what it creates and deletes."""

    change: dict[str, Any]
    changed: Changed
    end: dict[str, Any]
    deleted: set[str]
    created: set[str] = field(default_factory=set)


FEATURES = {
    "ui": Feature(
        {"ui": {"admin-email": "me@example.com", "storage-gib": 6}},
        {
            "replace": {"tandem-ui-credentials"},
            "update": {"tandem-ui-server", "tandem-ui-accounts-and-documents-volume"},
        },
        {"ui": {"enabled": False}},
        {"tandem-ui"},
    ),
    # Other costs make another dashboard, and its ConfigMap gets another name.
    "monitored": Feature(
        {"cluster": {"system-nodes": {"count": 2}}},
        {
            "replace": {"tandem-monitoring-dashboards"},
            "update": {"tandem-monitoring-grafana", "tandem-system"},
        },
        {"monitoring": {"store": "none"}},
        {"tandem-monitoring", "tandem-ollama-model-metrics"},
    ),
    "tagged": Feature(
        {"budget": {"alert": {"max-usd": 500, "emails": ["me@example.com"], "scope": "stack"}}},
        {"update": {"tandem-alert-monthly-tagged"}},
        {"budget": {"alert": None}},
        {"tandem-alert"},
    ),
    "placed": Feature(
        {"models": [LLAMA2, MISTRAL, {**SMALL, "importance": "high"}]},
        {"update": {"tandem-ollama-llama3-2-1b"}, "delete": {"tandem-ollama-low"}},
        {"models": PLAIN},
        {"tandem-ollama-high", "tandem-ollama-normal"},
    ),
    "karpenter-idle": Feature(
        {"scale-to-zero": {"idle-minutes": 30, "cold-requests": "refuse"}},
        {"update": MODELS},
        {"scale-to-zero": {"enabled": False}},
        {"tandem-zero"},
        {"tandem-gpu-proof"},
    ),
}


def secrets(stack: Stack) -> dict[str, str]:
    """Passwords and keys that Pulumi has made."""
    data = [secret.inputs["stringData"] for secret in stack.entities(SECRET)]
    return {key: value for each in data for key, value in each.items() if "PASSWORD" in key.upper()}


@pytest.mark.parametrize("name", FEATURES)
def test_an_optional_section_comes_stays_changes_and_goes(raised: Raise, name: str) -> None:
    feature, (base, sections) = FEATURES[name], VARIANTS[name]
    stack = raised(base, sections)
    before = secrets(stack)
    assert stack.comes_up().changed == {}, "nothing has changed"
    state = json.dumps(stack.state())
    assert [key for key, value in before.items() if value in state] == [], "secrets are encrypted"
    assert "ops@example.com" not in state, "addresses are encrypted"
    stack.configure(feature.change)
    assert stack.comes_up().changed == feature.changed
    assert secrets(stack) == before, "a password stays"
    stack.configure(feature.end)
    ended = stack.comes_up().operations
    assert ended["delete"] == feature.deleted
    assert ended["create"] == feature.created
    stack.goes_down()
    assert stack.behind(World.entities) == []


def test_optional_sections_and_a_schedule_do_not_disturb_each_other(raised: Raise) -> None:
    pools = [{**pool, "instance-types": ["g4dn.xlarge"], "max": 1} for pool in VARIANTS["placed"][1]["gpu-nodes"]]
    # Models without importance and spill: no scheduler of the sandbox moves others for them (decision 0167).
    sections = {"budget": {}, "gpu-nodes": pools, "models": PLAIN, "park": PARK, "monitoring": {"store": "builtin"}}
    stack = raised("timeslice", {**sections, "ui": VARIANTS["ui"][1]["ui"]})
    park(stack)
    assert stack.comes_up("--refresh").changed == {}
    # Page and metrics are on system nodes, so they change while no GPU node runs. Nothing waits for one.
    stack.configure({"ui": {"admin-email": "me@example.com"}, "monitoring": {"store": "none"}})
    stack.configure({"models": [{**PLAIN[0], "context": 1024}, *PLAIN[1:]]})
    changed = stack.comes_up().changed
    assert {"tandem-ui-credentials", "tandem-ui-server"} <= changed["replace"] | changed["update"]
    assert "tandem-monitoring" in changed["delete"]
    wake(stack)
    assert stack.comes_up().operations["create"] == {f"tandem-{pool['name']}-proof" for pool in pools}
    assert stack.comes_up().changed == {}
    stack.goes_down()
    assert stack.behind(World.entities) == []


def test_a_section_that_the_cluster_refuses_can_be_taken_back(raised: Raise) -> None:
    """The emulated cluster has no Prometheus Operator."""
    stack = raised("dev")
    stack.configure({"monitoring": {"store": "builtin", "service-monitors": True}})
    stack.stops(saying='no matches for kind "PodMonitor"')
    stack.configure({"monitoring": {"service-monitors": False}})
    assert stack.comes_up().operations["create"]
    assert stack.findings().agree
