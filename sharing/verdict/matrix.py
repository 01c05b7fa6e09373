"""Every sharing mode on every instance type, with every provisioner: valid, or refused with a reason."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from sharing.cost.bill import gpu_nodes
from sharing.fit.slices import slices_for
from sharing.hardware import prices
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.models.served import ServedModel
from sharing.modes.base import MOST_TIME_SLICES, PER_MODEL
from sharing.modes.layouts import Strategy
from sharing.modes.modes import MPS_MOST_REPLICAS, MPS_PER_MODEL, Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.problems import Problem
from sharing.sections.changes import with_room
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.sections.provisioners import PROVISIONERS, Provisioner
from sharing.speed.estimate import Estimate
from sharing.speed.forecast import Speed
from sharing.verdict.full import judge_fully
from sharing.verdict.quick import QuickVerdict, judge_quickly
from sharing.verdict.rules.table import first_broken, warnings
from sharing.verdict.speed import price_of_million, slowest_busy

MODELS_FIT = "the models fit"
"""Used as the name of a rule if the only error is the size of the models."""


def _replicas(models: int, gpus: int, most: int) -> list[int]:
    """The fewest shares per GPU that hold the models, for one node and for each larger number of nodes."""
    fewest: dict[int, int] = {}
    for replicas in range(min(-(-models // gpus), most), 1, -1):
        fewest[-(-models // (gpus * replicas))] = replicas
    # A single model gets a share, too: the fewest that these modes have.
    return list(fewest.values()) or [2]


def _slices(strategy: Strategy) -> Callable[[tuple[ServedModel, ...], InstanceType], list[Sharing]]:
    """One slice per model on the fewest nodes, from the layout with the most slices; else the smallest slices."""

    def partition(models: tuple[ServedModel, ...], instance: InstanceType) -> list[Sharing]:
        fewest = (slices_for(models, instance, strategy, nodes) for nodes, _ in enumerate(models, 1))
        return [next(filter(None, fewest), Mig(strategy=strategy))]

    return partition


WAYS: dict[str, Callable[[tuple[ServedModel, ...], InstanceType], list[Sharing]]] = {
    "exclusive": lambda models, instance: [Exclusive()],
    "timeslice": lambda models, instance: [
        TimeSlicing(replicas=each) for each in _replicas(len(models), instance.gpus, MOST_TIME_SLICES)
    ],
    "mps": lambda models, instance: [
        Mps(replicas=each) for each in _replicas(len(models), instance.gpus, MPS_MOST_REPLICAS)
    ],
    MPS_PER_MODEL: lambda models, instance: [
        Mps(replicas=each, limits=PER_MODEL) for each in _replicas(len(models), instance.gpus, MPS_MOST_REPLICAS)
    ],
    "mig-single": _slices("single"),
    "mig-mixed": _slices("mixed"),
}
"""The sharing modes by `Mode.way`; MPS appears once per kind of limits, and MIG once per strategy.

Each function returns the settings to try, those with the fewest nodes first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One sharing mode on one instance type with one provisioner: valid, or refused with a reason."""

    way: str
    """Key of `WAYS`."""
    instance: InstanceType
    pool: GpuPool
    """The pool of the stack file: provisioner, sharing with its layout, nodes."""
    nodes: int
    """GPU nodes that run."""
    usd_per_hour: float
    """Price of these nodes at the pool's capacity; on demand if no spot price is known."""
    price_note: str
    """Remark about that price."""
    on_demand_usd_per_hour: float
    config: StackConfig
    """The entire stack that was tried."""
    verdict: QuickVerdict
    """Its verdict."""

    @property
    def plans(self) -> bool:
        return self.verdict.accepted

    @property
    def problem(self) -> Problem | None:
        """The first error with its fix; None if it is valid."""
        if self.plans or self.verdict.broken:
            return next(iter(self.verdict.broken), None)
        return judge_fully(self.config).problems[0]

    @property
    def broken(self) -> str:
        """Name of the rule that this breaks; empty if it is valid."""
        rule = first_broken(self.config) if self.verdict.broken else None
        return "" if self.plans else rule.name if rule else MODELS_FIT

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings about this mode here; those about the entire stack are left out."""
        places = ("sharing", "gpu-nodes", *(served.path for served in self.config.models))
        return tuple(warning for warning in warnings(self.config) if warning.is_within(places))

    @property
    def speeds(self) -> list[Speed | None]:
        """The speed of each model, in their order; None for an embedding model."""
        return [fit.speed for fit in self.verdict.fits]

    @property
    def slowest_busy(self) -> Estimate | None:
        """Tokens per second of the slowest model, while all are busy."""
        return slowest_busy(self.speeds)

    @property
    def tokens_per_s(self) -> float:
        """The same as a number to compare; 0 if no model generates tokens."""
        return self.slowest_busy.value if self.slowest_busy else 0.0

    def usd_per_million_tokens(self, load: float = 1.0) -> Estimate | None:
        """The price of a million tokens, of these nodes alone."""
        return price_of_million(self.speeds, self.usd_per_hour, load)

    @property
    def is_spot(self) -> bool:
        """Whether the price is a spot price."""
        return self.pool.capacity == "spot" and "on-demand" not in self.price_note


def cells(
    config: StackConfig,
    *,
    types: Collection[str] | None = None,
    ways: Collection[str] = tuple(WAYS),
    provisioners: Collection[Provisioner] = PROVISIONERS,
) -> Iterator[Cell]:
    """The matrix for the models of `config`, which has one pool: by type, then mode, then provisioner.

    Types, sharing, provisioner and number of nodes of the pool are those of the cell, and the budget is ignored; the
    rest is from `config`. `types` are names of the catalogue; None means all.
    """
    for name in instance_types() if types is None else types:
        for way in ways:
            for provisioner in provisioners:
                yield cell(next(trials(config, instance_types()[name], way, provisioner)), way)


def cheapest(cells: Collection[Cell], capacity: str) -> Cell | None:
    """The valid cell with the lowest price for GPU nodes, `spot` or `on-demand`; None if there is none."""
    if capacity == "spot":
        priced = [cell for cell in cells if cell.plans and cell.is_spot]
        return min(priced, key=lambda cell: cell.usd_per_hour, default=None)
    planned = [cell for cell in cells if cell.plans]
    return min(planned, key=lambda cell: cell.on_demand_usd_per_hour, default=None)


def trials(config: StackConfig, instance: InstanceType, way: str, provisioner: Provisioner) -> Iterator[StackConfig]:
    """`config` with its models on as many nodes of `instance` as they need, in that mode; the fewest nodes first."""
    [old] = config.pools
    unlimited = config.without_limits()
    models = tuple(config.models)
    if way != MPS_PER_MODEL and any(served.share for served in models):
        unlimited = unlimited.changed(models=[served.changed(share=None) for served in models])
    for sharing in WAYS[way](models, instance):
        pool = old.changed(instance_types=[instance.name], provisioner=provisioner, min=0, desired=1, max=1)
        yield unlimited.with_pool(with_room(pool.changed(own_sharing=sharing), config))


def cell(tried: StackConfig, way: str) -> Cell:
    """The verdict on one of the trials."""
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
        config=tried,
        verdict=judge_quickly(tried),
    )
