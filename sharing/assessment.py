"""All that the rules say of a setup: what refuses it, what is doubtful, whether the models fit, what it costs."""

from collections.abc import Collection
from dataclasses import dataclass

from sharing import compatibility, prices
from sharing.cost import Cost, cost
from sharing.fit import Case, Verdict, advice, verdicts
from sharing.problems import Problem
from sharing.setup import Pool, Setup, Tenant

FIT_READS = ("sharing", "models", "gpu-nodes.instance-types")
"""Settings that decide whether models fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one model fits its pool."""

    tenant: Tenant
    pool: Pool
    verdict: Verdict
    advice: tuple[str, ...]
    """Changes after which it would fit; empty when it does, or when nothing small helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The answer of the rules. Nothing may be created while `problems` is not empty."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    fits: tuple[Fit, ...]
    cost: Cost | None
    """None when a type is not known, so that nothing can be said."""


def assess(setup: Setup, unreadable: Collection[str] = ()) -> Assessment:
    """Applies every rule to `setup` and stops at none, so that all mistakes are told at once.

    `unreadable` names settings that stand in the file but could not be read: what rests on them is not judged.
    """
    problems = compatibility.problems(setup, unreadable)
    fits: list[Fit] = []
    if not compatibility.touches(FIT_READS, unreadable):
        fits = [fit for pool in setup.pools if _judgeable(pool) for fit in _fits(setup, pool)]
        problems += [_does_not_fit(fit) for fit in fits if not fit.verdict.fits]
    bill = None
    if not unreadable and _all_types_known(setup):
        bill = cost(setup)
        problems += _over_budget(setup, bill)
    return Assessment(
        problems=tuple(problems),
        warnings=(*compatibility.warnings(setup, unreadable), *_old_prices(setup)),
        fits=tuple(fits),
        cost=bill,
    )


def _judgeable(pool: Pool) -> bool:
    kinds = {known.gpu for known in pool.known_types}
    return len(kinds) == 1 and all(gpu.vendor == "nvidia" for gpu in kinds)


def _all_types_known(setup: Setup) -> bool:
    gpu_types_known = all(len(pool.known_types) == len(pool.instance_types) for pool in setup.pools)
    return gpu_types_known and all(prices.knows_system_type(name) for name in setup.system_types)


def _fits(setup: Setup, pool: Pool) -> list[Fit]:
    tenants = setup.tenants_of(pool)
    case = Case(models=tuple(tenant.served for tenant in tenants), sharing=pool.sharing, instance=pool.smallest)
    return [
        Fit(
            tenant=tenant,
            pool=pool,
            verdict=verdict,
            advice=() if verdict.fits else tuple(advice(case, index, setup.region)),
        )
        for index, (tenant, verdict) in enumerate(
            zip(tenants, verdicts(case.models, case.sharing, case.instance), strict=True)
        )
    ]


def _does_not_fit(fit: Fit) -> Problem:
    offers = "; or ".join(fit.advice)
    none = f"No smaller setting and no larger GPU for {fit.pool.smallest.arch} makes it fit; take a smaller model."
    way_out = f"It would fit with {offers}." if offers else none
    found = f"{fit.tenant.served.id} {fit.verdict.found}"
    gpu = fit.pool.smallest.gpu
    return Problem(fit.tenant.path, found, f"{fit.verdict.rule} ({fit.pool.sharing.mode} on {gpu.title})", way_out)


def _old_prices(setup: Setup) -> list[Problem]:
    if setup.book is None or (days := setup.book.age_days(setup.today)) <= prices.FRESH_DAYS:
        return []
    fix = f"`tandem prices --region {setup.book.region}` reads them anew."
    return [Problem("--live-prices", f"{days} days", f"should be at most {prices.FRESH_DAYS} days old", fix)]


def _over_budget(setup: Setup, bill: Cost) -> list[Problem]:
    limit = setup.max_usd_per_hour
    if limit is None or bill.usd_per_hour <= limit:
        return []
    dearest = max(bill.lines, key=lambda line: line.usd_per_hour)
    rule = f"the stack costs ${bill.usd_per_hour:.4f} an hour, more than its budget"
    fix = f"The dearest line is {dearest.item}, ${dearest.usd_per_hour:.3f}. Take a cheaper one, or raise the budget."
    return [Problem("budget.max-usd-per-hour", f"{limit}", rule, fix)]
