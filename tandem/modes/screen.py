"""The screens of `tandem modes`: prices of the cheapest type with each GPU, of all types, or the details of one."""

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console

from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.prices import on_demand, spot
from sharing.modes.base import Shares
from sharing.modes.modes import MPS_PER_MODEL
from sharing.printable import counted
from sharing.sections.config import StackConfig
from sharing.verdict.choices import By
from sharing.verdict.matrix import MODELS_FIT, Cell
from tandem.columns import PER_MILLION, SPEEDS, TOKENS_PER_S, Column, lay_out, price_cell, print_table, speed_cell
from tandem.search.base_stack import context_of, models_of
from tandem.terminal import in_words, open_console, say, say_about

FIXES = "$ in errors: per hour, of the whole stack after the change; of a type with MIG, of one node"
GPU, GPUS = "GPU", "GPUs"
PER_MODEL = "m"
"""Mark after a price of MPS that is valid with limits per model only, if equal ones were tried, too."""
ONLY = {"node-group": "n", "karpenter": "k"}
"""Mark after a price that is valid for one provisioner only, if both were tried."""
NVIDIA_ONLY = "GPUs are NVIDIA's"
WHY = {
    NVIDIA_ONLY: "the GPU is not NVIDIA's",
    "the region offers the types": "the region does not offer the type",
    "the GPU supports the mode": "the GPU does not support the mode",
    "the driver supports the GPU": "the pinned driver does not support the GPU",
    "the driver can partition the GPU": "the pinned driver cannot partition the GPU",
    "every part has a build for the architecture": "a part has no build for the architecture",
    "every model has a share": "a model has no share",
    "the engine loads the models": "the engine does not load a model",
    "the node's disk holds the models": "the node's disk is too small for the models",
    "the node's CPU and RAM hold the models": "the node's CPU or RAM is too small for the models",
    "the node takes enough pods": "the node takes too few pods",
    "the provisioner partitions the GPU": "the provisioner cannot partition GPUs",
    MODELS_FIT: "the models do not fit",
    "scale-to-zero needs Karpenter": "scale-to-zero needs Karpenter",
}
"""What is wrong where a rule is broken, by the rule's name."""
Place = list[Cell]
"""The cells of one type and one mode: one for each provisioner."""
Row = tuple[str, dict[str, list[Place]]]
"""A GPU with its cheapest places by mode, or an instance type with the only one."""


def overview(config: StackConfig, cells: Sequence[Cell], by: By) -> None:
    """A row for each GPU, with its lowest price in each sharing mode: one screen of 24 lines."""
    console = open_console()
    groups: dict[str, list[Place]] = {}
    for place in _places(cells):
        groups.setdefault(_gpu(place), []).append(place)
    usable = {gpu: group for gpu, group in groups.items() if any(map(_planned, group))}
    rows = [(gpu, _cheapest(group)) for gpu, group in usable.items()]
    shown = _shown(by_way for _, by_way in rows)
    letters = _letters(shown)
    _head(console, config, cells, by)
    columns = _columns(_mode_columns(cells, letters, by), by)
    left_out = print_table(console, columns, rows, (PER_MILLION, TOKENS_PER_S, GPU), gap=" ")
    console.print()
    meanings = [f"{mark} {_in_brief(meaning)}" for mark, meaning in _meanings(config, cells, shown, by) if mark]
    meanings += [f"{letter} {why}" for why, letter in letters.items()]
    if meanings:
        say(console, "; ".join(meanings))
    unusable: dict[str, list[str]] = {}
    for gpu in (gpu for gpu in groups if gpu not in usable):
        unusable.setdefault(_reasons(_shown([_cheapest(groups[gpu])])), []).append(gpu)
    for family in _families_of_amd(cells):
        unusable.setdefault(WHY[NVIDIA_ONLY], []).append(f"AMD's {family}")
    if unusable:
        said = "; ".join(f"{', '.join(names)} ({why})" for why, names in unusable.items())
        say(console, f"No setup: {said}")
    if rows and TOKENS_PER_S not in left_out and by == "price":
        say(console, f"{SPEEDS} Both are of the cheapest nodes with the GPU.")
    say(console, "hint: --by tokens shows speeds, --all every type, --type TYPE reasons and fixes")


