"""The verdict of the rules without advice: fast enough to try hundreds of changes of a stack."""

from dataclasses import dataclass

from sharing.cost.bill import Cost, cost
from sharing.fit.shares import Placement, place_models
from sharing.hardware.system_instances import system_types
from sharing.models.served import ServedModel
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.speed.forecast import Speed
from sharing.verdict.rules import table
from sharing.verdict.rules.budget import Limits, limits_of
from sharing.verdict.speed import speed_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one model fits its pool."""

    served: ServedModel
    pool: GpuPool
    placement: Placement
    speed: Speed | None
    """None for an embedding model, and on a GPU whose speed is unknown."""
    advice: tuple[str, ...] = ()
    """Changes after which all models of the pool fit, the cheapest first; empty if this model fits, or no
    change helps.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedSetup:
    """The cost of a setup, and its limits."""

    cost: Cost | None
    """None when a type is unknown."""
    limits: Limits
    """The budget."""

    @property
    def budget_is_open(self) -> bool:
        """Whether the budget cannot be checked: the price of a type in the region is unknown."""
        return self.limits.is_set and self.cost is not None and bool(self.cost.unpriced)

    @property
    def over_budget(self) -> bool:
        """Whether the stack may pass a limit: per hour, even if only while its nodes are replaced, or per month.

        Prices of another region are ignored.
        """
        return self.cost is not None and not self.budget_is_open and self.limits.passed_by(self.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickVerdict(PricedSetup):
    """The errors and the cost of a setup."""

    broken: tuple[Problem, ...]
    """Errors of the rules in `sharing.verdict.rules.table`."""
    fits: tuple[Fit, ...]
    """In the order of the models in the stack file; none of a pool that cannot be judged."""
    misfits: tuple[Fit, ...]
    """Those that do not fit; a missing share is the error of another rule."""

    @property
    def accepted(self) -> bool:
        """Whether nothing refuses the setup."""
        return not (self.broken or self.misfits or self.over_budget)


def judge_quickly(config: StackConfig) -> QuickVerdict:
    """Applies the table of rules, and judges memory and cost: all that decides whether a setup is accepted."""
    fits = [fit for pool in config.pools if is_judgeable(pool) for fit in _fits(config, pool)]
    fits.sort(key=lambda fit: fit.served.index)
    priced = price(config)
    return QuickVerdict(
        broken=tuple(table.problems(config)),
        fits=tuple(fits),
        misfits=tuple(fit for fit in fits if not fit.placement.fits and _is_news(config, fit)),
        cost=priced.cost,
        limits=priced.limits,
    )


def price(config: StackConfig) -> PricedSetup:
    """Computes the cost alone: for a setup that the rules accept."""
    return PricedSetup(cost=cost(config) if _is_priced(config) else None, limits=limits_of(config))


def is_judgeable(pool: GpuPool) -> bool:
    """Whether enough is known of a pool to say whether its models fit."""
    kinds = {kind.gpu for kind in pool.known_types}
    return len(kinds) == 1 and all(gpu.vendor == "nvidia" for gpu in kinds) and bool(pool.offers)


def _fits(config: StackConfig, pool: GpuPool) -> list[Fit]:
    return [
        Fit(served=served, pool=pool, placement=placement, speed=speed_of(config, pool, served, placement.shares))
        for served, placement in zip(config.models_of(pool), place_models(config, pool), strict=True)
    ]


def _is_news(config: StackConfig, fit: Fit) -> bool:
    """Whether the model lacks more than a share. Missing shares are reported once, not per model."""
    return fit.placement.is_left or len(config.models_of(fit.pool)) <= fit.pool.total_shares


def _is_priced(config: StackConfig) -> bool:
    """Whether the cost can be computed."""
    gpu_types_known = all(len(pool.known_types) == len(pool.instance_types) for pool in config.pools)
    return gpu_types_known and all(name in system_types() for name in config.cluster.system_nodes.instance_types)
