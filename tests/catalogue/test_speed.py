"""The constants of the forecast: how far left-out readings lie from it."""

import csv
from math import log
from statistics import median

import pytest

from catalogue import speed
from catalogue.facts import FACTS
from sharing.hardware.gpus import gpus
from sharing.speed.gpus import gpu_speeds

LLMFIT, AICONFIGURATOR = 0.55, 0.8
"""Efficiency of all GPUs in AlexsJones/llmfit@3f44fd3 (fit.rs) and ai-dynamo/aiconfigurator@095f58a5 (systems)."""


@pytest.mark.parametrize("errors", [speed.errors_without_model, speed.errors_without_gpu])
def test_a_left_out_reading_is_near_its_forecast(errors) -> None:  # type: ignore[no-untyped-def]
    sizes = [abs(error) for reading, error in errors() if reading.what == "decode"]
    assert len(sizes) > 200
    assert median(sizes) <= 0.15


def test_the_formula_is_better_than_one_efficiency_for_all_gpus() -> None:
    decodes = [(reading, abs(error)) for reading, error in speed.errors_without_gpu() if reading.what == "decode"]
    ours = median(error for _, error in decodes)
    for efficiency in (LLMFIT, AICONFIGURATOR):
        theirs = median(
            abs(log(efficiency * reading.chip.gb_s * 1e9 / reading.read_bytes / reading.tokens_per_s))
            for reading, _ in decodes
        )
        assert ours < theirs / 1.5


def test_each_gpu_of_nvidia_has_a_speed() -> None:
    assert {name for name, gpu in gpus().items() if gpu.vendor == "nvidia"} <= set(gpu_speeds())


def test_each_reading_has_a_source_and_a_gpu_with_a_data_sheet() -> None:
    lines = (FACTS / "speed_readings.csv").read_text(encoding="utf-8").splitlines()[2:]
    rows = list(csv.DictReader(lines))
    assert rows
    assert all(row["source"] and row["gpu"] in speed.chips() for row in rows)
