"""The verdict of the rules without advice: fast enough to try hundreds of changes of a stack."""

from dataclasses import dataclass

from sharing.cost.bill import Cost, cost
from sharing.fit.shares import Verdict, judge_models
from sharing.hardware.system_instances import system_types
from sharing.problems import Problem
from sharing.stack.setup import Pool, Setup, Tenant
from sharing.verdict.rules import table as compatibility
from sharing.verdict.rules.budget import Limits, limits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one model fits its pool."""

    tenant: Tenant
    pool: Pool
    verdict: Verdict
    advice: tuple[str, ...] = ()
    """Changes after which all models of the pool fit, the cheapest first; empty if this model fits, or no
    change helps.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Every verdict on a setup."""

    broken: tuple[Problem, ...]
    """Errors of the rules in `sharing.verdict.rules.table`."""
    fits: tuple[Fit, ...]
    """In the order of the models in the stack file; none of a pool that cannot be judged."""
    misfits: tuple[Fit, ...]
    """Those that do not fit; a missing share is the error of another rule."""
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

    @property
    def accepted(self) -> bool:
        """Whether nothing refuses the setup."""
        return not (self.broken or self.misfits or self.over_budget)


def judge(setup: Setup) -> Judgement:
    """Applies every rule to `setup` and stops at none."""
    fits = [fit for pool in setup.pools if is_judgeable(pool) for fit in _fits(setup, pool)]
    fits.sort(key=lambda fit: setup.tenants.index(fit.tenant))
    return Judgement(
        broken=tuple(compatibility.problems(setup)),
        fits=tuple(fits),
        misfits=tuple(fit for fit in fits if not fit.verdict.fits and _is_news(setup, fit)),
        cost=cost(setup) if _is_priced(setup) else None,
        limits=limits_of(setup),
    )


def is_judgeable(pool: Pool) -> bool:
    """Whether enough is known of a pool to say whether its models fit."""
    kinds = {known.gpu for known in pool.known_types}
    return len(kinds) == 1 and all(gpu.vendor == "nvidia" for gpu in kinds) and bool(pool.offers)


def _fits(setup: Setup, pool: Pool) -> list[Fit]:
    found = zip(setup.tenants_of(pool), judge_models(setup, pool), strict=True)
    return [Fit(tenant=tenant, pool=pool, verdict=verdict) for tenant, verdict in found]


def _is_news(setup: Setup, fit: Fit) -> bool:
    """Whether the model lacks more than a share. Missing shares are reported once, not per model."""
    return fit.verdict.is_left or len(setup.tenants_of(fit.pool)) <= fit.pool.total_shares


def _is_priced(setup: Setup) -> bool:
    """Whether the cost can be computed."""
    gpu_types_known = all(len(pool.known_types) == len(pool.instance_types) for pool in setup.pools)
    return gpu_types_known and all(name in system_types() for name in setup.system_types)
