"""What the models of the stack `per-model` cost in each sharing mode, on the cluster of `tandem plan MODELS`."""

from collections.abc import Sequence

from sharing.modes.base import Shares
from sharing.modes.modes import MPS_PER_MODEL
from sharing.sections.config import StackConfig
from sharing.verdict.full import judge_fully
from sharing.verdict.matrix import Cell, cells, cheapest
from tandem.terminal import in_range

WAYS = {
    MPS_PER_MODEL: "`mps`, `limits: per-model`",
    "timeslice": "`timeslice`",
    "mps": "`mps`, equal limits",
    "exclusive": "`exclusive`",
    "mig-mixed": "`mig`, `strategy: mixed`",
}
"""The sharing modes that are compared. MIG's equal slices hold these models on the same nodes as its different ones."""
OWN_CLUSTER = ("control plane", "system nodes")
"""Lines of a bill that a stack on Amazon ECS would not have."""


def find(config: StackConfig) -> dict[str, Cell]:
    """The cheapest setup on spot capacity by sharing mode: nodes of one type that hold all models of `config`."""
    planned = [cell for cell in cells(config, ways=WAYS, provisioners=["node-group"]) if cell.plans]
    found = {way: cheapest([cell for cell in planned if cell.way == way], "spot") for way in WAYS}
    return {way: cell for way, cell in found.items() if cell}


def rows(found: dict[str, Cell]) -> list[tuple[str, ...]]:
    """The table of the guide: the cheapest first."""
    head = ("sharing mode", "memory limits", "cheapest GPU nodes", "$ per hour, nodes", "$ per hour, stack", "tokens/s")
    table: list[tuple[str, ...]] = [head]
    for way in sorted(found, key=lambda way: (found[way].usd_per_hour, -found[way].tokens_per_s)):
        cell = found[way]
        assert cell.slowest_busy is not None
        table.append(
            (
                WAYS[way],
                _limits(cell.pool.offers),
                f"{cell.nodes} × {cell.instance.name}",
                f"{cell.usd_per_hour:.2f}",
                f"{_stack(cell):.2f}",
                in_range(cell.slowest_busy),
            )
        )
    return table


def without_cluster(found: dict[str, Cell]) -> str:
    """The price of the same nodes without the parts that only a Kubernetes cluster has."""
    cell = found[MPS_PER_MODEL]
    whole, rest = _stack(cell), _stack(cell, OWN_CLUSTER)
    return (
        f"The setup with a limit for each model costs ${whole:.2f} per hour. Control plane and system node are\n"
        f"${whole - rest:.2f} of it. ECS needs neither, so about ${rest:.2f} are left.\n"
    )


def _limits(offers: Sequence[Shares]) -> str:
    if offers[0].sharers == 1:
        return "a slice for each" if offers[0].profile else "a GPU for each"
    if not offers[0].enforced:
        return "none"
    return "one for each model" if offers[0].own_limits else "an equal part for each"


def _stack(cell: Cell, without: Sequence[str] = ()) -> float:
    """The price of the whole stack per hour, without lines that begin with these words."""
    bill = judge_fully(cell.config).cost
    assert bill is not None
    return sum(line.usd_per_hour for line in bill.lines if not line.item.startswith(tuple(without)))
