"""The engine's log and nvidia-smi, read from lines that real builds wrote."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.machine import read_gpu, read_processes
from tests.gpu.readings import gpu_mib, read_load

# `--query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits` with MPS (document 65846312907
# of a public index).
WITH_MPS = "3031, /usr/libexec/gnome-remote-desktop-daemon, 502\n2016454, nvidia-cuda-mps-server, 54\n"
LOADS = tomllib.loads(Path(__file__).with_name("readings.toml").read_text(encoding="utf-8"))["load"]


def test_the_buffers_of_a_load_are_read_by_device_and_kind() -> None:
    assert read_load(LOADS[0]["log"].splitlines()) == {
        "buffers": [
            {"device": "CUDA0", "kind": "model", "mib": 604.15},
            {"device": "CUDA0", "kind": "KV", "mib": 4480.0},
            {"device": "CUDA0", "kind": "compute", "mib": 264.04},
        ],
        "gpu_layers": 29,
        "layers": 29,
    }


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load["id"])
def test_what_a_load_allocated_is_known_by_part(load: dict[str, Any]) -> None:
    buffers = read_load(load["log"].splitlines())["buffers"]
    assert [buffer["mib"] for buffer in buffers] == load["of_each"]
    assert [gpu_mib(buffers, kind) for kind in ("model", "KV", "compute", "output")] == load["on_gpu"]


def test_the_last_load_counts_and_a_compute_buffer_that_grew_is_not_added() -> None:
    # The engine may load twice: first to look what fits.
    one_gpu, window = (LOADS[number]["log"].splitlines() for number in (0, 1))
    assert read_load([*window, *one_gpu]) == read_load(one_gpu)
    grown = read_load([*one_gpu, "sched_reserve:      CUDA0 compute buffer size =   300.00 MiB"])
    assert gpu_mib(grown["buffers"], "compute") == 300.0
    assert read_load(["main: error: unable to load model"])["buffers"] == []


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
