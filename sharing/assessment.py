"""The complete verdict on a setup: errors, warnings, cost, and changes that would make it valid."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from sharing import compatibility, cost_alerts, prices
from sharing.advice import Advice, advise, concerns
from sharing.cost import Cost, cost
from sharing.judgement import Fit, Judgement, judge
from sharing.offering_rules import read_prices
from sharing.problems import Problem
from sharing.setup import Pool, Setup

__all__ = ["Assessment", "Fit", "assess"]

MOST_CHEAPER = 3
"""Changes that an error about the budget offers."""
MOST_NAMED = 3
"""Models that one error names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The verdict of the rules. Nothing may be created while `problems` is not empty."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    fits: tuple[Fit, ...]
    """In the order of the models in the stack file."""
    cost: Cost | None
    """None when a type is unknown."""
    advice: Mapping[str, tuple[Advice, ...]]
    """By pool: changes after which nothing refuses it or its models, the cheapest first."""


def assess(setup: Setup, unreadable: Collection[str] = ()) -> Assessment:
    """Applies every rule to `setup` and stops at none, so that all errors are reported at once.

    `unreadable` names settings that are in the file but could not be read: rules that need them are skipped.
    """
    found = judge(setup, unreadable)
    advice = {pool.name: _advice(setup, found, pool, unreadable) for pool in setup.pools}
    problems = [*found.broken, *_do_not_fit(found, advice), *_over_budget(setup, found, advice)]
    problems += cost_alerts.find_problems(setup, found.cost)
    return Assessment(
        problems=tuple(problems),
        warnings=(
            *compatibility.warnings(setup, unreadable),
            *_old_prices(setup),
            *_budget_not_judged(setup, found),
            *cost_alerts.find_warnings(setup, found.cost),
        ),
        fits=tuple(_advised(fit, advice) for fit in found.fits),
        cost=found.cost,
        advice=advice,
    )


def _advice(setup: Setup, found: Judgement, pool: Pool, unreadable: Collection[str]) -> tuple[Advice, ...]:
    all_known = len(pool.known_types) == len(pool.instance_types)
    refused = any(concerns(problem, pool, setup) for problem in found.broken)
    refused |= any(fit.pool.name == pool.name for fit in found.fits if not fit.verdict.fits)
    return tuple(advise(setup, found, pool, unreadable)) if all_known and (refused or found.over_budget) else ()


def _advised(fit: Fit, advice: Mapping[str, tuple[Advice, ...]]) -> Fit:
    return fit if fit.verdict.fits else replace(fit, advice=tuple(each.change for each in advice[fit.pool.name]))


def _do_not_fit(found: Judgement, advice: Mapping[str, tuple[Advice, ...]]) -> Iterator[Problem]:
    """One error for all models that exceed the same limit by the same amount; a pool's advice is given once."""
    alike: dict[tuple[str, str, str], list[Fit]] = {}
    for fit in found.misfits:
        alike.setdefault((fit.pool.name, fit.verdict.rule, fit.verdict.found), []).append(fit)
    advised: dict[str, str] = {}
    for (pool, bound, size), fits in alike.items():
        first = fits[0]
        path = advised.setdefault(pool, first.tenant.path)
        if not advice[pool]:
            within, larger = (" within the budget", ", or raise the budget") if found.limit else ("", "")
            fix = (
                f"No other settings or instance type{within} would fit, and a model cannot be split "
                f"across GPUs. Use a smaller model{larger}."
            )
        elif path == first.tenant.path:
            fix = f"Write {'; or '.join(map(str, advice[pool]))}."
        else:
            fix = f"Apply the fix for {path}."
        rule = f"{bound} ({first.pool.sharing.mode} on {first.pool.smallest.gpu.title})"
        if _wants_several_gpus(first):
            rule += "; a model runs on one GPU, even if its node has several"
        yield Problem(first.tenant.path, f"{_names(fits)} ({size})", rule, fix)


