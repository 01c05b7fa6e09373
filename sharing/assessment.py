"""All that the rules say of a setup: what refuses it, what is doubtful, whether the models fit, what it costs."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sharing import compatibility, prices
from sharing.advice import Case, advice
from sharing.cost import Cost, cost
from sharing.fit import Verdict, verdicts
from sharing.offering_rules import read_prices
from sharing.paths import rests_on, touches
from sharing.problems import Problem
from sharing.setup import Pool, Setup, Tenant
from sharing.system import system_types

FIT_READS = ("sharing", "models", "gpu-nodes.instance-types")
"""Settings that decide whether models fit, in the words of a file with one pool."""


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
    """In the order of the models in the stack file."""
    cost: Cost | None
    """None when a type is not known, so that nothing can be said."""


def assess(setup: Setup, unreadable: Collection[str] = ()) -> Assessment:
    """Applies every rule to `setup` and stops at none, so that all mistakes are told at once.

    `unreadable` names settings that stand in the file but could not be read: what rests on them is not judged.
    """
    problems = compatibility.problems(setup, unreadable)
    readable = [pool for pool in setup.pools if not touches(rests_on(FIT_READS, pool), unreadable)]
    fits = [fit for pool in readable if _judgeable(pool) for fit in _fits(setup, pool)]
    fits.sort(key=lambda fit: setup.tenants.index(fit.tenant))
    problems += _do_not_fit([fit for fit in fits if not fit.verdict.fits and _is_news(setup, fit)])
    bill = None
    if not unreadable and _all_types_known(setup):
        bill = cost(setup)
        problems += _over_budget(setup, bill)
    return Assessment(
        problems=tuple(problems),
        warnings=(*compatibility.warnings(setup, unreadable), *_old_prices(setup), *_budget_not_judged(setup, bill)),
        fits=tuple(fits),
        cost=bill,
    )


def _judgeable(pool: Pool) -> bool:
    kinds = {known.gpu for known in pool.known_types}
    return len(kinds) == 1 and all(gpu.vendor == "nvidia" for gpu in kinds) and bool(pool.offers)


def _all_types_known(setup: Setup) -> bool:
    gpu_types_known = all(len(pool.known_types) == len(pool.instance_types) for pool in setup.pools)
    return gpu_types_known and all(name in system_types() for name in setup.system_types)


def _fits(setup: Setup, pool: Pool) -> list[Fit]:
    tenants = setup.tenants_of(pool)
    models = tuple(tenant.served for tenant in tenants)
    case = Case(models=models, sharing=pool.sharing, instance=pool.smallest, nodes=pool.planned_nodes, path=pool.path)
    return [
        Fit(
            tenant=tenant,
            pool=pool,
            verdict=verdict,
            advice=() if verdict.fits else tuple(advice(case, index, setup.region)),
        )
        for index, (tenant, verdict) in enumerate(
            zip(tenants, verdicts(case.models, case.sharing, case.instance, case.nodes), strict=True)
        )
    ]


def _is_news(setup: Setup, fit: Fit) -> bool:
    """Whether it is more than that there are too few shares, which is told once and not for each model."""
    return fit.verdict.is_left or len(setup.tenants_of(fit.pool)) <= fit.pool.total_shares


def _do_not_fit(fits: list[Fit]) -> Iterator[Problem]:
    """A problem for each; the same advice is told once."""
    told: dict[tuple[str, ...], str] = {}
    for fit in fits:
        first = told.setdefault(fit.advice, fit.tenant.path)
        if not fit.advice:
            arch = fit.pool.smallest.arch
            way_out = f"No smaller setting and no larger GPU for {arch} makes it fit; take a smaller model."
        elif first == fit.tenant.path:
            way_out = f"It would fit with {'; or '.join(fit.advice)}."
        else:
            way_out = f"The same would help as for {first}."
        found = f"{fit.tenant.served.id} {fit.verdict.found}"
        rule = f"{fit.verdict.rule} ({fit.pool.sharing.mode} on {fit.pool.smallest.gpu.title})"
        yield Problem(fit.tenant.path, found, rule, way_out)


def _old_prices(setup: Setup) -> list[Problem]:
    if setup.book is None or (days := setup.book.age_days(setup.today)) <= prices.FRESH_DAYS:
        return []
    fix = f"Run `tandem prices --region {setup.book.region}` again."
    return [Problem("--live-prices", f"{days} days", f"should be at most {prices.FRESH_DAYS} days old", fix)]


def _budget_not_judged(setup: Setup, bill: Cost | None) -> list[Problem]:
    """A budget is never compared with prices of another region."""
    limit = setup.max_usd_per_hour
    if bill is None or limit is None or not bill.unpriced:
        return []
    rule = f"is not judged: the price of {' and '.join(bill.unpriced)} in {setup.region} is unknown"
    return [Problem("budget.max-usd-per-hour", f"{limit}", rule, read_prices(setup.region), judged=False)]


def _over_budget(setup: Setup, bill: Cost) -> list[Problem]:
    limit = setup.max_usd_per_hour
    if limit is None or bill.unpriced or bill.replacing_usd_per_hour <= limit:
        return []
    if bill.usd_per_hour <= limit:
        return [_over_budget_while_replacing(setup, bill, limit)]
    dearest = max(bill.lines, key=lambda line: line.usd_per_hour)
    rule = f"the stack costs ${bill.usd_per_hour:.4f} per hour, more than its budget"
    fix = (
        f"The most expensive line is {dearest.item}, ${dearest.usd_per_hour:.3f}. Make it cheaper, or raise the budget."
    )
    return [Problem("budget.max-usd-per-hour", f"{limit}", rule, fix)]


def _over_budget_while_replacing(setup: Setup, bill: Cost, limit: float) -> Problem:
    peak = math.ceil(bill.replacing_usd_per_hour * 100) / 100
    rule = f"the stack costs up to ${bill.replacing_usd_per_hour:.4f} per hour while its nodes are replaced"
    fix = f"Write `max-usd-per-hour: {peak:.2f}`"
    groups = [pool for pool in setup.pools if pool.provisioner == "node-group" and pool.replacement == "create-first"]
    others = tuple(replace(pool, replacement="delete-first") if pool in groups else pool for pool in setup.pools)
    if groups and cost(replace(setup, pools=others)).replacing_usd_per_hour <= limit:
        fix += f", or `replacement: delete-first` under {' and '.join(pool.path for pool in groups)}"
    return Problem("budget.max-usd-per-hour", f"{limit}", rule, f"{fix}.")
