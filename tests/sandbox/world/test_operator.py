"""The emulated GPU Operator reproduces the real one's traces, which tests/cluster/test_gpu_operator.py wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.device_plugin_sharing import operator_chart, plugin_chart
from sandbox.world import tokens
from sandbox.world.controllers.nodes import labels
from sandbox.world.controllers.plugin import cut, plugins_on
from sandbox.world.entities import Entities, Entity
from sharing.hardware.gpus import gpus
from sharing.modes.base import ENTIRE_GPU_LABELS
from sharing.modes.modes import Mig, TimeSlicing
from tests.sandbox.world_pieces import TAINT, Account

WHOLE: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[1] / "gpu_operator.json").read_text(encoding="utf-8")
)
TRACES, SELECTORS = WHOLE["traces"], WHOLE["selectors"]
TURNS, SLICES = TimeSlicing(replicas=2), Mig()
T4, RTX = gpus()["t4"], gpus()["rtx-pro-server-6000"]
POOLS = {"whole": (TURNS, T4, "g4dn.xlarge"), "cut": (SLICES, RTX, "g7e.2xlarge")}
PLUGINS = {
    "nvidia-device-plugin-whole": "kube-system/plugin",
    "nvidia-device-plugin-daemonset": "kube-system/gpu-operator",
}
"""The releases of the plugin's DaemonSets."""
IDS = [one["name"] for one in TRACES]


def take(account: Account, step: str, *, unlabelled: bool) -> None:
    match step:
        case "nodes":
            for pool, (sharing, gpu, instance_type) in POOLS.items():
                given = {"tandem/pool": pool, "nvidia.com/gpu.present": "true", **sharing.node_labels(gpu)}
                kept = {key: value for key, value in given.items() if not (unlabelled and key in ENTIRE_GPU_LABELS)}
                # us-east-1b offers both types.
                where = {"subnetIds": account.subnets[1:]}
                account.gpu_nodes(pool, instanceTypes=[instance_type], labels=kept, taints=[TAINT], **where)
        case "plugin":
            account.release("plugin", "nvidia-device-plugin", **plugin_chart.values("whole", TURNS))
        case "operator":
            account.release("gpu-operator", "gpu-operator", **operator_chart.values([(SLICES, RTX)]))
        case "discovery":
            account.discovery()
        case "discovery lost":
            account.drop(tokens.RELEASE, "kube-system/nfd")


def seen(account: Account) -> dict[str, Entity]:
    found = {labels(node).get("tandem/pool"): node for node in account.of(tokens.NODE)}
    return {pool: found[pool] for pool in POOLS if pool in found}


@pytest.mark.real_world(
    behaviour="The GPU Operator starts its plugin and its MIG manager on a node only while feature discovery's PCI "
    "label is there.",
    source="gpu-operator v26.7.0, controllers/nodelabeling_controller.go, reconcileCommonGPULabel, run",
)
@pytest.mark.parametrize("trace", TRACES, ids=IDS)
def test_the_emulation_has_the_plugins_and_slices_of_the_trace(trace: dict[str, Any]) -> None:
    account = Account()
    account.cluster()
    account.nodes()
    for step, real in zip(trace["steps"], trace["seen"], strict=True):
        take(account, step, unlabelled=trace["unlabelled"])
        entities = Entities(account.world.entities())
        for pool, node in seen(account).items():
            daemons = real[pool]["daemons"]
            releases = [PLUGINS[daemon] for daemon in daemons if daemon in PLUGINS]
            assert [one.id for one in plugins_on(entities, node)] == releases, (step, pool)
            assert bool(cut(entities, node)) is ("nvidia-mig-manager" in daemons), (step, pool)


@pytest.mark.parametrize("trace", TRACES, ids=IDS)
def test_no_node_ever_has_two_plugins_and_the_label_excludes_the_entire_operator(trace: dict[str, Any]) -> None:
    for pool, ever in trace["ever"].items():
        labelled = pool == "whole" and not trace["unlabelled"]
        [plugin] = set(ever["daemons"]) & PLUGINS.keys()
        assert (plugin == "nvidia-device-plugin-whole") is labelled
        assert bool(SELECTORS.keys() & set(ever["daemons"])) is not labelled
        # Of the operator's labels it has only the label for the presence of a GPU.
        assert not labelled or ever["labels"].keys() <= {"nvidia.com/gpu.present"}
