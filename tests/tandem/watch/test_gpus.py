"""GPUs, from what `nvidia-smi` prints."""

from typing import Any

import pytest

from tandem.deployed.endpoints import NotConnectedError
from tandem.watch import gpus
from tandem.watch.gpus import Gpu, from_nvidia_smi
from tests.tandem.deployed.pretended import well
from tests.tandem.seen import NODE, pod


def test_nvidia_smi_has_a_line_for_each_gpu() -> None:
    printed = "GPU-1, Tesla T4, 9300, 15360, 37\nGPU-2, Tesla T4, 0, 15360, [N/A]\n\nsomething else\n"
    one, two = from_nvidia_smi("n", printed)
    assert one == Gpu(node="n", uuid="GPU-1", name="Tesla T4", used_mib=9300, total_mib=15360, busy_percent=37)
    assert (two.uuid, two.used_mib, two.busy_percent) == ("GPU-2", 0, None)


@pytest.mark.parametrize("numbers", ["1e999, nan, 0 %", "-inf, inf, x", "[N/A], , \x1b[2J"])
def test_whatever_is_printed_can_be_shown(numbers: str) -> None:
    [found] = from_nvidia_smi("n", f"GPU-\x1b1, \x1b[2JT4, {numbers}")
    assert f"{found.uuid}{found.name}" == "GPU-1[2JT4"
    assert [found.used_mib, found.total_mib, found.busy_percent] == [None] * 3


def plugin_pod(daemon_set: str, *containers: str) -> dict[str, Any]:
    made = pod("plugin", f"{daemon_set}-x1")
    made["spec"]["containers"] = [{"name": name} for name in containers or ("nvidia-device-plugin-ctr",)]
    return made


def test_the_plugins_pod_is_asked() -> None:
    """Its chart and the GPU Operator have other names for its container."""
    for sidecar, container in (
        ("nvidia-device-plugin-sidecar", "nvidia-device-plugin-ctr"),
        ("config-manager", "nvidia-device-plugin"),
    ):
        cluster: Any = well()
        pods = [plugin_pod("discovery", "gpu-feature-discovery-ctr"), plugin_pod("plugin", sidecar, container)]
        found, notes = gpus.read(cluster, [NODE], pods)
        assert (len(found), notes) == (1, [])
        assert cluster.ran == [("plugin-x1", container)]
        # `nvidia-smi --help-query-gpu` of driver 580: the names of the fields, and the options of the format.
        fields = "--query-gpu=uuid,name,memory.used,memory.total,utilization.gpu"
        assert cluster.command == ["nvidia-smi", fields, "--format=csv,noheader,nounits"]


def test_a_node_that_cannot_be_asked_is_noted_and_others_are_not_lost() -> None:
    cluster: Any = well()
    found, notes = gpus.read(cluster, ["empty", NODE], [plugin_pod("nvidia-device-plugin")])
    assert len(found) == 1
    assert notes == ["GPUs of empty: the device plugin is not ready on this node"]
    cluster.gpu = NotConnectedError("`nvidia-smi` failed")
    assert gpus.read(cluster, [NODE], [plugin_pod("nvidia-device-plugin")]) == (
        [],
        [f"GPUs of {NODE}: `nvidia-smi` failed"],
    )
