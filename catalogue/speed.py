"""Constants of one formula for each GPU, fitted to published readings.

`sharing.speed.gpus.GpuSpeed.token_seconds` is the formula. For each GPU, weighted least squares of the relative errors
give its time per layer and its efficiency, held near those of similar GPUs where there are few readings.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log, nan
from statistics import fmean, median

from catalogue import community
from catalogue.facts import FACTS
from sharing.models.catalogue import require_model
from sharing.models.kv_cache import bytes_read
from sharing.models.served import ServedModel
from sharing.speed.forecast import read_per_token, weights_per_token
from sharing.speed.gpus import EXPERT_LAYERS, PLAIN, SPREADS, GpuSpeed

SMALL_GB = 0.5
"""Models below it say much about the time per layer, but nobody shares a GPU for them: they count less, and not for the
spread."""
LITTLE, OLD_YEARS = 0.3, ("2023", "2024")
"""Weight of small models, and of readings before llama.cpp used CUDA graphs."""
PLAIN_FACTOR = {"before Ampere": 1.3, "since": 1.05}
"""Efficiency of other weights over that of K-quants: the values with the smallest error over all readings."""
AMPERE = 8.0
PRIOR_US, PRIOR_EFFICIENCY = 70.0, 0.75
"""Where a fit begins: the middle of the GPUs with most readings."""
PULL_US, PULL_EFFICIENCY = 0.7, 0.5
"""Its weight, in readings."""
ENOUGH = 4
"""Readings from which the constants of a GPU are its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A GPU as its data sheet has it."""

    name: str
    gb_s: float
    memory: str
    """`hbm` or `gddr`."""
    compute_capability: float
    die: str
    """GPUs of one die have much in common, so they do not stand for GPUs without readings."""

    @property
    def is_old(self) -> bool:
        """Whether it is older than Ampere."""
        return self.compute_capability < AMPERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One published speed."""

    chip: Chip
    model: str
    quantization: str
    layers: int
    read_bytes: float
    """Bytes that one token reads."""
    has_experts: bool
    weights: float
    """Weights that one token passes through."""
    what: str
    """`decode` or `prompt`."""
    at_once: int
    """Requests at one time."""
    tokens_per_s: float
    year: str
    source: str

    @property
    def is_small(self) -> bool:
        return self.read_bytes < SMALL_GB * 1e9

    @property
    def is_old(self) -> bool:
        """Whether it is of an engine of that time."""
        return self.year in OLD_YEARS

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and hundred millions of weights: readings of one model have different names."""
        return self.layers, round(self.weights / 1e8)

    @property
    def plain_factor(self) -> float:
        """Efficiency of its weights over that of K-quants."""
        if self.quantization not in PLAIN:
            return 1.0
        return PLAIN_FACTOR["before Ampere" if self.chip.is_old else "since"]

    def forecast(self, speed: GpuSpeed) -> float:
        """Tokens per second by the formula."""
        if self.what == "prompt":
            return 1 / speed.prompt_seconds(tokens=1, weights=self.weights)
        return 1 / speed.token_seconds(
            layers=self.layers,
            has_experts=self.has_experts,
            read_bytes=self.read_bytes,
            quantization=self.quantization,
        )

    def error(self, speed: GpuSpeed) -> float:
        """Logarithm of the forecast over the reading."""
        return log(self.forecast(speed) / self.tokens_per_s)


def _rows(name: str) -> list[dict[str, str]]:
    lines = (FACTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def chips() -> dict[str, Chip]:
    """Every GPU with a data sheet, by name."""
    return {
        row["gpu"]: Chip(
            name=row["gpu"],
            gb_s=float(row["gb_s"]),
            memory=row["memory"],
            compute_capability=float(row["compute_capability"]),
            die=row["die"],
        )
        for row in _rows("gpu_bandwidth")
    }


@cache
def readings() -> tuple[Reading, ...]:
    """Every reading of one request at a time."""
    every = (
        Reading(
            chip=chips()[row["gpu"]],
            model=row["model"],
            quantization=row["quant"],
            layers=int(row["layers"]),
            read_bytes=(float(row["read_gb"]) + float(row["kv_gb"])) * 1e9,
            has_experts=row["experts"] == "yes",
            weights=float(row["params_b"]) * 1e9,
            what=row["what"],
            at_once=int(row["at_once"]),
            tokens_per_s=float(row["tokens_per_s"]),
            year=row["year"],
            source=row["source"],
        )
        for row in _rows("speed_readings")
    )
    return (*(reading for reading in every if reading.at_once == 1), *_of_users())


def _of_users() -> Iterator[Reading]:
    """What users measured of one model alone: `catalogue/community.py`."""
    for name, file in community.files().items():
        for shared, figures, tokens_per_s in community.alone(file):
            served = ServedModel.of(require_model(shared.name), context=shared.context)
            cached = bytes_read(served, figures.prompt_tokens + file.output_tokens / 2)
            yield Reading(
                chip=chips()[shared.gpu],
                model=shared.name,
                quantization=shared.quantization,
                layers=served.model.layers,
                read_bytes=read_per_token(served.model) + cached,
                has_experts=bool(served.model.experts),
                weights=weights_per_token(served.model),
                what="decode",
                at_once=1,
                tokens_per_s=tokens_per_s,
                year=file.date[:4],
                source=f"docs/benchmarks/community/{name}",
            )


def fit(chip: Chip, given: Iterable[Reading], others: Sequence[GpuSpeed]) -> GpuSpeed:
    """The constants of a GPU from its readings; without enough of them, those of `others`, which are similar GPUs."""
    decodes, prompts = split(given)
    if decodes:
        us_per_layer, efficiency = _least_squares(chip, decodes)
    else:
        us_per_layer = _mean(other.us_per_layer for other in others)
        efficiency = _mean(other.efficiency for other in others)
    if prompts:
        tflops = median(2e-12 * reading.weights * reading.tokens_per_s for reading in prompts)
    else:
        # The bandwidth stands for the size of the GPU.
        tflops = chip.gb_s * _mean(other.prompt_tflops / other.gb_s for other in others if other.prompt_tflops)
    return GpuSpeed(
        gb_s=chip.gb_s,
        us_per_layer=us_per_layer,
        efficiency=efficiency,
        plain_efficiency=min(efficiency * PLAIN_FACTOR["before Ampere" if chip.is_old else "since"], 1.0),
        prompt_tflops=tflops,
        readings=len(decodes),
        # Unknown here: `catalogue.speed_errors` fills them in.
        **dict.fromkeys(SPREADS, nan),
    )


def split(given: Iterable[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Readings of decoding, none if they are too few or all of small models, and those of prompts.

    Prompts of small models show the time per layer, and those of models with experts the choice of experts.
    """
    given = list(given)
    decodes = [reading for reading in given if reading.what == "decode"]
    prompts = [each for each in given if each.what == "prompt" and not (each.is_small or each.has_experts)]
    says_little = len(decodes) < ENOUGH or all(reading.is_small for reading in decodes)
    return ([] if says_little else decodes), prompts


