"""Pools that are added, deleted, renamed and switched: every GPU node always has exactly one device plugin."""

from typing import Any

import pytest

from sandbox.world import Event, World
from sandbox.world.controllers.nodes import labels
from sandbox.world.controllers.plugin import plugins_on
from sandbox.world.entities import Entities
from tests.engine.emulated import Raise, Stack

NODE = "kubernetes:core/v1:Node"
T4 = {"instance-types": ["g4dn.xlarge"], "capacity": "spot"}
OWN_LIMITS = {"mode": "mps", "limits": "per-model"}
TWO_TURNS, TWO_BY_MPS = {"mode": "timeslice", "replicas": 2}, {"mode": "mps", "replicas": 2}
LLAMA, MISTRAL = ({"name": name, "context": 2048} for name in ("llama2:7b", "mistral:7b"))


def pools(*them: dict[str, Any], on: tuple[str, str] = ("gpu", "gpu")) -> dict[str, Any]:
    """Sections of a stack file with these pools, and which pool each of the two models is on."""
    models = [{**model, "pool": name} for model, name in zip((LLAMA, MISTRAL), on, strict=True)]
    return {"gpu-nodes": [*them], "models": models, "budget": {"max-usd-per-hour": 9.0, "max-usd-per-month": None}}


def pool(name: str, sharing: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    return {"name": name, **T4, **({"sharing": sharing} if sharing else {}), **values}


STEPS = {
    "a pool is added": (
        pools(pool("gpu"), pool("more", TWO_BY_MPS), on=("gpu", "more")),
        {"gpu": "timeslice-2", "more": "mps-2"},
    ),
    "both switch": (
        pools(pool("gpu", {"mode": "exclusive"}), pool("more", TWO_TURNS), on=("gpu", "more")),
        {"gpu": "exclusive", "more": "timeslice-2"},
    ),
    "one gets limits per model": (
        pools(pool("gpu", {"mode": "exclusive"}), pool("more", OWN_LIMITS), on=("gpu", "more")),
        {"gpu": "exclusive", "more": "mps-2-per-model"},
    ),
    "one is renamed": (
        pools(pool("gpu", {"mode": "exclusive"}), pool("other", TWO_TURNS), on=("gpu", "other")),
        {"gpu": "exclusive", "other": "timeslice-2"},
    ),
    "one goes": (pools(pool("other", TWO_TURNS), on=("other", "other")), {"other": "timeslice-2"}),
}
"""The next content of the file, and the configuration of each pool's nodes afterwards."""


def clashes(stack: Stack) -> list[Event]:
    return stack.behind(lambda world: [event for event in world.journal if event.kind == "clash"])


def plugins(stack: Stack) -> dict[str, list[str]]:
    """The releases with a plugin on the nodes of each pool."""
    releases: dict[str, list[str]] = {}
    entities = Entities(stack.behind(World.entities))
    for node in entities.of(NODE):
        if name := labels(node).get("tandem/pool"):
            releases.setdefault(name, []).extend(plugin.id for plugin in plugins_on(entities, node))
    return releases


@pytest.mark.real_world(
    behaviour="Two device plugins on one node both register with the kubelet, and the one that comes last takes the "
    "GPUs from the other.",
    source="kubelet pkg/kubelet/cm/devicemanager/manager.go, PluginConnected (an endpoint of the same resource is "
    "overwritten)",
)
def test_pools_that_come_switch_change_their_name_and_go_have_one_plugin_on_each_node(raised: Raise) -> None:
    stack = raised("timeslice", pools(pool("gpu")))
    for step, (sections, configs) in STEPS.items():
        stack.configure(sections)
        run = stack.up()
        assert run.code == 0, (step, run.errors)
        assert clashes(stack) == [], step
        assert plugins(stack) == {name: [f"nvidia-device-plugin/nvidia-device-plugin-{name}"] for name in configs}, step
        assert stack.findings().agree, step
    stack.goes_down()


RTX = {"instance-types": ["g7e.2xlarge"]}
ALL_ALIKE = {"mode": "mig", "strategy": "single", "layout": "all-1g.24gb"}


def test_a_pool_goes_to_mig_and_back_beside_one_that_stays_whole(raised: Raise) -> None:
    whole, cut = pool("gpu", TWO_TURNS), pool("big", TWO_BY_MPS, **RTX)
    stack = raised("timeslice", pools(whole, cut, on=("gpu", "big")))
    operator, chart = "gpu-operator/gpu-operator", "nvidia-device-plugin/nvidia-device-plugin-{}"
    for sharing, served_by in ((ALL_ALIKE, operator), (TWO_TURNS, chart.format("big"))):
        stack.configure(pools(whole, pool("big", sharing, **RTX), on=("gpu", "big")))
        run = stack.comes_up()
        assert clashes(stack) == []
        assert plugins(stack) == {"gpu": [chart.format("gpu")], "big": [served_by]}
        assert "tandem-sharing-gpu-plugin" not in {name for names in run.changed.values() for name in names}
        findings = stack.findings()
        assert (findings.missing, findings.unfinished) == ((), ())
        # Helm keeps the CRDs in a chart's folder `crds`.
        assert all("CustomResourceDefinition" in str(orphan) for orphan in findings.orphans)
