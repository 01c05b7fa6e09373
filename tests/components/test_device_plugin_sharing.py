"""DevicePluginSharing: the charts that it installs, and their values."""

import json
from dataclasses import replace
from typing import Any

import pytest

from components import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing
from components.device_plugin_sharing import plugin_chart
from components.device_plugin_sharing.operator_chart import mig_configs
from components.device_plugin_sharing.plugin_chart import fingerprint
from sandbox.preview.program import run
from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, gpus
from sharing.modes.layouts import Slices
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing

T4, RTX = gpus()["t4"], gpus()["rtx-pro-server-6000"]
BALANCED = Mig(strategy="mixed", layout="all-balanced")


def pool(sharing: Sharing, gpu: Gpu = T4, name: str = "gpu") -> PoolSharing:
    return PoolSharing(sharing=sharing, gpu=gpu, pool=name)


def values_of(*pools: PoolSharing) -> dict[str, Any]:
    """The values of the only release besides feature discovery."""
    args = DevicePluginSharingArgs(pools=pools)
    graph = run(lambda: DevicePluginSharing("sharing", args), project="test", stack="test")
    [_, release] = graph.of_type("kubernetes:helm.sh/v3:Release")
    return dict(release.inputs["values"])


def operator_values(*sharings: Mig, gpu: Gpu = RTX) -> dict[str, Any]:
    pools = [pool(sharing, gpu, f"p{index}") for index, sharing in enumerate(sharings)]
    return values_of(*pools)


@pytest.mark.real_world(
    behaviour="The device plugin starts on every node with the configuration that its chart calls the default.",
    source="k8s-device-plugin v0.20.0, cmd/config-manager/main.go, SyncableConfig.Get; "
    "NVIDIA/k8s-device-plugin issue 1645",
)
@pytest.mark.parametrize("sharing", [Exclusive(), TimeSlicing(replicas=4), Mps(replicas=3), Mig(replicas=2), BALANCED])
def test_the_only_configuration_of_a_release_is_its_default(sharing: Sharing) -> None:
    gpu = RTX if sharing.needs_mig_manager else T4
    values = values_of(pool(sharing, gpu))
    config = values["devicePlugin"]["config"] if sharing.needs_mig_manager else values["config"]
    texts = config["data"] if sharing.needs_mig_manager else config["map"]
    assert list(texts) == [config["default"]]
    assert json.loads(texts[config["default"]]) == sharing.plugin_config()


@pytest.mark.real_world(
    behaviour="The GPU Operator runs nothing on nodes labelled `nvidia.com/gpu.deploy.operands: false`.",
    source="gpu-operator v26.7.0, controllers/state_manager.go, hasOperandsDisabled and updateGPUStateLabels",
)
def test_a_release_runs_on_the_nodes_of_its_pool_and_on_none_of_the_operators() -> None:
    values = values_of(pool(Mps(), T4, "fast"))
    assert values["nodeSelector"] == {"tandem/pool": "fast", "nvidia.com/gpu.deploy.operands": "false"}
    [term] = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "tandem/pool", "operator": "In", "values": ["fast"]}]}
    assert "nvidia.com/gpu.deploy.operands" not in Mig().node_labels(RTX)


def test_pools_with_mig_that_need_different_configurations_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"configurations: mig-mixed, mig-single-x2\. Give them the same strategy and replicas\."
    ):
        operator_values(BALANCED, Mig(replicas=2))
    assert operator_values(BALANCED, Mig(strategy="mixed"))["devicePlugin"]["config"]["default"] == "mig-mixed"


def test_the_fingerprint_of_a_release_changes_if_its_pods_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fingerprint("gpu", Mps())
    assert fingerprint("gpu", Mps()) == first
    assert len({first, fingerprint("gpu", Mps(replicas=3)), fingerprint("other", Mps())}) == 3
    monkeypatch.setattr(plugin_chart, "CHART", replace(plugin_chart.CHART, version="0.20.1"))
    assert fingerprint("gpu", Mps()) != first


def test_changed_content_only_changes_the_name_of_its_own_config_map() -> None:
    def names(*, sharing: Mig) -> tuple[str, str]:
        values = operator_values(sharing)
        return values["migManager"]["config"]["name"], values["devicePlugin"]["config"]["name"]

    layouts, configs = names(sharing=Mig())
    assert names(sharing=Mig(layout="all-2g.48gb")) == (layouts, configs), "another common layout only changes a label"
    assert names(sharing=Mig(replicas=2)) == (layouts, names(sharing=Mig(replicas=2))[1])
    assert names(sharing=Mig(replicas=2))[1] != configs
    partial = names(sharing=Mig(layout=[Slices(profile="1g.24gb", count=3)]))
    assert partial[0] != layouts
    assert partial[1] == configs


def test_layouts_have_the_format_of_the_mig_manager() -> None:
    partial = Mig(
        strategy="mixed", layout=[Slices(profile="1g.24gb+me", count=1), Slices(profile="2g.48gb-me", count=1)]
    )
    found = mig_configs([(partial, RTX), (TimeSlicing(), T4)])
    assert found["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    assert found["1x1g.24gb.me_1x2g.48gb-me"] == [
        {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.24gb+me": 1, "2g.48gb-me": 1}}
    ]
    usual = {mig.name(layout) for layout in (*mig.layouts(RTX), *mig.presets(RTX).values())}
    assert set(found) == {"all-disabled", "1x1g.24gb.me_1x2g.48gb-me"} | usual