def _mean(values: Iterable[float]) -> float:
    return exp(fmean(log(value) for value in values))


def _least_squares(chip: Chip, given: Iterable[Reading]) -> tuple[float, float]:
    """Microseconds per layer, and efficiency: the time of a token is linear in the first and in 1 / the second."""
    rows = [(PULL_US, 1 / PRIOR_US, 0.0), (PULL_EFFICIENCY, 0.0, PRIOR_EFFICIENCY)]
    for reading in given:
        layers = reading.layers * (EXPERT_LAYERS if reading.has_experts else 1)
        read = reading.read_bytes / (chip.gb_s * 1e9) / reading.plain_factor
        weight = (LITTLE if reading.is_small else 1.0) * (LITTLE if reading.is_old else 1.0)
        rows.append((weight, layers * 1e-6 * reading.tokens_per_s, read * reading.tokens_per_s))
    # Weighted normal equations of x * us_per_layer + y / efficiency = 1.
    xx, xy, yy = (sum(w * row[i] * row[j] for w, *row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    x1, y1 = (sum(w * row[i] for w, *row in rows) for i in (0, 1))
    determinant = xx * yy - xy * xy
    return (x1 * yy - xy * y1) / determinant, determinant / (xx * y1 - xy * x1)


def by_chip() -> dict[Chip, list[Reading]]:
    """The readings of each GPU."""
    grouped: dict[Chip, list[Reading]] = defaultdict(list)
    for reading in readings():
        grouped[reading.chip].append(reading)
    return grouped


def similar(chip: Chip) -> list[GpuSpeed]:
    """GPUs of other dies with readings and the same kind of memory, on the same side of Ampere if there are any."""
    alike = [other for other in _measured() if other.die != chip.die and other.memory == chip.memory]
    same = [other for other in alike if other.is_old == chip.is_old]
    return [_measured()[other] for other in same or alike]


@cache
def _measured() -> dict[Chip, GpuSpeed]:
    """The GPUs with enough readings of both kinds."""
    return {chip: fit(chip, given, ()) for chip, given in by_chip().items() if all(split(given))}