def _mode_columns(cells: Sequence[Cell], letters: dict[str, str], by: By) -> list[Column[Row]]:
    def mode(name: str) -> Column[Row]:
        def mark(place: Place) -> str:
            return _mark(place, letters, by) + PER_MODEL * (place[0].way != name)

        return Column(name, lambda row: "/".join(dict.fromkeys(map(mark, row[1][name]))))

    return [mode(name) for name in dict.fromkeys(_column(cell.way, cells) for cell in cells)]


def _column(way: str, tried: Sequence[Cell]) -> str:
    """The column of a mode: both kinds of limits of MPS have one, which a narrow terminal has room for."""
    return "mps" if way == MPS_PER_MODEL and any(cell.way == "mps" for cell in tried) else way


def _shown(rows: Iterable[dict[str, list[Place]]]) -> list[Place]:
    return [place for by_column in rows for places in by_column.values() for place in places]


def _columns(modes: Sequence[Column[Row]], by: By) -> list[Column[Row]]:
    """Of the overview: the modes, then speed and price per token of the cheapest nodes with that GPU."""

    def best(row: Row) -> Cell:
        """Of the cheapest the fastest."""
        planned = (cell for places in row[1].values() for place in places for cell in _planned(place))
        return min(planned, key=lambda cell: (cell.usd_per_hour, -cell.tokens_per_s))

    columns: list[Column[Row]] = [
        Column(GPU, lambda row: row[0]),
        Column("type", lambda row: _family(best(row).instance)[0]),
        *modes,
    ]
    if by == "price":
        columns.append(Column(TOKENS_PER_S, lambda row: speed_cell(best(row).slowest_busy), True))
        columns.append(Column(PER_MILLION, lambda row: price_cell(best(row).usd_per_million_tokens()), True))
    return columns


def _cheapest(group: Sequence[Place]) -> dict[str, list[Place]]:
    """By column, the cheapest of the places that work, or all places of that mode if none works."""
    cells, by_column = [place[0] for place in group], dict[str, list[Place]]()
    for place in group:
        by_column.setdefault(_column(place[0].way, cells), []).append(place)
    for name, places in by_column.items():
        working = [place for place in places if _planned(place)]
        refused = [place for place in places if place[0].way == name]
        by_column[name] = [min(working, key=lambda place: _planned(place)[0].usd_per_hour)] if working else refused
    return by_column


def _in_brief(meaning: str) -> str:
    """Without the reasons against the other provisioner."""
    return meaning.partition("; with")[0].replace("; ", ", ")


def _reasons(group: Sequence[Place]) -> str:
    return " or ".join(dict.fromkeys(_why(cell) for place in group for cell in place))


def _why(refused: Cell) -> str:
    problem = next(iter(refused.verdict.broken), None)
    if problem and problem.path.endswith(".limits"):
        # The GPU has the mode; its nodes have too many GPUs, or a part of one.
        return f"`limits: {problem.found}` {problem.rule.partition(',')[0]}"
    return WHY.get(refused.broken, f"a rule is broken: {refused.broken}")


def _families_of_amd(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(_family(cell.instance)[0] for cell in cells if cell.instance.gpu.vendor != "nvidia"))


def _gpu(place: Place) -> str:
    return _family(place[0].instance)[1]


def _places(cells: Sequence[Cell]) -> list[Place]:
    """The cells of each type and mode. AMD's GPUs are left out: no mode works there."""
    there = (cell for cell in cells if cell.instance.gpu.vendor == "nvidia")
    return [list(some) for _, some in groupby(there, key=lambda cell: (cell.instance.name, cell.way))]


