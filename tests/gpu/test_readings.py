"""The engine's log and nvidia-smi, read from lines that real builds wrote. Document ids are those of a public index."""

import pytest

from tests.gpu.readings import Buffer, GpuProcess, read_gpu, read_load, read_processes

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


def test_the_buffers_of_a_load_are_read_by_device_and_kind() -> None:
    load = read_load(H100.splitlines())
    assert (load.gpu_layers, load.layers) == (29, 29)
    assert load.buffers == (
        Buffer("CUDA0", "model", 604.15),
        Buffer("CUDA0", "KV", 4480.0),
        Buffer("CUDA0", "compute", 264.04),
    )
    assert load.gpu_mib() == pytest.approx(5348.19)


def test_the_two_caches_of_a_model_with_a_sliding_window_add_up() -> None:
    load = read_load(SLIDING_WINDOW.splitlines())
    assert load.gpu_mib("KV") == 2048.0


def test_memory_of_the_host_is_not_memory_of_the_gpu() -> None:
    load = read_load(SLIDING_WINDOW.splitlines())
    assert load.gpu_mib("model") == 6637.63
    assert load.gpu_mib("compute", "output") == 541.07


def test_a_load_on_the_cpu_has_buffers_and_none_on_a_gpu() -> None:
    load = read_load(ON_THE_CPU.splitlines())
    assert [one.mib for one in load.buffers] == [2.59, 0.80, 0.0, 0.25, 0.25, 5.03]
    assert load.gpu_mib() == 0


def test_a_second_load_replaces_the_first_which_only_looked_what_fits() -> None:
    load = read_load([*SLIDING_WINDOW.splitlines(), *H100.splitlines()])
    assert load == read_load(H100.splitlines())


def test_a_compute_buffer_that_grows_counts_once() -> None:
    grown = H100 + "sched_reserve:      CUDA0 compute buffer size =   300.00 MiB\n"
    assert read_load(grown.splitlines()).gpu_mib("compute") == 300.0


def test_a_log_without_buffers_has_none() -> None:
    load = read_load(["main: error: unable to load model"])
    assert (load.buffers, load.gpu_layers) == ((), None)


def test_processes_are_read_with_the_server_of_mps() -> None:
    assert read_processes(WITH_MPS) == [
        GpuProcess(3031, "/usr/libexec/gnome-remote-desktop-daemon", 502),
        GpuProcess(2016454, "nvidia-cuda-mps-server", 54),
    ]


@pytest.mark.parametrize("text", ["", "No running processes found\n", "[N/A], python, 5\n"])
def test_lines_that_name_no_process_are_left_out(text: str) -> None:
    assert read_processes(text) == []


def test_a_driver_that_hides_memory_of_processes_gives_no_number() -> None:
    [process] = read_processes("77, llama-server, [N/A]\n")
    assert process.used_mib is None


def test_the_state_of_a_gpu_is_read() -> None:
    state = read_gpu("NVIDIA H200, 580.159.03, 143771, 615, 4, 143152, Default, Disabled, 9.0\n")
    assert (state.name, state.total_mib, state.reserved_mib, state.free_mib) == ("NVIDIA H200", 143771, 615, 143152)
    assert (state.compute_mode, state.mig_mode, state.compute_capability) == ("Default", "Disabled", "9.0")


def test_a_gpu_without_mig_and_a_driver_without_reserved_memory_are_read() -> None:
    state = read_gpu("Tesla T4, 470.82.01, 15109, [N/A], 0, 15109, Default, [N/A], 7.5")
    assert (state.reserved_mib, state.mig_mode) == (None, "N/A")


def test_an_answer_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="gave 1 values, not 9"):
        read_gpu("Unable to determine the device handle for GPU")
