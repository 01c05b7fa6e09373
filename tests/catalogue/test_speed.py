"""The constants of the forecast: how far left-out readings lie from it."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from catalogue import speed
from catalogue.facts import FACTS
from catalogue.speed import Reading
from catalogue.speed_errors import PEERS, middle, middle_of_peer, spreads, without_gpu, without_model, without_source
from catalogue.speed_report import Rows, accuracy, groups, prompts
from sharing.hardware.gpus import gpus
from sharing.speed.gpus import gpu_speeds


def test_a_left_out_reading_is_near_its_forecast() -> None:
    assert middle(without_model()) <= 0.1
    assert middle(without_source()) <= 0.15
    assert middle(without_gpu()) <= 0.2


@pytest.mark.parametrize("left_out", [without_source, without_model, without_gpu])
@pytest.mark.parametrize("peer", PEERS)
def test_the_formula_is_better_than_one_efficiency_for_all_gpus(left_out, peer: str) -> None:  # type: ignore[no-untyped-def]
    assert middle(left_out()) < middle_of_peer(left_out(), PEERS[peer]) / 1.5


PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "speed.md"


@pytest.mark.parametrize("table", [accuracy, groups, prompts])
def test_the_page_has_the_errors_of_the_forecast(table: Callable[[], Rows]) -> None:
    head, *rows = (f"| {' | '.join(row)} |" for row in table())
    written = PAGE.read_text(encoding="utf-8").partition(f"{head}\n")[2].partition("<!--")[0].split("\n")
    assert written[1:] == [*rows, ""]


def of_gpu(name: str) -> Callable[[Reading], bool]:
    return lambda reading: reading.chip.name.startswith(name)


GROUPS: dict[str, Callable[[Reading], bool]] = {
    **{name: of_gpu(name) for name in ("t4", "l40s", "a100", "h100")},
    "with experts": lambda reading: reading.has_experts,
    "below 2 GB": lambda reading: reading.read_bytes < 2e9,
    "2 to 12 GB": lambda reading: 2e9 <= reading.read_bytes < 12e9,
    "above 12 GB": lambda reading: reading.read_bytes >= 12e9,
}


@pytest.mark.parametrize("group", GROUPS)
def test_ranges_hold_readings_of_other_sources_in_every_group(group: str) -> None:
    """One of ten may lie outside; of a dozen readings, chance puts two or three there."""
    ranges = spreads(without_source())
    held = [ranges.hold(each) for each in without_source() if GROUPS[group](each.reading)]
    assert len(held) > 10
    assert sum(held) / len(held) >= 0.8


def test_a_gpu_has_constants_of_its_own_from_four_readings_on() -> None:
    """The page has that number, among the constants of the fit."""
    chip = speed.chips()["l4"]
    four = [each for each in speed.by_chip()[chip] if each.what == "decode" and not each.is_small][:4]
    own, fewer, without = (speed.fit(chip, given, speed.similar(chip)) for given in (four, four[1:], ()))
    assert (own.readings, fewer.readings) == (4, 0)
    assert fewer.efficiency == without.efficiency != own.efficiency


def test_names_of_one_model_are_left_out_together() -> None:
    sevens = {
        each.shape for each in speed.readings() if each.model in {"Llama-7B", "Llama-2-7B", "llama 7B", "LLaMA-7B"}
    }
    assert sevens == {(32, 67)}


def test_gpus_of_one_die_do_not_stand_for_each_other() -> None:
    chips = speed.chips()
    assert {name for name, chip in chips.items() if chip.die == chips["a10g"].die} >= {"a10", "rtx-a6000", "rtx-3090"}
    assert speed.similar(chips["a100-40gb"]) == speed.similar(chips["a100-80gb"])


def test_each_gpu_of_nvidia_has_a_speed() -> None:
    assert {name for name, gpu in gpus().items() if gpu.vendor == "nvidia"} <= set(gpu_speeds())


def test_each_reading_has_a_source_and_a_gpu_with_a_data_sheet() -> None:
    lines = (FACTS / "speed_readings.csv").read_text(encoding="utf-8").splitlines()[2:]
    rows = list(csv.DictReader(lines))
    assert rows
    assert all(row["source"] and row["gpu"] in speed.chips() for row in rows)


def test_no_gpu_reads_faster_than_its_data_sheet_says() -> None:
    assert all(0 < each.efficiency <= each.plain_efficiency <= 1 for each in gpu_speeds().values())
