"""The cheapest setups for given models: every instance type, mode and number of nodes, spot and on demand."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from operator import itemgetter
from typing import Literal

from sharing.aws.partitions import HOME_REGION
from sharing.cost.bill import Cost
from sharing.fit.shares import Placement
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.offerings import offered
from sharing.hardware.prices import on_demand, spot
from sharing.hardware.spot_risk import SpotRisk, spot_risks
from sharing.modes.base import Shares
from sharing.modes.modes import MPS_PER_MODEL
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity
from sharing.speed.estimate import Estimate
from sharing.verdict.matrix import WAYS, Cell, cell, trials
from sharing.verdict.quick import Fit, QuickVerdict, judge_quickly
from sharing.verdict.rules.budget import limits_of
from sharing.verdict.speed import usd_per_million_tokens

ISOLATIONS = ("none", "memory", "hardware", "own GPU")
"""What keeps a model from the memory of its neighbours: nothing, a limit, a MIG slice, or no neighbours."""
By = Literal["price", "tokens", "per-token"]
"""What setups are ranked by: dollars per month, tokens per second of the slowest model, or dollars per token."""
CLOSE = 0.05
"""Setups and regions that differ by less in what they are ranked by are ranked by risk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A setup that the rules accept, or would accept with a larger budget."""

    cell: Cell

    @property
    def config(self) -> StackConfig:
        """The entire stack."""
        return self.cell.config

    @property
    def bill(self) -> Cost:
        """The cost of the entire stack."""
        assert self.cell.verdict.cost is not None, "every type of the catalogue has a price"
        return self.cell.verdict.cost

    @property
    def isolation(self) -> str:
        """How the models are isolated."""
        return isolation(self.cell.pool.offers[0])

    @property
    def tightest(self) -> Placement:
        """The placement of the model with the least room."""
        return min((fit.placement for fit in self.cell.verdict.fits), key=lambda placement: placement.room)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Warnings about its price, then about its sharing mode."""
        doubts, region = [], self.config.region
        if self.bill.unpriced:
            doubts.append(f"The GPU price in {region} is unknown: this is the one in {HOME_REGION}, or an estimate")
        if self.cell.pool.capacity == "spot" and not self.cell.is_spot:
            doubts.append("No spot price is known: the price is on-demand")
        return (*doubts, *(warning.sentence for warning in self.cell.warnings))

    def usd_per_million_tokens(self, load: float = 1.0) -> Estimate | None:
        """The price of a million tokens, of the entire stack."""
        return usd_per_million_tokens(self.cell.speeds, self.bill, load)

    @property
    def spot_risk(self) -> SpotRisk | None:
        """How often AWS reclaims such nodes; None on demand, and if it is unknown."""
        is_spot = self.cell.pool.capacity == "spot"
        return next(iter(spot_risks([self.cell.instance.name], self.config.region)), None) if is_spot else None

    @property
    def risk(self) -> int:
        """The same for comparisons, in per cent at least: unknown ones are above all others."""
        if self.cell.pool.capacity == "on-demand":
            return 0
        return self.spot_risk.least_percent if self.spot_risk else 100

    def rank(self, by: By = "price") -> tuple[bool, float, float, int]:
        """Sort key: known prices first; the best; of equal ones the cheaper or faster; then the order of `WAYS`."""
        # Of a month, in which the schedule of `park` counts.
        usd = round(self.bill.usd_per_month, 6)
        slowness = -round(self.cell.tokens_per_s, 6)
        per_token = self.usd_per_million_tokens() if by == "per-token" else None
        best = {
            "price": (usd, slowness),
            "tokens": (slowness, usd),
            "per-token": (round(per_token.value, 6) if per_token else inf, usd),
        }
        return bool(self.bill.unpriced), *best[by], [*WAYS].index(self.cell.way)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """All setups that were tried, the best first."""

    by: By
    regions: tuple[str, ...]
    """If not empty, `fitting` has the best setup of each of these regions that has one."""
    least_tokens_per_s: float
    """That of the slowest model while all are busy, by the value of its forecast."""
    fitting: tuple[Choice, ...]
    """Setups that hold the models and cost no more than the budget. Without a budget, prices may be unknown."""
    too_slow: tuple[Choice, ...]
    """Setups that hold the models, but not at the speed that was asked for: the fastest within the budget first."""
    over_budget: tuple[Choice, ...]
    """Setups that hold the models and cost more than the budget, the cheapest first."""
    not_judged: tuple[Choice, ...]
    """Setups that hold the models, but whose price cannot be compared with the budget."""
    refused: tuple[Cell, ...]

    @property
    def holding(self) -> tuple[Choice, ...]:
        """The setups that hold the models, whatever they cost and however fast they are."""
        return (*self.fitting, *self.over_budget, *self.not_judged, *self.too_slow)

    @property
    def proposed(self) -> int:
        """The place of the first setup, or, if it has warnings, of the first that is as cheap or fast and has least."""
        return _proposed(self.fitting, self.by)

    @property
    def nearest(self) -> Choice | None:
        """Of the setups over the budget the one that a larger budget would propose; None if there is none."""
        return self.over_budget[_proposed(self.over_budget, "price")] if self.over_budget else None

    @property
    def limited(self) -> Choice | None:
        """A setup at the price of the proposed one, and no slower, that keeps models apart where that one does not."""
        if self.by != "price" or not self.fitting or self.fitting[self.proposed].isolation != "none":
            return None

        def price_and_speed(choice: Choice) -> tuple[object, ...]:
            return choice.rank()[:3]

        shown = price_and_speed(self.fitting[self.proposed])
        apart = (each for each in self.fitting if each.isolation != "none")
        return next((each for each in apart if price_and_speed(each) <= shown), None)

    @property
    def offered_elsewhere(self) -> tuple[str, ...]:
        """The instance types that would hold the models if the region offered them."""
        return tuple(dict.fromkeys(each.instance.name for each in self.refused if _fits_elsewhere(each)))

    @property
    def refusal(self) -> Problem | None:
        """The error that all setups have in common, if any."""
        every = [each.verdict.broken for each in self.refused]
        first = every[0] if every else ()
        return next((problem for problem in first if all(problem in broken for broken in every)), None)

    @property
    def nearest_miss(self) -> Problem | None:
        """The error of the refused setup that comes closest: the one whose models lack the least memory."""
        misfits = [each for each in self.refused if not each.verdict.broken and each.verdict.misfits]
        nearest = min(misfits, key=lambda each: _lack(each.verdict), default=None)
        if nearest is None:
            return next((each.verdict.broken[0] for each in self.refused if each.verdict.broken), None)
        fit = min(nearest.verdict.misfits, key=lambda fit: fit.placement.room)
        return _misfit(nearest, fit)


