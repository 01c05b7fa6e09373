"""Every way of sharing on every instance type, with every provisioner: what plans, what is refused and why."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from sharing import prices
from sharing.advice import with_room
from sharing.assessment import assess
from sharing.compatibility import first_broken, warnings
from sharing.cost import gpu_nodes
from sharing.gpus import InstanceType, instance_types
from sharing.judgement import Judgement, judge
from sharing.layouts import Strategy
from sharing.models import Served
from sharing.modes import MOST_TIME_SLICES, MPS_MOST_REPLICAS, Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.problems import Problem
from sharing.setting_paths import touches
from sharing.setup import ONE_POOL, Pool, Provisioner, Setup
from sharing.slices import slices_for

PROVISIONERS: tuple[Provisioner, ...] = ("node-group", "karpenter")
MODELS_FIT = "the models fit"
"""Stands for a rule's name where nothing is wrong but the size of the models."""


def _replicas(models: int, gpus: int, most: int) -> list[int]:
    """Shares per GPU, for one node and for each larger number of nodes, as few as hold the models there."""
    fewest: dict[int, int] = {}
    for replicas in range(min(max(2, -(-models // gpus)), most), 1, -1):
        fewest[-(-models // (gpus * replicas))] = replicas
    return list(fewest.values())


def _slices(strategy: Strategy) -> Callable[[tuple[Served, ...], InstanceType], list[Sharing]]:
    """A slice for each model on as few nodes as hold them, of the layout with the most slices; else the smallest."""

    def cut(models: tuple[Served, ...], instance: InstanceType) -> list[Sharing]:
        found = (slices_for(models, instance, strategy, nodes) for nodes in range(1, len(models) + 1))
        return [next(filter(None, found), Mig(strategy=strategy))]

    return cut


WAYS: dict[str, Callable[[tuple[Served, ...], InstanceType], list[Sharing]]] = {
    "exclusive": lambda models, instance: [Exclusive()],
    "timeslice": lambda models, instance: [
        TimeSlicing(replicas=each) for each in _replicas(len(models), instance.gpus, MOST_TIME_SLICES)
    ],
    "mps": lambda models, instance: [
        Mps(replicas=each) for each in _replicas(len(models), instance.gpus, MPS_MOST_REPLICAS)
    ],
    "mig-single": _slices("single"),
    "mig-mixed": _slices("mixed"),
}
"""The ways of sharing by the names that they have here: the modes, and MIG under each strategy.

Each gives the settings to try, the one that needs the fewest nodes first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way of sharing on one instance type with one provisioner: it plans, or it is refused with a reason."""

    way: str
    """Of `WAYS`."""
    instance: InstanceType
    pool: Pool
    """What the stack file would say: provisioner, sharing with its layout, nodes."""
    nodes: int
    """GPU nodes that run."""
    usd_per_hour: float
    """These nodes at the pool's capacity; on demand where no spot price is known."""
    price_note: str
    """What is special about that price."""
    on_demand_usd_per_hour: float
    setup: Setup
    """The whole stack that was tried."""
    judgement: Judgement
    """What the rules say of it."""

    @property
    def plans(self) -> bool:
        return self.judgement.accepted

    @property
    def problem(self) -> Problem | None:
        """The first thing that refuses it, with its fix; None where it plans."""
        if self.plans or self.judgement.broken:
            return next(iter(self.judgement.broken), None)
        return assess(self.setup).problems[0]

    @property
    def broken(self) -> str:
        """Name of the rule that this breaks; empty where it plans."""
        rule = first_broken(self.setup) if self.judgement.broken else None
        return "" if self.plans else rule.name if rule else MODELS_FIT

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is doubtful about this way here; what concerns the whole stack is left out."""
        places = ("sharing", "gpu-nodes", *(tenant.path for tenant in self.setup.tenants))
        return tuple(warning for warning in warnings(self.setup) if touches((warning.path,), places))

    @property
    def is_spot(self) -> bool:
        """Whether the price is one for spot capacity."""
        return self.pool.capacity == "spot" and "on-demand" not in self.price_note


def cells(
    setup: Setup,
    *,
    types: Collection[str] | None = None,
    ways: Collection[str] = tuple(WAYS),
    provisioners: Collection[Provisioner] = PROVISIONERS,
) -> Iterator[Cell]:
    """The matrix for the models of `setup`, which has one pool: by type, then way, then provisioner.

    The pool's types, sharing, provisioner and number of nodes are those of the cell, and no budget holds; all else is
    as in `setup`. `types` are names of the catalogue, all of it when absent.
    """
    for name in instance_types() if types is None else types:
        for way in ways:
            for provisioner in provisioners:
                yield cell(next(trials(setup, instance_types()[name], way, provisioner)), way)


def cheapest(found: Collection[Cell], capacity: str) -> Cell | None:
    """The cell that plans at the lowest price for GPU nodes, `spot` or `on-demand`; None where nothing plans."""
    if capacity == "spot":
        priced = [cell for cell in found if cell.plans and cell.is_spot]
        return min(priced, key=lambda cell: (cell.usd_per_hour, cell.instance.name), default=None)
    planned = [cell for cell in found if cell.plans]
    return min(planned, key=lambda cell: (cell.on_demand_usd_per_hour, cell.instance.name), default=None)


def one_pool(setup: Setup) -> Setup:
    """`setup` with all its models on one pool, which has the settings of the first."""
    first = replace(setup.pools[0], path=ONE_POOL, sharing_path="sharing")
    tenants = tuple(replace(tenant, pool=first.name) for tenant in setup.tenants)
    return replace(setup, pools=(first,), tenants=tenants)


def trials(setup: Setup, instance: InstanceType, way: str, provisioner: Provisioner) -> Iterator[Setup]:
    """`setup` with its models on as many nodes of `instance` as they need, shared that way; the fewest nodes first."""
    [old] = setup.pools
    models = tuple(tenant.served for tenant in setup.tenants)
    for sharing in WAYS[way](models, instance):
        pool = replace(
            old, instance_types=(instance.name,), provisioner=provisioner, sharing=sharing, min=0, desired=1, max=1
        )
        yield replace(setup, pools=(with_room(pool, setup),), max_usd_per_hour=None)


def cell(tried: Setup, way: str) -> Cell:
    """What the rules say of one of the trials."""
    [pool] = tried.pools
    bill = gpu_nodes(pool, tried)
    on_demand = prices.on_demand(pool.smallest.name, tried.region, tried.book).usd_per_hour
    return Cell(
        way=way,
        instance=pool.smallest,
        pool=pool,
        nodes=pool.max,
        usd_per_hour=bill.usd_per_hour,
        price_note=bill.note,
        on_demand_usd_per_hour=pool.max * on_demand,
        setup=tried,
        judgement=judge(tried),
    )
