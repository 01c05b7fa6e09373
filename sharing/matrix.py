"""Every way of sharing on every instance type, with every provisioner: what plans, what is refused and why."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from sharing import prices
from sharing.assessment import assess
from sharing.compatibility import first_broken, warnings
from sharing.cost import gpu_nodes
from sharing.gpus import InstanceType, instance_types
from sharing.judgement import Judgement, judge
from sharing.layouts import Strategy
from sharing.models import Served
from sharing.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.paths import touches
from sharing.problems import Problem
from sharing.setup import Pool, Provisioner, Setup
from sharing.slices import slices_for

PROVISIONERS: tuple[Provisioner, ...] = ("node-group", "karpenter")
MODELS_FIT = "the models fit"
"""Stands for a rule's name where nothing is wrong but the size of the models."""


def _slices(strategy: Strategy) -> Callable[[tuple[Served, ...], InstanceType], Sharing]:
    """A slice for each model, of the layout with the most slices that holds them; where none does, the smallest."""
    return lambda models, instance: slices_for(models, instance, strategy) or Mig(strategy=strategy)


def _sharers(models: tuple[Served, ...]) -> int:
    return max(2, len(models))


WAYS: dict[str, Callable[[tuple[Served, ...], InstanceType], Sharing]] = {
    "exclusive": lambda models, instance: Exclusive(),
    "timeslice": lambda models, instance: TimeSlicing(replicas=_sharers(models)),
    "mps": lambda models, instance: Mps(replicas=_sharers(models)),
    "mig-single": _slices("single"),
    "mig-mixed": _slices("mixed"),
}
"""The ways of sharing by the names that they have here: the modes, and MIG under each strategy."""


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
                yield _cell(setup, instance_types()[name], way, provisioner)


def cheapest(found: Collection[Cell], capacity: str) -> Cell | None:
    """The cell that plans at the lowest price for GPU nodes, `spot` or `on-demand`; None where nothing plans."""
    if capacity == "spot":
        priced = [cell for cell in found if cell.plans and cell.is_spot]
        return min(priced, key=lambda cell: (cell.usd_per_hour, cell.instance.name), default=None)
    planned = [cell for cell in found if cell.plans]
    return min(planned, key=lambda cell: (cell.on_demand_usd_per_hour, cell.instance.name), default=None)


def trial(setup: Setup, instance: InstanceType, way: str, provisioner: Provisioner) -> Setup:
    """`setup` with its models on as many nodes of `instance` as they need, shared that way."""
    [old] = setup.pools
    models = tuple(tenant.served for tenant in setup.tenants)
    base = replace(
        old,
        instance_types=(instance.name,),
        provisioner=provisioner,
        sharing=WAYS[way](models, instance),
        min=0,
        desired=1,
        max=1,
    )
    nodes = -(-len(models) // base.shares_per_node) if base.offers else 1
    desired = nodes if provisioner == "node-group" else 1
    pool = replace(base, desired=desired, max=nodes)
    return replace(setup, pools=(pool,), max_usd_per_hour=None)


def _cell(setup: Setup, instance: InstanceType, way: str, provisioner: Provisioner) -> Cell:
    tried = trial(setup, instance, way, provisioner)
    [pool] = tried.pools
    bill = gpu_nodes(pool, tried)
    on_demand = prices.on_demand(instance.name, setup.region).usd_per_hour
    return Cell(
        way=way,
        instance=instance,
        pool=pool,
        nodes=pool.max,
        usd_per_hour=bill.usd_per_hour,
        price_note=bill.note,
        on_demand_usd_per_hour=pool.max * on_demand,
        setup=tried,
        judgement=judge(tried),
    )