def choose(
    config: StackConfig,
    capacities: Sequence[Capacity],
    by: By = "price",
    least_tokens_per_s: float = 0.0,
    regions: Sequence[str] = (),
    isolated: Collection[str] = ISOLATIONS,
    *,
    every: bool = True,
) -> Choices:
    """Every setup for the models and the budget of `config`, which has one pool.

    Only the pool changes. It keeps its provisioner: scale-to-zero needs Karpenter, and MIG needs a node group. Its
    models are isolated in one of the ways of `isolated`.
    With `regions`, the best setup of each of them instead, of types that it is known to offer at a price of its own.
    Without `every`, types are left out of which one node costs more than a stack that fits: the cheapest setups are the
    same, and the search takes a fifth of the time.
    """
    fitting: list[Choice] = []
    too_slow: list[tuple[bool, Choice]] = []
    over_budget: list[Choice] = []
    not_judged: list[Choice] = []
    refused: list[Cell] = []
    one_region = _cells(config, capacities) if every else _while_cheaper(config, capacities)
    everywhere = _in_regions(config, capacities, regions) if regions else one_region
    for tried in everywhere:
        if tried.pool.offers and isolation(tried.pool.offers[0]) not in isolated:
            continue
        has_price = not regions or tried.is_spot or tried.pool.capacity == "on-demand"
        limited = replace(tried.verdict, limits=limits_of(config))
        if not tried.plans:
            refused.append(tried)
        elif has_price and tried.tokens_per_s < least_tokens_per_s:
            too_slow.append((limited.over_budget, Choice(cell=tried)))
        elif has_price and limited.over_budget:
            over_budget.append(Choice(cell=tried))
        elif limited.budget_is_open or not has_price:
            not_judged.append(Choice(cell=tried))
        else:
            fitting.append(Choice(cell=tried))
    too_slow.sort(key=lambda each: (each[0], each[1].rank("tokens")))
    return Choices(
        by=by,
        least_tokens_per_s=least_tokens_per_s,
        regions=tuple(regions),
        fitting=_best_of_regions(_ranked(fitting, by), by) if regions else _ranked(fitting, by),
        too_slow=tuple(choice for _, choice in too_slow),
        over_budget=_ranked(over_budget, "price"),
        not_judged=_ranked(not_judged, by),
        refused=tuple(refused),
    )


def _ranked(choices: Sequence[Choice], by: By) -> tuple[Choice, ...]:
    return tuple(sorted(choices, key=lambda choice: choice.rank(by)))


def _proposed(ranked: Sequence[Choice], by: By) -> int:
    best = ranked[0].rank(by)[:2] if ranked else ()
    alike = takewhile(lambda place: ranked[place].rank(by)[:2] == best, range(len(ranked)))
    return min(alike, key=lambda place: len(ranked[place].doubts), default=0)


