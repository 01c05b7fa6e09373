"""GPUs, from what `nvidia-smi` and the DCGM exporter print."""

import json
from dataclasses import asdict
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tandem.deployed.endpoints import NotConnectedError
from tandem.watch import gpus
from tandem.watch.gpus import Gpu, from_dcgm, from_nvidia_smi
from tests.tandem.deployed.pretended import well
from tests.tandem.fake_ollama import ollama
from tests.tandem.seen import NODE, pod

GPU = 'gpu="0",UUID="GPU-1",pci_bus_id="00000000:00:1E.0",device="nvidia0",modelName="Tesla T4",Hostname="x"'


def test_nvidia_smi_has_a_line_for_each_gpu() -> None:
    printed = "GPU-1, Tesla T4, 9300, 15360, 37\nGPU-2, Tesla T4, 0, 15360, [N/A]\n\nsomething else\n"
    one, two = from_nvidia_smi("n", printed)
    assert one == Gpu(
        node="n", uuid="GPU-1", name="Tesla T4", used_mib=9300, total_mib=15360, busy_percent=37, source="nvidia-smi"
    )
    assert (two.uuid, two.used_mib, two.busy_percent) == ("GPU-2", 0, None)


def test_dcgm_describes_a_gpu_by_its_metrics() -> None:
    text = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{GPU}}} 37
DCGM_FI_DEV_FB_USED{{{GPU}}} 9300
DCGM_FI_DEV_FB_FREE{{{GPU}}} 5800
DCGM_FI_DEV_POWER_USAGE{{{GPU}}} 70
"""
    [fake_gpu] = from_dcgm("n", text)
    assert fake_gpu == Gpu(
        node="n", uuid="GPU-1", name="Tesla T4", used_mib=9300, total_mib=15100, busy_percent=37, source="DCGM"
    )


def test_a_gpu_that_dcgm_reports_for_each_pod_counts_once() -> None:
    text = f"""DCGM_FI_DEV_FB_USED{{{GPU}}} 9300
DCGM_FI_DEV_FB_USED{{{GPU},pod="a",vgpu="0",note="a \\"}} quoted"}} 5000
DCGM_FI_DEV_FB_USED{{{GPU},pod="b",vgpu="1"}} 4300
"""
    [fake_gpu] = from_dcgm("n", text)
    assert (fake_gpu.used_mib, fake_gpu.total_mib, fake_gpu.busy_percent) == (9300, None, None)


def test_slices_of_a_gpu_are_distinguished() -> None:
    slices = [f'{GPU},GPU_I_PROFILE="1g.24gb",GPU_I_ID="{id}"' for id in (3, 4)]
    text = "".join(f"DCGM_FI_DEV_FB_USED{{{labels}}} {used}\n" for labels, used in zip(slices, (100, 200), strict=True))
    one, two = from_dcgm("n", text)
    assert (one.name, one.uuid, one.used_mib) == ("Tesla T4 1g.24gb", "GPU-1/3", 100)
    assert (two.uuid, two.used_mib) == ("GPU-1/4", 200)


def test_invalid_numbers_are_omitted() -> None:
    assert list(from_dcgm("n", f"DCGM_FI_DEV_FB_USED{{{GPU}}} NaN\nDCGM_FI_DEV_FB_USED broken\n")) == []


@given(st.text() | st.lists(st.text(max_size=9), min_size=5, max_size=5).map(", ".join))
@example("GPU-1, \x1b[2JT4, 1e999, nan, 0\0")
def test_whatever_is_printed_can_be_shown(text: str) -> None:
    series = f'DCGM_FI_DEV_FB_USED{{UUID="{text}",modelName="{text}"}} 1e999\n{text}'
    for found in (*from_nvidia_smi("n", text), *from_dcgm("n", series), *from_dcgm("n", text)):
        assert "\x1b" not in f"{found.uuid}{found.name}"
        json.dumps(asdict(found), allow_nan=False)


def plugin_pod(daemon_set: str, *containers: str) -> dict[str, Any]:
    made = pod("plugin", f"{daemon_set}-x1")
    made["spec"]["containers"] = [{"name": name} for name in containers or ("nvidia-device-plugin-ctr",)]
    return made


def test_without_dcgm_the_plugins_pod_is_asked() -> None:
    for daemon_set, sidecar, container in (
        ("nvidia-device-plugin-gpu", "nvidia-device-plugin-sidecar", "nvidia-device-plugin-ctr"),
        ("nvidia-device-plugin-daemonset", "config-manager", "nvidia-device-plugin"),
    ):
        cluster: Any = well()
        discovery = plugin_pod("nvidia-device-plugin-gpu-gpu-feature-discovery", "gpu-feature-discovery-ctr")
        pods = [discovery, plugin_pod(daemon_set, sidecar, container)]
        found, notes = gpus.read(cluster, [NODE], pods)
        assert (len(found), notes) == (1, [])
        assert cluster.ran == [(f"{daemon_set}-x1", container)]


def test_a_node_that_cannot_be_asked_is_noted_and_others_are_not_lost() -> None:
    cluster: Any = well()
    found, notes = gpus.read(cluster, ["empty", NODE], [plugin_pod("nvidia-device-plugin")])
    assert len(found) == 1
    assert notes == ["GPUs of empty: neither a DCGM exporter nor the device plugin is ready on this node"]
    cluster.gpu = NotConnectedError("`nvidia-smi` failed")
    assert gpus.read(cluster, [NODE], [plugin_pod("nvidia-device-plugin")]) == (
        [],
        [f"GPUs of {NODE}: `nvidia-smi` failed"],
    )


def test_where_a_dcgm_exporter_runs_its_metrics_are_read() -> None:
    """It serves them at `/metrics` on port 9400 (dcgm-exporter README)."""
    exporter = plugin_pod("dcgm-exporter")
    exporter["metadata"]["labels"] = {"app.kubernetes.io/name": "dcgm-exporter"}
    metrics = f"DCGM_FI_DEV_FB_USED{{{GPU}}} 9300\n".encode()
    cluster: Any = well()
    with ollama(answers={"/metrics": metrics}) as server:
        cluster.url = server.url
        found, notes = gpus.read(cluster, [NODE], [exporter])
        server.status["/metrics"] = 404
        assert gpus.read(cluster, [NODE], [exporter]) == ([], [f"GPUs of {NODE}: the DCGM exporter answered with 404"])
    assert [(gpu.uuid, gpu.used_mib, gpu.source) for gpu in found] == [("GPU-1", 9300, "DCGM")]
    assert notes == []
    label = {"app.kubernetes.io/name": "dcgm-exporter"}
    assert cluster.forwarded[0] == ("dcgm-exporter-x1", "ollama", label, 9400, {"on_node": NODE})
