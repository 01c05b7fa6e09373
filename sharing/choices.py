"""The cheapest setups that hold given models: every instance type, mode and number of nodes, as spot and on demand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sharing.cost import Cost
from sharing.fit import Verdict
from sharing.gpus import instance_types
from sharing.judgement import Fit, Judgement
from sharing.matrix import WAYS, Cell, cell, trials
from sharing.modes import Shares
from sharing.problems import Problem
from sharing.setup import Capacity, Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A setup that the rules accept, or would accept under a larger budget."""

    cell: Cell

    @property
    def setup(self) -> Setup:
        """The whole stack."""
        return self.cell.setup

    @property
    def bill(self) -> Cost:
        """What the whole stack costs."""
        assert self.cell.judgement.cost is not None, "every type of the catalogue has a price"
        return self.cell.judgement.cost

    @property
    def isolation(self) -> str:
        """What keeps the models apart."""
        return isolation(self.cell.pool.offers[0])

    @property
    def tightest(self) -> Verdict:
        """The verdict on the model with the least room."""
        return min((fit.verdict for fit in self.cell.judgement.fits), key=lambda verdict: verdict.room)

    @property
    def rank(self) -> tuple[float, int, int, str]:
        """Where it stands among others: by its price, then by what is doubtful about it."""
        way = [*WAYS].index(self.cell.way)
        return round(self.bill.usd_per_hour, 6), len(self.cell.warnings), way, self.cell.instance.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """All that was found, the cheapest first."""

    fitting: tuple[Choice, ...]
    over_budget: tuple[Choice, ...]
    """Setups that hold the models and cost more than the budget."""
    refused: tuple[Cell, ...]

    @property
    def nearest_miss(self) -> Problem | None:
        """What refuses the refused setup that comes nearest: the one whose models lack the least memory."""
        misfits = [one for one in self.refused if not one.judgement.broken and one.judgement.misfits]
        nearest = min(misfits, key=lambda one: _lack(one.judgement), default=None)
        if nearest is None:
            return next((one.judgement.broken[0] for one in self.refused if one.judgement.broken), None)
        fit = min(nearest.judgement.misfits, key=lambda fit: fit.verdict.room)
        return _misfit(nearest, fit)


def choose(setup: Setup, capacities: Sequence[Capacity]) -> Choices:
    """Every setup for the models of `setup`, which has one pool, at its budget; all but the pool is as there.

    A node group brings the nodes: Karpenter's cost the same.
    """
    fitting: list[Choice] = []
    over_budget: list[Choice] = []
    refused: list[Cell] = []
    for found in _cells(setup, capacities):
        limited = replace(found.judgement, limit=setup.max_usd_per_hour)
        if not found.plans:
            refused.append(found)
        elif limited.over_budget:
            over_budget.append(Choice(cell=found))
        else:
            fitting.append(Choice(cell=found))
    fitting.sort(key=lambda choice: choice.rank)
    over_budget.sort(key=lambda choice: choice.rank)
    return Choices(fitting=tuple(fitting), over_budget=tuple(over_budget), refused=tuple(refused))


def isolation(shares: Shares) -> str:
    """What keeps a model on such a share from its neighbours, in a word."""
    if not shares.enforced:
        return "none"
    if shares.profile:
        return "hardware"
    return "own GPU" if shares.sharers == 1 else "memory"


def _cells(setup: Setup, capacities: Sequence[Capacity]) -> Iterator[Cell]:
    for instance in instance_types().values():
        for way in WAYS:
            for tried in trials(setup, instance, way, "node-group"):
                yield from _at_each_price(tried, way, capacities)


def _at_each_price(tried: Setup, way: str, capacities: Sequence[Capacity]) -> Iterator[Cell]:
    """The trial as spot and on demand; once where it is refused, or the spot price would be the on-demand price."""
    [pool] = tried.pools
    for capacity in capacities:
        found = cell(replace(tried, pools=(replace(pool, capacity=capacity),)), way)
        if capacity == "spot" and len(capacities) > 1 and found.plans and not found.is_spot:
            continue
        yield found
        if not found.plans:
            return


def _lack(found: Judgement) -> float:
    return max(-fit.verdict.room for fit in found.misfits)


def _misfit(found: Cell, fit: Fit) -> Problem:
    nodes = f"{found.nodes} × {found.instance.name}" if found.nodes > 1 else found.instance.name
    rule = f"{fit.verdict.rule} ({found.way} on {nodes}, {found.instance.gpu.title})"
    size = f"{fit.tenant.served.model.name} {fit.verdict.found}"
    return Problem(fit.tenant.path, size, rule, "Use a smaller model, a shorter context or fewer slots.")