def grid(config: StackConfig, cells: Sequence[Cell], by: By) -> None:
    """A row for each type, grouped by family and GPU; a column for each sharing mode."""
    console = open_console()
    by_type = groupby(_places(cells), key=lambda place: place[0].instance)
    rows = {instance: _cheapest(list(places)) for instance, places in by_type}
    shown = _shown(rows.values())
    letters = _letters(shown)
    _head(console, config, cells, by)
    columns: list[Column[Row]] = [
        Column("type", lambda row: f"  {row[0].partition('.')[2]}"),
        Column(GPUS, lambda row: str(instance_types()[row[0]].gpus), True),
        *_mode_columns(cells, letters, by),
    ]
    named = [(instance.name, by_way) for instance, by_way in rows.items()]
    (head, *lines), _ = lay_out(columns, named, console.width, (GPUS,), gap=" ")
    console.print()
    say(console, head, "bold")
    for (family, gpu), some in groupby(zip(rows, lines, strict=True), key=lambda row: _family(row[0])):
        say(console, f"{family}  {gpu}", "bold")
        for _, line in some:
            say(console, line)
    console.print()
    for mark, meaning in _meanings(config, cells, shown, by):
        say_about(console, f"{mark:<5}", f" {meaning}")
    _legend(console, cells, letters)


def row(config: StackConfig, cells: Sequence[Cell]) -> None:
    """The details of one type: each mode with its price and warnings, or the reason against it and the fix."""
    console = open_console()
    instance = cells[0].instance
    say_about(console, instance.name, f" {_hardware(instance)}")
    _head(console, config, cells)
    if any(" per hour" in str(cell.problem) for cell in cells if cell.problem):
        say(console, FIXES)
    for way, some in groupby(cells, key=lambda cell: cell.way):
        console.print()
        say(console, way, "bold")
        for problem, same in groupby(some, key=lambda cell: cell.problem):
            _answer(console, str(problem or ""), list(same))


def _answer(console: Console, refusal: str, same: Sequence[Cell]) -> None:
    """The result of a mode that some provisioners share."""
    by = in_words([cell.pool.provisioner for cell in same])
    if refusal:
        say(console, f"  error: with {by}: {refusal}")
        return
    say_about(console, "  ok:", f" works with {by}: {_costs(same[0])}; {_shares(same[0].pool.offers)}", "green")
    if slowest := same[0].slowest_busy:
        usd = price_cell(same[0].usd_per_million_tokens())
        say(console, f"    {speed_cell(slowest)} tokens/s of the slowest, all busy; $/million {usd}")
    for warning in dict.fromkeys(warning for cell in same for warning in cell.warnings):
        say(console, f"  warning: {warning}")


def _head(console: Console, config: StackConfig, cells: Sequence[Cell], by: By = "price") -> None:
    say_about(console, "Models:", f" {models_of(config)}{context_of(config)}, on as many nodes as they need")
    prices = _prices(config.region, cells)
    shown, what = {
        "price": ("Prices:", f"$ per hour for all GPU nodes, {prices}"),
        "tokens": ("tokens/s:", "forecast for the slowest model while all are busy"),
        "per-token": ("$/million:", f"forecast at full load for the GPU nodes, spot if known, {prices}"),
    }[by]
    say_about(console, shown, f" {what}")


def _prices(region: str, cells: Sequence[Cell]) -> str:
    """The region of the prices, and the oldest date: `us-east-1, 2026-07-20 or later`"""
    names = dict.fromkeys(cell.instance.name for cell in cells if cell.plans)
    prices = [price for name in names for price in (on_demand(name, region), spot(name, region)) if price is not None]
    own = [price.date for price in prices if price.own]
    return f"{region}, {min(own)} or later" if own else f"unknown in {region}"


def _family(instance: InstanceType) -> tuple[str, str]:
    gpu = "slice of an L4" if instance.gpu.is_slice else instance.gpu.title
    return instance.name.partition(".")[0], gpu