def _wants_several_gpus(fit: Fit) -> bool:
    """Whether a model is too large for one GPU of a node that has several."""
    return fit.pool.smallest.gpus > 1 and fit.verdict.need.bound > fit.verdict.unit_mib


def _names(fits: list[Fit]) -> str:
    """The models of an error, e.g. `llama2:7b, mistral:7b and 3 more`."""
    names = list(dict.fromkeys(fit.tenant.served.model.name for fit in fits))[:MOST_NAMED]
    more = len(fits) - len(names)
    *others, last = [*names, f"{more} more"] if more else names
    return f"{', '.join(others)} and {last}" if others else last


def _old_prices(setup: Setup) -> list[Problem]:
    if setup.book is None or (days := setup.book.age_days(setup.today)) <= prices.FRESH_DAYS:
        return []
    fix = f"Run `tandem prices --region {setup.book.region}` again."
    return [Problem("--live-prices", f"{days} days", f"is older than {prices.FRESH_DAYS} days", fix)]


def _budget_not_judged(setup: Setup, found: Judgement) -> list[Problem]:
    """Prices of another region never decide about a budget."""
    bill, limit = found.cost, found.limit
    if bill is None or not found.budget_is_open:
        return []
    rule = f"is not checked: the price of {' and '.join(bill.unpriced)} in {setup.region} is unknown"
    return [Problem("budget.max-usd-per-hour", f"{limit}", rule, read_prices(setup.region), judged=False)]


def _over_budget(setup: Setup, found: Judgement, advice: Mapping[str, tuple[Advice, ...]]) -> Iterator[Problem]:
    bill, limit = found.cost, found.limit
    if bill is None or limit is None or not found.over_budget:
        return
    # Where the bill is known, so is the total of each change.
    offered = sorted((each for pool in setup.pools for each in advice[pool.name]), key=attrgetter("usd_per_hour"))
    cheaper = [str(each) for each in offered[:MOST_CHEAPER]]
    if bill.week and bill.week.parked_usd_per_hour > limit:
        rule = f"is less than the stack costs even while it is parked: ${bill.week.parked_usd_per_hour:.4f} per hour"
        fix = f"Write {_enough(bill)}. Only `pulumi destroy` ends all costs."
        yield Problem("budget.max-usd-per-hour", f"{limit}", rule, fix)
        return
    if bill.usd_per_hour <= limit:
        yield _over_budget_while_replacing(setup, bill, limit, cheaper)
        return
    largest = max(bill.lines, key=lambda line: line.usd_per_hour)
    rule = (
        f"is less than the stack costs: ${bill.usd_per_hour:.4f} per hour, and up to "
        f"${bill.replacing_usd_per_hour:.4f} while its nodes are replaced"
    )
    fix = f"The largest item is {largest.item} (${largest.usd_per_hour:.3f} per hour). "
    fix += f"Write {'; or '.join([*cheaper, _enough(bill)])}."
    yield Problem("budget.max-usd-per-hour", f"{limit}", rule, fix)


def _over_budget_while_replacing(setup: Setup, bill: Cost, limit: float, cheaper: list[str]) -> Problem:
    rule = (
        f"is less than the stack costs while its nodes are replaced: up to ${bill.replacing_usd_per_hour:.4f} per hour"
    )
    fixes = [_enough(bill)]
    groups = [pool for pool in setup.pools if pool.provisioner == "node-group" and pool.replacement == "create-first"]
    others = tuple(replace(pool, replacement="delete-first") if pool in groups else pool for pool in setup.pools)
    if groups and cost(replace(setup, pools=others)).replacing_usd_per_hour <= limit:
        fixes.append(" and ".join(f"`{pool.path}.replacement: delete-first`" for pool in groups))
    return Problem("budget.max-usd-per-hour", f"{limit}", rule, f"Write {'; or '.join([*fixes, *cheaper])}.")


def _enough(bill: Cost) -> str:
    """The smallest budget that covers the bill."""
    return f"`budget.max-usd-per-hour: {bill.least_budget:.2f}`"
