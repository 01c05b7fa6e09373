"""The memory model, with the current rules, compared with the measurements of the GPU tier."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from sharing.memory import need
from sharing.models import KvType, Model, Served
from tests.gpu.machine import in_catalogue
from tests.gpu.memory import measured_mib

RESULTS = sorted(Path(__file__).parent.glob("results/*.json"))
MEDIAN, WORST = 0.04, 0.12
"""The largest accepted error, as a part of the measurement."""


def deviations(found: dict[str, Any]) -> dict[str, float]:
    """By how much each prediction is off, by model and settings."""
    gpu = in_catalogue(found["machine"]["gpu"]["name"])
    assert gpu is not None, "the catalogue has no such GPU: add it to sharing/data/gpu_memory.csv"
    rows = {}
    for row in found["memory"]:
        served = Served(
            id="measured",
            model=Model(**row["description"]),
            context=row["context"],
            slots=row["slots"],
            kv_type=KvType(row["kv_type"]),
        )
        if measured := measured_mib(row):
            name = f"{row['model']} {row['context']} × {row['slots']} {row['kv_type']}"
            rows[name] = need(served, gpu).total / measured - 1
    return rows


@pytest.mark.skipif(not RESULTS, reason="the GPU tier was not run yet: make test-gpu")
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_predictions_agree_with_the_measurements(path: Path) -> None:
    off = deviations(json.loads(path.read_text(encoding="utf-8")))
    assert median(map(abs, off.values())) <= MEDIAN, off
    assert max(map(abs, off.values())) <= WORST, off
