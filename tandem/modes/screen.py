"""The matrix of modes for people: a grid of marks for all instance types, or all that is known of one."""

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console

from sharing.gpus import InstanceType
from sharing.matrix import Cell
from sharing.modes import Shares
from sharing.prices import on_demand, spot
from sharing.setup import Setup
from tandem.terminal import line, open_console, say

ONLY = {"node-group": "n", "karpenter": "k"}
"""Mark behind a price that holds with one provisioner, where the other was tried as well."""
COLUMN = 11
"""Letters for a way of sharing: the longest name and a gap. Five of them fit 80 with the types."""

Place = list[Cell]
"""The cells of one type and one way: one for each provisioner."""


def grid(setup: Setup, cells: Sequence[Cell]) -> None:
    """A row for each type, grouped by family and card; a column for each way of sharing."""
    console = open_console()
    places = [list(some) for _, some in groupby(cells, key=lambda cell: (cell.instance.name, cell.way))]
    letters = _letters(places)
    _head(console, setup, cells)
    ways = dict.fromkeys(cell.way for cell in cells)
    line(console, f"\n{'type':<11}{'GPUs':>4}  {''.join(f'{way:<{COLUMN}}' for way in ways)}", "bold")
    for (family, card), rows in groupby(places, key=lambda place: _family(place[0].instance)):
        line(console, f"{family}  {card}", "bold")
        for instance, row in groupby(rows, key=lambda place: place[0].instance):
            marks = "".join(f"{_mark(place, letters):<{COLUMN}}" for place in row)
            line(console, f"  {instance.name.partition('.')[2]:<9}{instance.gpus:>4}  {marks}")
    console.print()
    _legend(console, setup, places, letters)


def row(setup: Setup, cells: Sequence[Cell]) -> None:
    """All that is known of one type: each way with its price and what is doubtful, or the reason and the way out."""
    console = open_console()
    instance = cells[0].instance
    say(console, 0, instance.name, _hardware(instance), "bold")
    _head(console, setup, cells)
    for way, some in groupby(cells, key=lambda cell: cell.way):
        line(console, f"\n{way}", "bold")
        for problem, same in groupby(some, key=lambda cell: cell.problem):
            _answer(console, str(problem or ""), list(same))


def _answer(console: Console, refusal: str, same: Sequence[Cell]) -> None:
    """What holds for a way with some provisioners alike."""
    by = " and ".join(cell.pool.provisioner for cell in same)
    if refusal:
        say(console, 2, "refused", f"with {by}. {refusal}", "red")
        return
    say(console, 2, "plans", f"with {by}: {_costs(same[0])}; {_shares(same[0].pool.offers)}", "green")
    for warning in dict.fromkeys(warning for cell in same for warning in cell.warnings):
        say(console, 4, "but", str(warning), "yellow")


def _head(console: Console, setup: Setup, cells: Sequence[Cell]) -> None:
    models = " and ".join(tenant.served.model.name for tenant in setup.tenants)
    contexts = {tenant.served.context for tenant in setup.tenants}
    context = f", context {contexts.pop()}" if len(contexts) == 1 else ""
    line(console, f"{models}{context}, on as many nodes as they need.")
    line(console, f"$ per hour for all GPU nodes. {_prices(setup.region, cells)}")


def _prices(region: str, cells: Sequence[Cell]) -> str:
    """Whose prices these are, and how old the oldest is: `Prices of us-east-1, 2026-07-20 or later.`"""
    names = dict.fromkeys(cell.instance.name for cell in cells if cell.plans)
    found = [price for name in names for price in (on_demand(name, region), spot(name, region)) if price is not None]
    own = [price.date for price in found if price.own]
    return f"Prices of {region}, {min(own)} or later." if own else f"Prices of {region} are unknown."


def _family(instance: InstanceType) -> tuple[str, str]:
    card = "slice of an L4" if instance.gpu.is_slice else instance.gpu.title
    return instance.name.partition(".")[0], card


def _planned(place: Place) -> list[Cell]:
    return [cell for cell in place if cell.plans]


def _letters(places: Iterable[Place]) -> dict[str, str]:
    """A letter for each rule that refuses a type with every provisioner."""
    rules = sorted({cell.broken for place in places if not _planned(place) for cell in place})
    return dict(zip(rules, string.ascii_uppercase, strict=False))


def _mark(place: Place, letters: dict[str, str]) -> str:
    """The price, with the provisioner where it is one of several that plans; or the letters of what is broken."""
    planned = _planned(place)
    if not planned:
        return "/".join(dict.fromkeys(letters[cell.broken] for cell in place))
    only = ONLY[planned[0].pool.provisioner] if len(planned) < len(place) else ""
    return f"{planned[0].usd_per_hour:.2f}{'' if planned[0].is_spot else '*'}{only}"


def _legend(console: Console, setup: Setup, places: Sequence[Place], letters: dict[str, str]) -> None:
    for mark, meaning in _meanings(setup, places):
        say(console, 0, f"{mark:<5}", meaning, "bold")
    if letters:
        line(console, "A letter names the rule that does not hold:")
    for rule, letter in letters.items():
        say(console, 2, letter, rule, "bold")
    line(console, "`tandem modes --type TYPE` tells reasons and ways out.")


def _meanings(setup: Setup, places: Sequence[Place]) -> Iterator[tuple[str, str]]:
    planned = [cell for place in places for cell in _planned(place)]
    if any(cell.is_spot for cell in planned):
        yield "0.22", "it plans, at the spot price"
    if not all(cell.is_spot for cell in planned):
        yield "1.20*", "it plans, at the on-demand price: no spot price is known"
    for provisioner, letter in ONLY.items():
        alone = [place for place in places if [cell.pool.provisioner for cell in _planned(place)] == [provisioner]]
        if refused := {cell.broken: cell.pool.provisioner for place in alone for cell in place if not cell.plans}:
            reasons = ", ".join(f"not with {other} ({rule})" for rule, other in refused.items())
            yield letter, f"with {provisioner} alone, {reasons}"
    if any("price of" in cell.price_note for cell in planned):
        yield "", f"Where no price in {setup.region} is known it is that of us-east-1."


def _hardware(instance: InstanceType) -> str:
    gpu = instance.gpu
    memory = f" with {gpu.cuda_mib:,} MiB for CUDA" if gpu.vendor == "nvidia" else ""
    host = f"{instance.vcpu} vCPU, {instance.memory_mib / 1024:g} GiB, {instance.arch}"
    return f"has {instance.gpus} × {gpu.title}{memory}, {host}."


def _costs(cell: Cell) -> str:
    nodes = f"{cell.nodes} node{'s' * (cell.nodes > 1)}, ${cell.usd_per_hour:.3f} an hour ({cell.price_note})"
    return f"{nodes}, ${cell.on_demand_usd_per_hour:.3f} on demand" if cell.is_spot else nodes


def _shares(offers: Sequence[Shares]) -> str:
    """What a card gives."""
    each = []
    for shares in offers:
        kind = f"slice {shares.profile}" if shares.profile else "share"
        memory = f"{shares.memory_mib:,} MiB" if shares.memory_mib is not None else "memory not divided"
        each.append(f"{shares.per_gpu} × {kind} a card, {memory}")
    return " + ".join(each)
