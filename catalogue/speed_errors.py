"""How far readings lie from forecasts that were made without them, and the table of GPU speeds with these ranges.

Readings of one source, and of one model under several names, say nearly the same. So a reading of a known GPU is
forecast without its model and its source, and one of an unknown GPU without all GPUs of its die.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, expm1, log
from statistics import median

from catalogue.speed import Reading, by_chip, chips, fit, similar, split
from sharing.speed.gpus import GpuSpeed

COVERED = 0.9
"""Part of the left-out readings that a range holds."""
SAME_CHIP = {"t4g": "t4"}
PEERS = {"llmfit": 0.55, "aiconfigurator": 0.8}
"""Part of the peak bandwidth that any GPU reaches. Source: AlexsJones/llmfit@3f44fd3 (fit.rs),
ai-dynamo/aiconfigurator@095f58a5 (systems/*.yaml)."""
COLUMNS = (
    "gpu",
    "gb_s",
    "us_per_layer",
    "efficiency",
    "plain_efficiency",
    "prompt_tflops",
    "readings",
    "spread",
    "fixed_spread",
    "prompt_spread",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A reading, and what its GPU would be without it and its like."""

    reading: Reading
    speed: GpuSpeed

    @property
    def error(self) -> float:
        """Logarithm of the forecast over the reading."""
        return self.reading.error(self.speed)

    @property
    def kind(self) -> str:
        """The column of its spread."""
        if self.reading.what == "prompt":
            return "prompt_spread"
        of_layers = self.speed.layer_seconds(layers=self.reading.layers, has_experts=self.reading.has_experts)
        return "fixed_spread" if self.speed.is_mostly_fixed(of_layers * self.reading.forecast(self.speed)) else "spread"


@dataclass(frozen=True, slots=True)
class Spreads:
    """The errors that `COVERED` of the left-out readings do not exceed, by kind."""

    spread: float
    fixed_spread: float
    prompt_spread: float

    def hold(self, left: LeftOut) -> bool:
        """Whether the range of the forecast holds the reading."""
        return abs(left.error) <= float(getattr(self, left.kind))


@cache
def without_source() -> tuple[LeftOut, ...]:
    """Readings of GPUs with several sources, each forecast without its model and its source."""
    return _without(lambda reading, other: other.source == reading.source or other.shape == reading.shape)


@cache
def without_model() -> tuple[LeftOut, ...]:
    """Readings of GPUs with several models, each forecast without its model."""
    return _without(lambda reading, other: other.shape == reading.shape)


@cache
def without_gpu() -> tuple[LeftOut, ...]:
    """Every reading, forecast without any of its die."""
    speeds = {chip: fit(chip, (), similar(chip)) for chip in by_chip()}
    return tuple(
        LeftOut(reading=each, speed=speeds[each.chip]) for given in by_chip().values() for each in _scored(given)
    )


def _without(is_like: Callable[[Reading, Reading], bool]) -> tuple[LeftOut, ...]:
    found = []
    for chip, given in by_chip().items():
        for reading in _scored(given):
            decodes, prompts = split(other for other in given if not is_like(reading, other))
            if decodes if reading.what == "decode" else prompts:
                found.append(LeftOut(reading=reading, speed=fit(chip, [*decodes, *prompts], similar(chip))))
    return tuple(found)


def _scored(given: Iterable[Reading]) -> list[Reading]:
    """Without small models, prompts of models with experts (they have a factor of their own) and of old engines."""
    prompts = split(given)[1]
    return [
        each for each in given if not each.is_small and (each.what == "decode" or (each in prompts and not each.is_old))
    ]


def spreads(left_out: Iterable[LeftOut]) -> Spreads:
    """The errors that a range must hold, by kind."""
    left_out = list(left_out)
    return Spreads(*(_largest_of_most(left_out, kind) for kind in Spreads.__slots__))


def _largest_of_most(left_out: Iterable[LeftOut], kind: str) -> float:
    """The quantile that also holds `COVERED` of new readings: one rank for the next reading is added."""
    sizes = sorted(abs(each.error) for each in left_out if each.kind == kind)
    return sizes[min(ceil(COVERED * (len(sizes) + 1)), len(sizes)) - 1]


def middle(left_out: Iterable[LeftOut]) -> float:
    """The median error of decoding, as a part of the reading."""
    return median(expm1(abs(each.error)) for each in left_out if each.reading.what == "decode")


def middle_of_peer(left_out: Iterable[LeftOut], efficiency: float) -> float:
    """The same for one efficiency of all GPUs, on the same readings and the same bytes."""
    decodes = [each.reading for each in left_out if each.reading.what == "decode"]
    forecasts = [(each, efficiency * each.chip.gb_s * 1e9 / each.read_bytes) for each in decodes]
    return median(expm1(abs(log(forecast / each.tokens_per_s))) for each, forecast in forecasts)


def table() -> str:
    """`sharing/data/gpu_speed.csv`."""
    known, unknown = spreads(without_source()), spreads(without_gpu())
    text = io.StringIO()
    text.write("# source: catalogue/facts/speed_readings.csv and gpu_bandwidth.csv, by `python -m catalogue`\n")
    text.write("# date: 2026-11-26\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, chip in chips().items():
        twin = chips()[SAME_CHIP.get(name, name)]
        decodes, prompts = split(by_chip().get(twin, ()))
        speed = fit(chip, [*decodes, *prompts], similar(twin))
        own = name == twin.name
        readings = speed.readings * own
        of_decodes = known if readings else unknown
        found = replace(
            speed,
            readings=readings,
            spread=of_decodes.spread,
            fixed_spread=of_decodes.fixed_spread,
            prompt_spread=(known if own and prompts else unknown).prompt_spread,
        )
        writer.writerow(_cells(name, found))
    return text.getvalue()


def _cells(name: str, speed: GpuSpeed) -> Sequence[object]:
    return (
        name,
        f"{speed.gb_s:g}",
        f"{speed.us_per_layer:.1f}",
        f"{speed.efficiency:.3f}",
        f"{speed.plain_efficiency:.3f}",
        f"{speed.prompt_tflops:.1f}",
        speed.readings,
        f"{speed.spread:.3f}",
        f"{speed.fixed_spread:.3f}",
        f"{speed.prompt_spread:.3f}",
    )