def _best_of_regions(choices: Sequence[Choice], by: By) -> tuple[Choice, ...]:
    """Of each region's setups `CLOSE` to its first, the proposed one of those with the least risk; then the rows so."""
    by_region: dict[str, list[Choice]] = {}
    for choice in choices:
        by_region.setdefault(choice.config.region, []).append(choice)
    best = []
    for here in by_region.values():
        safest = next(_by_risk(here, by))
        best.append(safest[_proposed(safest, by)])
    return tuple(choice for close in _by_risk(_ranked(best, by), by) for choice in close)


def _by_risk(ranked: Sequence[Choice], by: By) -> Iterator[list[Choice]]:
    """Those that are `CLOSE` to the first, the ones with less risk first; then the next ones in the same way."""
    left = deque((choice.rank(by)[1], choice) for choice in ranked)
    while left:
        first = left[0][0]
        close = []
        while left and left[0][0] <= first + CLOSE * abs(first):
            close.append(left.popleft()[1])
        yield sorted(close, key=lambda choice: choice.risk)


def isolation(shares: Shares) -> str:
    """How a model on such a share is isolated from its neighbours: one of `ISOLATIONS`."""
    if not shares.enforced:
        return "none"
    if shares.profile:
        return "hardware"
    return "own GPU" if shares.sharers == 1 else "memory"


def _in_regions(config: StackConfig, capacities: Sequence[Capacity], regions: Sequence[str]) -> Iterator[Cell]:
    """The setups of each region whose type it is known to offer, with an on-demand price of its own."""
    for region in regions:
        yield from _cells(config.changed(region=region), capacities, priced_types(region))


def _while_cheaper(config: StackConfig, capacities: Sequence[Capacity]) -> Iterator[Cell]:
    """The setups of the cheapest types, until one node of a type costs more than an entire stack that fits."""
    enough, limits = inf, limits_of(config)

    def usd_per_hour(kind: InstanceType) -> float:
        """Of one node, at least."""
        spot_price = spot(kind.name, config.region, config.book) if "spot" in capacities else None
        price = on_demand(kind.name, config.region, config.book).usd_per_hour
        return min(price, spot_price.usd_per_hour) if spot_price else price

    for least, kind in sorted(((usd_per_hour(kind), kind) for kind in instance_types().values()), key=itemgetter(0)):
        if least > enough:
            return
        for tried in _cells(config, capacities, [kind]):
            bill = tried.verdict.cost
            if tried.plans and bill and not bill.unpriced and not limits.passed_by(bill):
                enough = min(enough, bill.usd_per_hour)
            yield tried


def priced_types(region: str) -> list[InstanceType]:
    """The types that the region is known to offer, with an on-demand price of its own."""
    return [
        kind
        for kind in instance_types().values()
        if offered(kind.name, region) == "yes" and on_demand(kind.name, region).own
    ]


def _cells(
    config: StackConfig, capacities: Sequence[Capacity], kinds: Iterable[InstanceType] | None = None
) -> Iterator[Cell]:
    """Limits per model only where equal ones do not hold the models on as many nodes, or where the file has some."""
    [pool] = config.pools
    has_limits = any(served.share for served in config.models)
    for instance in instance_types().values() if kinds is None else kinds:
        equal: set[int] = set()
        for way in WAYS:
            for tried in trials(config, instance, way, pool.provisioner):
                if way == MPS_PER_MODEL and tried.pools[0].max in equal and not has_limits:
                    continue
                for judged in _at_each_price(tried, way, capacities):
                    if way == "mps" and judged.plans:
                        equal.add(judged.nodes)
                    yield judged


def _at_each_price(tried: StackConfig, way: str, capacities: Sequence[Capacity]) -> Iterator[Cell]:
    """The trial as spot and on demand; only once if it is refused, or if no spot price is known."""
    [pool] = tried.pools
    for capacity in capacities:
        judged = cell(tried.with_pool(pool.changed(capacity=capacity)), way)
        if capacity == "spot" and "on-demand" in capacities and judged.plans and not judged.is_spot:
            continue
        yield judged
        if not judged.plans:
            return


def _fits_elsewhere(refused: Cell) -> bool:
    """Whether only the region is wrong: it is known to lack the type."""
    config = refused.config
    if offered(refused.instance.name, config.region, config.book) != "no":
        return False
    return judge_quickly(config.with_pool(refused.pool.changed(check_offers=False))).accepted


def _lack(verdict: QuickVerdict) -> float:
    return max(-fit.placement.room for fit in verdict.misfits)


def _misfit(nearest: Cell, fit: Fit) -> Problem:
    nodes = f"{nearest.nodes} × {nearest.instance.name}" if nearest.nodes > 1 else nearest.instance.name
    rule = f"{fit.placement.rule} ({nearest.way} on {nodes}, {nearest.instance.gpu.title})"
    size = f"{fit.served.model.name} ({fit.placement.needed})"
    return Problem(fit.served.path, size, rule, "Use a smaller model, a shorter context or fewer slots.")
