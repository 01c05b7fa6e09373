"""The engine's log and nvidia-smi, read from lines that real builds wrote. Document ids are those of a public index."""

import pytest

from tests.gpu.machine import read_gpu, read_processes
from tests.gpu.progress import FailedError
from tests.gpu.readings import gpu_mib, read_load

# Ollama 0.32.15 on an H100 80GB, driver 580.173.02, Qwen3-0.6B Q8_0 with context 40960 (document 65715519840).
H100 = """\
llama_prepare_model_devices: using device CUDA0 (NVIDIA H100 80GB HBM3) (0009:00:00.0) - 80552 MiB free
load_tensors: offloaded 29/29 layers to GPU
load_tensors:        CUDA0 model buffer size =   604.15 MiB
llama_kv_cache:      CUDA0 KV buffer size =  4480.00 MiB
sched_reserve:      CUDA0 compute buffer size =   264.04 MiB
"""
# llama-server of July 2026 with gemma4:12b on a Vulkan device; with prefixes (document 67663730134).
SLIDING_WINDOW = """\
0.16.439.387 I load_tensors: offloaded 49/49 layers to GPU
0.16.439.389 I load_tensors:   CPU_Mapped model buffer size =   787.50 MiB
0.16.439.391 I load_tensors:      Vulkan0 model buffer size =  6637.63 MiB
0.19.914.966 I llama_context: Vulkan_Host  output buffer size =     4.00 MiB
0.19.914.972 I llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells
0.19.915.550 I llama_kv_cache:    Vulkan0 KV buffer size =   128.00 MiB
0.19.990.788 I llama_kv_cache_iswa: creating     SWA KV cache, size = 6144 cells
0.19.992.711 I llama_kv_cache:    Vulkan0 KV buffer size =  1920.00 MiB
0.21.067.052 I sched_reserve:    Vulkan0 compute buffer size =   541.07 MiB
0.21.067.059 I sched_reserve: Vulkan_Host compute buffer size =   116.08 MiB
"""
# llama.cpp b10454, built for the CPU by this tier, with the tiny gpt-oss:20b of its dry run.
ON_THE_CPU = """\
load_tensors:   CPU_Mapped model buffer size =     2.59 MiB
load_tensors:   CPU_REPACK model buffer size =     0.80 MiB
llama_context:        CPU  output buffer size =     0.00 MiB
llama_kv_cache_iswa: creating non-SWA KV cache, size = 512 cells
llama_kv_cache:        CPU KV buffer size =     0.25 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 512 cells
llama_kv_cache:        CPU KV buffer size =     0.25 MiB
sched_reserve:        CPU compute buffer size =     5.03 MiB
"""
# `--query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits` with MPS (document 65846312907).
WITH_MPS = "3031, /usr/libexec/gnome-remote-desktop-daemon, 502\n2016454, nvidia-cuda-mps-server, 54\n"


GPU_PARTS = ("model", "KV", "compute", "output")


def test_the_buffers_of_a_load_are_read_by_device_and_kind() -> None:
    assert read_load(H100.splitlines()) == {
        "buffers": [
            {"device": "CUDA0", "kind": "model", "mib": 604.15},
            {"device": "CUDA0", "kind": "KV", "mib": 4480.0},
            {"device": "CUDA0", "kind": "compute", "mib": 264.04},
        ],
        "gpu_layers": 29,
        "layers": 29,
    }


@pytest.mark.parametrize(
    ("log", "of_each", "on_gpu"),
    [
        pytest.param(H100, [604.15, 4480.0, 264.04], [604.15, 4480.0, 264.04, 0], id="one GPU"),
        pytest.param(
            # The two caches add up, and what the host holds is not memory of the GPU.
            SLIDING_WINDOW,
            [787.5, 6637.63, 4.0, 128.0, 1920.0, 541.07, 116.08],
            [6637.63, 2048.0, 541.07, 0],
            id="a sliding window",
        ),
        pytest.param(ON_THE_CPU, [2.59, 0.80, 0.0, 0.25, 0.25, 5.03], [0, 0, 0, 0], id="the CPU"),
        # The first only looked what fits.
        pytest.param(SLIDING_WINDOW + H100, [604.15, 4480.0, 264.04], [604.15, 4480.0, 264.04, 0], id="a second load"),
        pytest.param(
            H100 + "sched_reserve:      CUDA0 compute buffer size =   300.00 MiB\n",
            [604.15, 4480.0, 300.0],
            [604.15, 4480.0, 300.0, 0],
            id="a compute buffer that grows",
        ),
        pytest.param("main: error: unable to load model\n", [], [0, 0, 0, 0], id="no buffers"),
    ],
)
def test_what_a_load_allocated_is_known_by_part(log: str, of_each: list[float], on_gpu: list[float]) -> None:
    buffers = read_load(log.splitlines())["buffers"]
    assert [one["mib"] for one in buffers] == of_each
    assert [gpu_mib(buffers, kind) for kind in GPU_PARTS] == on_gpu


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        (
            WITH_MPS,
            [
                {"pid": 3031, "program": "gnome-remote-desktop-daemon", "mib": 502},
                {"pid": 2016454, "program": "nvidia-cuda-mps-server", "mib": 54},
            ],
        ),
        ("77, llama-server, [N/A]\n", [{"pid": 77, "program": "llama-server", "mib": None}]),
        ("", []),
        ("No running processes found\n", []),
        ("[N/A], python, 5\n", []),
    ],
    ids=["the server of MPS", "a driver that hides memory", "nothing", "a sentence", "no id"],
)
def test_processes_are_read_and_lines_that_name_none_left_out(text: str, processes: list[object]) -> None:
    assert read_processes(text) == processes


def test_the_state_of_a_gpu_is_read() -> None:
    assert read_gpu("NVIDIA H200, 580.159.03, 143771, 615, 4, 143152, Default, Disabled, 9.0\n") == {
        "name": "NVIDIA H200",
        "driver": "580.159.03",
        "total_mib": 143771,
        "reserved_mib": 615,
        "used_mib": 4,
        "free_mib": 143152,
        "compute_mode": "Default",
        "mig_mode": "Disabled",
        "compute_capability": "9.0",
    }


def test_a_gpu_without_mig_and_a_driver_without_reserved_memory_are_read() -> None:
    state = read_gpu("Tesla T4, 470.82.01, 15109, [N/A], 0, 15109, Default, [N/A], 7.5")
    assert (state["reserved_mib"], state["mig_mode"]) == (None, "N/A")


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU",
        "Tesla T4, 470.82.01, 15109, [N/A], [N/A], 15109, Default, [N/A], 7.5",
    ],
)
def test_an_answer_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(FailedError, match=r"gave an answer that this tier does not know: '(Unable|Tesla)"):
        read_gpu(line)
