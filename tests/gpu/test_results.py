"""The committed measurements: the memory model with the current rules against them, and what must not be in them."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from sharing.fit.memory import Need, need
from sharing.models.catalogue import KvType, Model
from sharing.models.served import ServedModel
from tests.gpu.identity import without_identity
from tests.gpu.machine import in_catalogue
from tests.gpu.memory import Case, measured_mib
from tests.gpu.plan import memory_seconds
from tests.gpu.report import describe
from tests.gpu.shapes import SHAPES

HERE = Path(__file__).parent
REPORTS = HERE.parents[1] / "docs" / "benchmarks"
FIRST = "nvidia-h100-80gb-hbm3-2026-11-26"
RESULTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("results/*.json"))}
WITH_MEMORY = {name: found for name, found in RESULTS.items() if found["memory"]}
"""A call that chose its steps may have measured no memory."""
MOST_OFF, MOST_OFF_OF_ENCODERS, MEDIAN_OFF = 0.03, 0.05, 0.01
"""The largest accepted differences, as parts of the measurement."""


def predictions(found: dict[str, Any]) -> dict[str, tuple[Need, int, bool]]:
    """By model and settings: today's prediction, the measurement, and whether it is an encoder."""
    gpu = in_catalogue(found["machine"]["gpu"]["name"])
    assert gpu is not None, "the catalogue has no such GPU: add it to sharing/data/gpu_memory.csv"
    rows = {}
    for row in found["memory"]:
        model, kv_type = Model(**row["description"]), KvType(row["kv_type"])
        served = ServedModel.of(model, context=row["context"], slots=row["slots"], kv_type=kv_type)
        name = f"{row['model']} {row['context']} × {row['slots']} {row['kv_type']}"
        if measured := measured_mib(row):
            rows[name] = need(served, gpu), measured, model.encoder
    return rows


@pytest.mark.parametrize("found", WITH_MEMORY.values(), ids=WITH_MEMORY)
def test_predictions_agree_with_the_measurements_and_with_their_margin_are_never_too_small(
    found: dict[str, Any],
) -> None:
    off: dict[str, float] = {}
    for name, (predicted, measured, encoder) in predictions(found).items():
        off[name] = predicted.total / measured - 1
        assert abs(off[name]) <= (MOST_OFF_OF_ENCODERS if encoder else MOST_OFF), (name, off[name])
        assert measured <= predicted.bound, name
    assert len(off) == len(found["memory"]) > 0
    assert median(map(abs, off.values())) <= MEDIAN_OFF, off


@pytest.mark.parametrize("name", RESULTS)
def test_a_report_shows_its_numbers(name: str) -> None:
    assert (REPORTS / f"gpu-{name}.md").read_text(encoding="utf-8") == describe(RESULTS[name])


def test_a_step_is_planned_with_the_time_that_it_took() -> None:
    for row in RESULTS[FIRST]["memory"]:
        case = Case(row["model"], row["context"], row["slots"], row["kv_type"])
        assert row["seconds"] <= memory_seconds(case, SHAPES[case.model]) <= 2 * row["seconds"] + 12, case


def test_nothing_that_is_committed_names_the_gpu_or_its_machine() -> None:
    found = [path for folder in (HERE / "results", REPORTS) for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in found} >= {".json", ".md", ".html"}
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert without_identity(text) == text, path


def test_the_identity_of_a_gpu_and_of_its_machine_is_taken_out_of_a_log() -> None:
    # Lines of the MPS server 580.159.04, of Ollama 0.32.15, of llama.cpp b10454 and of `nvidia-smi -q`. Made-up ids.
    log = """\
[2026-11-26 11:50:57.534 Server  2131] Device NVIDIA H100 80GB HBM3 (uuid GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c)
msg="inference compute" id=GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c library=CUDA pci_id=0000:17:00.0 total="79.2 GiB"
using device CUDA0 (NVIDIA H100 80GB HBM3) (0009:00:00.0) - 80552 MiB free
    Serial Number                         : 1654922006536
    Bus Id                                : 00000009:00:00.0
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMadeUpMadeUpMadeUpMadeUpMadeUpMadeUpMadeUpMa
node-7 node-70 [GIN] 2026/11/26 - 11:50:54 | 200 | 27.292999ms
"""
    assert (
        without_identity(log, "node-7")
        == """\
[2026-11-26 11:50:57.534 Server  2131] Device NVIDIA H100 80GB HBM3 (uuid GPU-(uuid))
msg="inference compute" id=GPU-(uuid) library=CUDA pci_id=(bus id) total="79.2 GiB"
using device CUDA0 (NVIDIA H100 80GB HBM3) ((bus id)) - 80552 MiB free
    Serial Number                         : (serial)
    Bus Id                                : (bus id)
(key)
(host) node-70 [GIN] 2026/11/26 - 11:50:54 | 200 | 27.292999ms
"""
    )
