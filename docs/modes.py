"""The sharing modes side by side, as the rules judge two models in each mode."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, InstanceType, gpus, instance_types
from sharing.modes.base import MOST_TIME_SLICES, PER_MODEL, Shares
from sharing.modes.modes import MPS_PER_MODEL, Sharing
from sharing.sections.config import StackConfig
from sharing.verdict.choices import isolation
from sharing.verdict.matrix import WAYS, Cell, cells, cheapest
from tandem.columns import price_cell, speed_cell

USE_FOR = {
    "exclusive": "predictable latency; the baseline for comparisons",
    "timeslice": "chat that is mostly idle",
    "mps": "steady load on all models",
    "mps-per-model": "models of different sizes on one GPU",
    "mig-single": "strict isolation between models of similar size",
    "mig-mixed": "the same for models of different sizes",
}
"""The use of each sharing mode: the only column that no rule computes."""
ISOLATION = {
    "none": "none: all models together must fit",
    "hardware": "slices in hardware",
    "own GPU": "one model per GPU",
    "memory": "memory limit per process",
}
"""The words of `tandem choose` and `tandem plan` for the isolation of a model, and what they mean."""
SPEED = ("tokens/s, both busy", "$ per million output tokens")
"""Of the cheapest setup on spot capacity, with the ranges of the forecasts."""
Found = dict[str, list[Cell]]
"""The setups that hold both models, by sharing mode."""


def find(config: StackConfig) -> Found:
    """Every setup that holds the models of `config`."""
    planned = [cell for cell in cells(config) if cell.plans]
    return {way: [cell for cell in planned if cell.way == way] for way in WAYS}


def overview(found: Found) -> list[tuple[str, ...]]:
    """The rows of the README's table."""
    rows: list[tuple[str, ...]] = [("sharing mode", "isolation", "$ per hour, from", SPEED[0], "use it for")]
    for way, planned in found.items():
        spot = _spot(planned)
        price = f"{spot.usd_per_hour:.2f} ({spot.nodes} × {spot.instance.name})"
        rows.append((_name(planned), ISOLATION[isolation(_shares(planned))], price, _speed(spot)[0], USE_FOR[way]))
    return rows


def comparison(found: Found) -> list[tuple[str, ...]]:
    """The rows of the reference: also the memory of a share, and the GPUs."""
    head = ("sharing mode", "memory per share", "isolation", "shares per GPU", "GPUs that hold both models")
    rows: list[tuple[str, ...]] = [(*head, "cheapest, $ per hour", *SPEED, "use it for")]
    for way, planned in found.items():
        shares = _shares(planned)
        limits = (_memory(shares), ISOLATION[isolation(shares)], _counts(way))
        speed = _speed(_spot(planned))
        rows.append((_name(planned), *limits, _gpus(planned), _cheap(planned), *speed, USE_FOR[way]))
    return rows


def _shares(planned: Sequence[Cell]) -> Shares:
    return planned[0].pool.offers[0]


def _name(planned: Sequence[Cell]) -> str:
    sharing = planned[0].pool.sharing
    kind = f"strategy: {sharing.strategy}" if sharing.strategy else ""
    if sharing.needs_node_daemon:
        kind = f"limits: {sharing.limits}"
    return f"`{sharing.mode}`" + (f", `{kind}`" if kind else "")


def _memory(shares: Shares) -> str:
    if shares.own_limits:
        return "a limit of its own for each model"
    if shares.memory_mib is None:
        return "entire GPU, first come, first served"
    if shares.profile:
        return "that of the slice"
    return "entire GPU" if shares.memory_mib == shares.unit_mib else "an equal part"


def _counts(way: str) -> str:
    """How many shares a GPU can have: of most GPUs, then of those that can have fewer."""
    least, most = _bounds(way)
    bound = max(most.values())
    fewer = ", ".join(f"{_range(least, count)} on {title}" for title, count in most.items() if count < bound)
    return _range(least, bound) + (f" ({fewer})" if fewer else "")


def _range(least: int, most: int) -> str:
    return f"{least}–{most}" if least < most else f"{most}"


def _bounds(way: str) -> tuple[int, dict[str, int]]:
    """Fewest shares of any GPU, and most shares of each."""
    most: dict[str, int] = {}
    least = MOST_TIME_SLICES
    for gpu in gpus().values():
        counts = [sum(shares.per_gpu for shares in sharing.offers(gpu)) for sharing in _sharings(way, gpu)]
        if gpu.vendor == "nvidia" and counts:
            most[gpu.title], least = max(counts), min(least, *counts)
    return least, most


def _sharings(way: str, gpu: Gpu) -> Iterator[Sharing]:
    """Every setting that `gpu` takes for a sharing mode."""
    mode, _, strategy = way.partition("-")
    settings: list[dict[str, Any]] = [{"replicas": count} for count in range(2, MOST_TIME_SLICES + 1)]
    if way == MPS_PER_MODEL:
        settings = [{**setting, "limits": PER_MODEL} for setting in settings]
    elif strategy:
        written = [[{"profile": each.name, "count": count} for each, count in cut] for cut in mig.layouts(gpu)]
        settings = [{"strategy": strategy, "layout": layout} for layout in written]
    for setting in settings:
        with contextlib.suppress(ValidationError):
            sharing: Sharing = TypeAdapter(Sharing).validate_python({"mode": mode, **setting})
            if not sharing.check(gpu):
                yield sharing


def _gpus(planned: Sequence[Cell]) -> str:
    """The GPUs and the number of instance types that hold the models."""
    known = dict.fromkeys(_gpu(each) for each in instance_types().values() if each.gpu.vendor == "nvidia")
    holding = dict.fromkeys(_gpu(cell.instance) for cell in planned)
    types = len({cell.instance.name for cell in planned})
    others = [gpu for gpu in known if gpu not in holding]
    names = f"all but {', '.join(others)}" if len(others) < len(holding) else ", ".join(holding)
    only = {cell.pool.provisioner for cell in planned}
    return f"{names} ({types} types{'' if len(only) > 1 else f', {only.pop()} only'})"


def _gpu(instance: InstanceType) -> str:
    return instance.gpu.name.partition("/")[0].upper()


def _spot(planned: Sequence[Cell]) -> Cell:
    spot = cheapest(planned, "spot")
    assert spot, "a sharing mode that holds the models nowhere is none"
    return spot


def _speed(cell: Cell) -> tuple[str, str]:
    return speed_cell(cell.slowest_busy), price_cell(cell.usd_per_million_tokens())


def _cheap(planned: Sequence[Cell]) -> str:
    spot, full = _spot(planned), cheapest(planned, "on-demand")
    assert full, "what fits has a price"
    nodes = [f"{cell.nodes} × {cell.instance.name}" for cell in (spot, full)]
    return f"{spot.usd_per_hour:.2f} spot ({nodes[0]}), {full.on_demand_usd_per_hour:.2f} on demand ({nodes[1]})"
