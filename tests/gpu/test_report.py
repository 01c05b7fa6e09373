"""The report of the GPU tier, and how it judges predictions."""

import datetime
from pathlib import Path

from tests.gpu.progress import Result, State, Step
from tests.gpu.report import collect, describe

RESULT = {
    "model": "qwen3:0.6b",
    "context": 40960,
    "slots": 1,
    "kv_type": "f16",
    "buffers": [
        {"device": "CUDA0", "kind": "model", "mib": 604.15},
        {"device": "CUDA0", "kind": "KV", "mib": 4480.0},
        {"device": "CUDA0", "kind": "compute", "mib": 264.04},
        {"device": "CUDA_Host", "kind": "compute", "mib": 88.0},
    ],
    "gpu_mib": {"before": 0, "loaded": 5900, "filled": 5950},
    "process_mib": {"loaded": 5942, "filled": 5942},
    "predicted_mib": {"weights": 604.0, "kv": 4480.0, "compute": 300.0, "context": 600.0, "total": 5984.0},
}
GPU = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver": "580.173.02",
    "total_mib": 81559,
    "reserved_mib": None,
    "compute_mode": "Default",
    "mig_mode": "Disabled",
    "compute_capability": "9.0",
}


def found(tmp_path: Path) -> Result:
    steps: dict[str, Result] = {
        "memory a": {"result": RESULT},
        "pair mps": {"skipped": "no daemon"},
        "memory c": {"failed": "why\nlog"},
    }
    state = State(tmp_path / "s.json", steps=steps)
    machine = {"gpu": GPU, "cores": 16, "memory_gib": 128, "kernel": "6.1", "python": "3.12.3"}
    planned = [Step(key, key, 1, lambda _: {}) for key in ("memory a", "pair mps", "memory b", "memory c")]
    return collect(state, machine, planned, datetime.date(2026, 11, 22))


def test_a_report_compares_each_part_and_names_what_is_missing(tmp_path: Path) -> None:
    text = describe(found(tmp_path))
    assert "# GPU tier: NVIDIA H100 80GB HBM3, 2026-11-22" in text
    # 5,984 / 5,942; and 5,942 - 604.15 - 4,480 - 264.04, without pinned memory of the host.
    assert "| qwen3:0.6b | 40,960 tokens | 5,984 | 5,942 | +0.7% |" in text
    assert "| 604 / 604 | 4,480 / 4,480 | 300 / 264 | 600 / 594 |" in text
    assert "Median error 0.7%, worst 0.7%, of 1 measurements." in text
    assert text.endswith("- pair mps: skipped, no daemon\n- memory c: failed, why\n- memory b: not run yet\n")


def test_a_driver_that_hides_processes_is_measured_by_the_entire_gpu(tmp_path: Path) -> None:
    result = {**RESULT, "process_mib": {"loaded": None, "filled": None}}
    text = describe({**found(tmp_path), "memory": [result]})
    # 5,984 / (5,950 - 0).
    assert "| qwen3:0.6b | 40,960 tokens | 5,984 | 5,950 | +0.6% |" in text


def test_a_report_shows_shares_and_two_servers(tmp_path: Path) -> None:
    # The form of `tandem bench --json` (tandem/measured/summary.py), and of the share prober's verdict.
    row = {
        "workload": {"prompt_words": 64, "loop": "closed", "level": 4.0},
        "slowdown": {"llama2": 1.9, "mistral": 2.05},
        "tokens_per_s": 212.4,
        "throughput_ratio": 0.51,
    }
    summary = {"sharing": [row], "excluded": [["mistral, repeat 2", ["3 requests failed"]]], "errors": {"timeout": 3}}
    pair = {"summary": summary, "gpu_mib": 12003, "processes": [{"program": "llama-server", "mib": 5942}]}
    shares = {
        "expected": {"limit_mib": 71885},
        "verdict": {"total_mib": [71885]},
        "mps_server_mib": 30,
    }
    text = describe({**found(tmp_path), "shares": {"mps": shares}, "pairs": {"mps": pair}})
    assert "- mps: as expected. Each process sees 71,885 MiB; more than 71,885 MiB was refused." in text
    assert "- the MPS server itself holds 30 MiB." in text
    assert "| mps | 64 words, 4 at a time | 212 | 0.51 | llama2 1.90, mistral 2.05 |" in text
    assert "| mps | mistral, repeat 2 | not compared: 3 requests failed |  |  |" in text
    assert "12,003 MiB of the GPU in use with both models loaded (llama-server 5,942). 3 requests failed." in text
