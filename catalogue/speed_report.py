"""How good the forecast is, as rows of tables: `make bench` prints them, and `docs/explanation/speed.md` has them."""

from collections.abc import Callable, Iterable
from math import expm1
from statistics import median

from catalogue.speed import Reading
from catalogue.speed_errors import (
    PEERS,
    LeftOut,
    Spreads,
    middle,
    middle_of_peer,
    spreads,
    without_gpu,
    without_model,
    without_source,
)

Rows = list[tuple[str, ...]]


def accuracy() -> Rows:
    """Errors of decoding and what the ranges hold, by what was left out, beside the constants of other tools."""
    rows: Rows = [("forecast without", "readings", "median error", "inside its range", *PEERS)]
    known, unknown = spreads(without_source()), spreads(without_gpu())
    for name, left_out, ranges in (
        ("its source and its model", without_source(), known),
        ("its model", without_model(), known),
        ("all GPUs of its die", without_gpu(), unknown),
    ):
        decodes = _decodes(left_out)
        theirs = (_percent(middle_of_peer(decodes, efficiency)) for efficiency in PEERS.values())
        rows.append((name, str(len(decodes)), _percent(middle(decodes)), _inside(decodes, ranges), *theirs))
    return rows


def groups() -> Rows:
    """The same by GPU and by kind of model, for GPUs with readings."""
    rows: Rows = [("readings of", "without its model: error", "inside", "without its source, too: error", "inside")]
    ranges = spreads(without_source())
    for name, belongs in GROUPS.items():
        cells = [name]
        for left_out in (without_model(), without_source()):
            decodes = [each for each in _decodes(left_out) if belongs(each.reading)]
            cells += [_percent(middle(decodes)), _inside(decodes, ranges)] if decodes else ["", "none"]
        rows.append(tuple(cells))
    return rows


def prompts() -> Rows:
    """Errors of reading prompts, and what the ranges hold."""
    rows: Rows = [("forecast without", "readings", "median error", "inside its range")]
    for name, left_out in (("its source and its model", without_source()), ("all GPUs of its die", without_gpu())):
        of_prompts = [each for each in left_out if each.reading.what == "prompt"]
        error = median(expm1(abs(each.error)) for each in of_prompts)
        rows.append((name, str(len(of_prompts)), _percent(error), _inside(of_prompts, spreads(left_out))))
    return rows


def _decodes(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    return [each for each in left_out if each.reading.what == "decode"]


def _percent(error: float) -> str:
    return f"{100 * error:.0f} %"


def _inside(left_out: list[LeftOut], ranges: Spreads) -> str:
    return f"{sum(map(ranges.hold, left_out))} of {len(left_out)}"


def _gpu(*names: str) -> Callable[[Reading], bool]:
    return lambda reading: reading.chip.name in names


GROUPS: dict[str, Callable[[Reading], bool]] = {
    "T4": _gpu("t4"),
    "L4": _gpu("l4"),
    "A10G": _gpu("a10g"),
    "L40S": _gpu("l40s"),
    "V100": lambda reading: reading.chip.die == "GV100",
    "A100": lambda reading: reading.chip.die == "GA100",
    "H100": _gpu("h100", "h100-pcie"),
    "models with experts": lambda reading: reading.has_experts,
    "less than 2 GB per token": lambda reading: reading.read_bytes < 2e9,
    "2 to 12 GB": lambda reading: 2e9 <= reading.read_bytes < 12e9,
    "12 GB and more": lambda reading: reading.read_bytes >= 12e9,
}
"""Groups whose ranges should hold nine of ten readings each."""