def _planned(place: Place) -> list[Cell]:
    return [cell for cell in place if cell.plans]


def _letters(places: Iterable[Place]) -> dict[str, str]:
    """A letter for each reason that excludes a type with every provisioner."""
    refused = {(cell.broken, _why(cell)) for place in places if not _planned(place) for cell in place}
    return dict(zip((why for _, why in sorted(refused)), string.ascii_uppercase, strict=False))


def _mark(place: Place, letters: dict[str, str], by: By) -> str:
    """The price, with the provisioner if only one works, or the speed; or the letters of the rules against it."""
    planned = _planned(place)
    if not planned:
        return "/".join(dict.fromkeys(letters[_why(cell)] for cell in place))
    if by != "price":
        first = planned[0]
        return (speed_cell(first.slowest_busy) if by == "tokens" else price_cell(first.usd_per_million_tokens())) or "-"
    only = ONLY[planned[0].pool.provisioner] if len(planned) < len(place) else ""
    return f"{planned[0].usd_per_hour:.2f}{'' if planned[0].is_spot else '*'}{only}"


def _legend(console: Console, cells: Sequence[Cell], letters: dict[str, str]) -> None:
    for why, letter in letters.items():
        say_about(console, f"{letter:<5}", f" {why}")
    if families := _families_of_amd(cells):
        say(console, f"{'':<5} AMD's {', '.join(families)}: {WHY[NVIDIA_ONLY]}")
    say(console, "hint: for reasons and alternatives, run `tandem modes --type TYPE`")


def _meanings(config: StackConfig, tried: Sequence[Cell], places: Sequence[Place], by: By) -> Iterator[tuple[str, str]]:
    planned = [cell for place in places for cell in _planned(place)]
    if any(cell.way != _column(cell.way, tried) for cell in planned):
        yield PER_MODEL, "MPS with `limits: per-model` only"
    if by != "price":
        return
    if any(cell.is_spot for cell in planned):
        yield "0.22", "spot price"
    if not all(cell.is_spot for cell in planned):
        yield "1.20*", "on-demand price; the spot price is unknown"
    for provisioner, letter in ONLY.items():
        alone = [place for place in places if [cell.pool.provisioner for cell in _planned(place)] == [provisioner]]
        if refused := {_why(cell): cell.pool.provisioner for place in alone for cell in place if not cell.plans}:
            reasons = "; ".join(f"with {other}, {why}" for why, other in refused.items())
            yield letter, f"with {provisioner} only; {reasons}"
    if any("price of" in cell.price_note for cell in planned):
        yield "", f"If a price in {config.region} is unknown, the price of us-east-1 is used."


def _hardware(instance: InstanceType) -> str:
    gpu = instance.gpu
    memory = f" with {gpu.cuda_mib:,} MiB for CUDA" if gpu.vendor == "nvidia" else ""
    host = f"{instance.vcpu} vCPU, {instance.memory_mib / 1024:g} GiB, {instance.arch}"
    return f"has {instance.gpus} × {gpu.title}{memory}, {host}."


def _costs(cell: Cell) -> str:
    nodes = f"{counted(cell.nodes, 'node')}, ${cell.usd_per_hour:.3f} per hour ({cell.price_note})"
    return f"{nodes}, ${cell.on_demand_usd_per_hour:.3f} on demand" if cell.is_spot else nodes


def _shares(offers: Sequence[Shares]) -> str:
    """The shares of a GPU."""
    each = []
    for shares in offers:
        kind = f"{shares.profile} slice" if shares.profile else "share"
        memory = f"{shares.memory_mib:,} MiB" if shares.memory_mib is not None else "memory not partitioned"
        if shares.own_limits:
            memory = f"a limit for each model, {shares.unit_mib:,} MiB in total"
        each.append(f"{counted(shares.per_gpu, kind)} per GPU, {memory}")
    return " + ".join(each)
