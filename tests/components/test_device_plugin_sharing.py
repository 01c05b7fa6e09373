"""DevicePluginSharing: which chart it installs, and what that is told."""

import json
from typing import Any

import pytest

from components import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing
from components.gpu_operator import mig_configs
from sandbox.graph import Graph, Resource
from sandbox.in_process import run
from sharing import mig
from sharing.gpus import gpus
from sharing.layouts import Slices
from sharing.modes import Exclusive, Mig, Mps, TimeSlicing

T4, RTX, H100 = gpus()["t4"], gpus()["rtx-pro-server-6000"], gpus()["h100"]
BALANCED = Mig(strategy="mixed", layout="all-balanced")


def built(args: DevicePluginSharingArgs) -> Graph:
    return run(lambda: DevicePluginSharing("sharing", args), project="test", stack="test")


def release(args: DevicePluginSharingArgs) -> Resource:
    return built(args).named("sharing-release")


def values(args: DevicePluginSharingArgs) -> dict[str, Any]:
    return dict(release(args).inputs["values"])


@pytest.mark.parametrize(
    ("args", "chart"),
    [
        (DevicePluginSharingArgs(sharing=TimeSlicing(), gpu=T4), "nvidia-device-plugin"),
        (DevicePluginSharingArgs(sharing=TimeSlicing(), gpu=RTX), "nvidia-device-plugin"),
        (DevicePluginSharingArgs(sharing=Mig(), gpu=RTX), "gpu-operator"),
        (
            DevicePluginSharingArgs(sharing=Mps(), gpu=T4, also=[PoolSharing(sharing=BALANCED, gpu=RTX)]),
            "gpu-operator",
        ),
        (
            DevicePluginSharingArgs(sharing=Mps(), gpu=T4, also=[PoolSharing(sharing=Exclusive(), gpu=RTX)]),
            "nvidia-device-plugin",
        ),
    ],
)
def test_the_operator_comes_where_some_card_must_be_cut_and_else_the_plugin_alone(
    args: DevicePluginSharingArgs, chart: str
) -> None:
    graph = built(args)
    found = graph.named("sharing-release").inputs
    assert (found["chart"], found["name"], found["namespace"]) == (chart, chart, chart)
    assert graph.named("sharing-namespace").inputs["metadata"]["name"] == chart


def test_either_chart_is_the_same_resource_and_goes_before_the_other_comes() -> None:
    plugin = release(DevicePluginSharingArgs(sharing=TimeSlicing(), gpu=RTX))
    operator = release(DevicePluginSharingArgs(sharing=Mig(), gpu=RTX))
    assert plugin.urn == operator.urn
    assert plugin.inputs["name"] != operator.inputs["name"], "another name is what makes Pulumi replace a release"
    assert plugin.options["deleteBeforeReplace"] is operator.options["deleteBeforeReplace"] is True


def test_all_pools_find_their_configs_and_their_resources_are_told() -> None:
    args = DevicePluginSharingArgs(
        sharing=TimeSlicing(replicas=4),
        gpu=T4,
        also=[PoolSharing(sharing=BALANCED, gpu=RTX), PoolSharing(sharing=Mig(replicas=2), gpu=H100)],
    )
    graph = built(args)
    told = graph.named("sharing-release").inputs["values"]["devicePlugin"]["config"]
    assert {"exclusive", "timeslice-4", "mig-mixed", "mig-single-x2"} <= told["data"].keys()
    assert told["default"] in told["data"]
    [component] = graph.of_type("tandem:index:DevicePluginSharing")
    assert graph.outputs[component.urn]["resourceNames"] == [
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.24gb",
        "nvidia.com/mig-2g.48gb",
    ]


def test_the_namespace_can_be_chosen_for_either_chart() -> None:
    for sharing in (Mig(), Mps()):
        args = DevicePluginSharingArgs(sharing=sharing, gpu=RTX, namespace="mine")
        assert release(args).inputs["namespace"] == "mine"


def test_the_operator_leaves_driver_and_toolkit_to_the_ami_and_strategies_to_the_configs() -> None:
    told = values(DevicePluginSharingArgs(sharing=BALANCED, gpu=RTX))
    assert told["driver"] == told["toolkit"] == {"enabled": False}
    assert told["mig"] == {"strategy": ""}
    assert told["migManager"]["env"] == [{"name": "WITH_REBOOT", "value": "true"}]
    assert told["migManager"]["config"]["default"] == "all-disabled"
    assert told["nfd"] == told["gfd"] == {"enabled": True}
    assert told["dcgmExporter"] == {"serviceMonitor": {"enabled": False}}


def test_no_hook_of_the_operator_needs_a_node_but_the_one_that_cannot_be_switched_off() -> None:
    told = values(DevicePluginSharingArgs(sharing=Mig(), gpu=RTX))
    assert told["operator"]["cleanupCRD"] is False
    assert told["node-feature-discovery"]["postDeleteCleanup"] is False


def test_the_mig_manager_stops_what_holds_the_card_open_on_the_ami() -> None:
    told = values(DevicePluginSharingArgs(sharing=Mig(), gpu=RTX))
    (clients,) = told["extraObjects"]
    assert clients["metadata"]["name"] == told["migManager"]["gpuClientsConfig"]["name"]
    services = json.loads(clients["data"]["clients.yaml"])["systemd-services"]
    assert {"nvidia-persistenced.service", "nvidia-dcgm.service"} <= set(services)


def test_a_changed_content_changes_the_name_of_its_config_map_alone() -> None:
    def names(*, sharing: Mig) -> tuple[str, str]:
        told = values(DevicePluginSharingArgs(sharing=sharing, gpu=RTX))
        return told["migManager"]["config"]["name"], told["devicePlugin"]["config"]["name"]

    layouts, configs = names(sharing=Mig())
    assert names(sharing=Mig(layout="all-2g.48gb")) == (layouts, configs), "another usual layout is another label only"
    assert names(sharing=Mig(replicas=2)) == (layouts, names(sharing=Mig(replicas=2))[1])
    assert names(sharing=Mig(replicas=2))[1] != configs
    partial = names(sharing=Mig(layout=[Slices(profile="1g.24gb", count=3)]))
    assert partial[0] != layouts
    assert partial[1] == configs


def test_layouts_are_written_as_the_mig_manager_reads_them() -> None:
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
