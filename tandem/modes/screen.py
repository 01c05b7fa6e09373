"""The screen of `tandem modes`: a grid of prices for all instance types, or the details of one."""

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console

from sharing.gpus import InstanceType
from sharing.matrix import Cell
from sharing.modes import Shares
from sharing.prices import on_demand, spot
from sharing.setup import Setup
from tandem.terminal import count, has_room, in_words, line, open_console, say

ONLY = {"node-group": "n", "karpenter": "k"}
"""Mark after a price that is valid for one provisioner only, if both were tried."""
LONGEST_MARK = len("13.35*n")
COLUMN = 11
"""Width of a sharing mode's column: the longest name and a gap. Five of them fit 80 columns with the types."""

Place = list[Cell]
"""The cells of one type and one mode: one for each provisioner."""


def grid(setup: Setup, cells: Sequence[Cell]) -> None:
    """A row for each type, grouped by family and GPU; a column for each sharing mode."""
    console = open_console()
    places = [list(some) for _, some in groupby(cells, key=lambda cell: (cell.instance.name, cell.way))]
    letters = _letters(places)
    _head(console, setup, cells)
    ways = dict.fromkeys(cell.way for cell in cells)
    room = has_room(console)
    widths = {way: COLUMN if room else max(len(way), LONGEST_MARK) + 1 for way in ways}
    names = "".join(f"{way:<{width}}" for way, width in widths.items())
    line(console, f"\n{'type':<11}{'GPUs  ' if room else ''}{names}", "bold")
    for (family, gpu), rows in groupby(places, key=lambda place: _family(place[0].instance)):
        line(console, f"{family}  {gpu}", "bold")
        for instance, row in groupby(rows, key=lambda place: place[0].instance):
            marks = "".join(f"{_mark(place, letters):<{widths[place[0].way]}}" for place in row)
            gpus = f"{instance.gpus:>4}  " if room else ""
            line(console, f"  {instance.name.partition('.')[2]:<9}{gpus}{marks}")
    console.print()
    _legend(console, setup, places, letters)


def row(setup: Setup, cells: Sequence[Cell]) -> None:
    """The details of one type: each mode with its price and warnings, or the reason against it and the fix."""
    console = open_console()
    instance = cells[0].instance
    say(console, 0, instance.name, _hardware(instance), "bold")
    _head(console, setup, cells)
    for way, some in groupby(cells, key=lambda cell: cell.way):
        line(console, f"\n{way}", "bold")
        for problem, same in groupby(some, key=lambda cell: cell.problem):
            _answer(console, str(problem or ""), list(same))


def _answer(console: Console, refusal: str, same: Sequence[Cell]) -> None:
    """The result of a mode that some provisioners share."""
    by = in_words([cell.pool.provisioner for cell in same])
    if refusal:
        say(console, 2, "error:", f"with {by}: {refusal}", "red")
        return
    say(console, 2, "ok:", f"works with {by}: {_costs(same[0])}; {_shares(same[0].pool.offers)}", "green")
    for warning in dict.fromkeys(warning for cell in same for warning in cell.warnings):
        say(console, 2, "warning:", str(warning), "yellow")


def _head(console: Console, setup: Setup, cells: Sequence[Cell]) -> None:
    models = in_words([tenant.served.model.name for tenant in setup.tenants])
    contexts = {tenant.served.effective_context for tenant in setup.tenants}
    context = f", context {contexts.pop():,}" if len(contexts) == 1 else ""
    say(console, 0, "Models:", f"{models}{context}, on as many nodes as they need", "bold")
    say(console, 0, "Prices:", f"$ per hour for all GPU nodes, {_prices(setup.region, cells)}", "bold")


def _prices(region: str, cells: Sequence[Cell]) -> str:
    """The region of the prices, and the oldest date: `us-east-1, 2026-07-20 or later`"""
    names = dict.fromkeys(cell.instance.name for cell in cells if cell.plans)
    found = [price for name in names for price in (on_demand(name, region), spot(name, region)) if price is not None]
    own = [price.date for price in found if price.own]
    return f"{region}, {min(own)} or later" if own else f"unknown in {region}"


def _family(instance: InstanceType) -> tuple[str, str]:
    gpu = "slice of an L4" if instance.gpu.is_slice else instance.gpu.title
    return instance.name.partition(".")[0], gpu


def _planned(place: Place) -> list[Cell]:
    return [cell for cell in place if cell.plans]


def _letters(places: Iterable[Place]) -> dict[str, str]:
    """A letter for each rule that excludes a type with every provisioner."""
    rules = sorted({cell.broken for place in places if not _planned(place) for cell in place})
    return dict(zip(rules, string.ascii_uppercase, strict=False))


def _mark(place: Place, letters: dict[str, str]) -> str:
    """The price, with the provisioner if only one works; or the letters of the rules against it."""
    planned = _planned(place)
    if not planned:
        return "/".join(dict.fromkeys(letters[cell.broken] for cell in place))
    only = ONLY[planned[0].pool.provisioner] if len(planned) < len(place) else ""
    return f"{planned[0].usd_per_hour:.2f}{'' if planned[0].is_spot else '*'}{only}"


def _legend(console: Console, setup: Setup, places: Sequence[Place], letters: dict[str, str]) -> None:
    for mark, meaning in _meanings(setup, places):
        say(console, 0, f"{mark:<5}", meaning, "bold")
    for rule, letter in letters.items():
        say(console, 0, f"{letter:<5}", f"not met: {rule}", "bold")
    say(console, 0, "hint:", "for reasons and alternatives, run `tandem modes --type TYPE`", "cyan")


def _meanings(setup: Setup, places: Sequence[Place]) -> Iterator[tuple[str, str]]:
    planned = [cell for place in places for cell in _planned(place)]
    if any(cell.is_spot for cell in planned):
        yield "0.22", "spot price"
    if not all(cell.is_spot for cell in planned):
        yield "1.20*", "on-demand price; the spot price is unknown"
    for provisioner, letter in ONLY.items():
        alone = [place for place in places if [cell.pool.provisioner for cell in _planned(place)] == [provisioner]]
        if refused := {cell.broken: cell.pool.provisioner for place in alone for cell in place if not cell.plans}:
            reasons = "; ".join(f"{other} does not meet the rule: {rule}" for rule, other in refused.items())
            yield letter, f"with {provisioner} only; {reasons}"
    if any("price of" in cell.price_note for cell in planned):
        yield "", f"If a price in {setup.region} is unknown, the price of us-east-1 is used."


def _hardware(instance: InstanceType) -> str:
    gpu = instance.gpu
    memory = f" with {gpu.cuda_mib:,} MiB for CUDA" if gpu.vendor == "nvidia" else ""
    host = f"{instance.vcpu} vCPU, {instance.memory_mib / 1024:g} GiB, {instance.arch}"
    return f"has {instance.gpus} × {gpu.title}{memory}, {host}."


def _costs(cell: Cell) -> str:
    nodes = f"{count(cell.nodes, 'node')}, ${cell.usd_per_hour:.3f} per hour ({cell.price_note})"
    return f"{nodes}, ${cell.on_demand_usd_per_hour:.3f} on demand" if cell.is_spot else nodes


def _shares(offers: Sequence[Shares]) -> str:
    """The shares of a GPU."""
    each = []
    for shares in offers:
        kind = f"{shares.profile} slice" if shares.profile else "share"
        memory = f"{shares.memory_mib:,} MiB" if shares.memory_mib is not None else "memory not partitioned"
        each.append(f"{count(shares.per_gpu, kind)} per GPU, {memory}")
    return " + ".join(each)
