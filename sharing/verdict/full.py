"""The complete verdict on a config: errors, warnings, cost, and changes that would make it valid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from sharing.cost.bill import Cost
from sharing.hardware import prices
from sharing.problems import Problem
from sharing.sections.budget import Budget
from sharing.sections.changes import Advice
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.verdict.advice import advise
from sharing.verdict.features import features_of
from sharing.verdict.quick import Fit, QuickVerdict, judge_quickly
from sharing.verdict.rules import budget, table
from sharing.verdict.rules.rule import concerns

__all__ = ["Fit", "FullVerdict", "judge_fully"]

MOST_CHEAPER = 3
"""Changes that an error about the budget offers."""
MOST_NAMED = 3
"""Models that one error names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullVerdict:
    """The verdict that users see. Nothing may be created while `problems` is not empty."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    fits: tuple[Fit, ...]
    """In the order of the models in the stack file."""
    cost: Cost | None
    """None when a type is unknown."""
    advice: Mapping[str, tuple[Advice, ...]]
    """By pool: changes after which nothing refuses it or its models, the cheapest first."""


def judge_fully(config: StackConfig) -> FullVerdict:
    """Applies every rule to `config` and stops at none, so that all errors of the rules are reported at once."""
    quick = judge_quickly(config)
    advice = {pool.name: _advice(config, quick, pool) for pool in config.pools}
    problems = [*budget.find_wrong_limits(config, quick.cost), *quick.broken, *_do_not_fit(config, quick, advice)]
    problems += budget.find_problems(config, quick.cost, _cheaper(config, quick, advice))
    features = features_of(config)
    problems += [problem for feature in features for problem in feature.bill_errors(config, quick.cost)]
    return FullVerdict(
        problems=tuple(problems),
        warnings=(
            *table.warnings(config),
            *_old_prices(config),
            *budget.find_warnings(config, quick.cost),
            *(problem for feature in features for problem in feature.bill_warnings(config, quick.cost)),
        ),
        fits=tuple(_advised(fit, advice) for fit in quick.fits),
        cost=quick.cost,
        advice=advice,
    )


def _advice(config: StackConfig, quick: QuickVerdict, pool: GpuPool) -> tuple[Advice, ...]:
    all_known = len(pool.known_types) == len(pool.instance_types)
    refused = any(concerns(problem, pool, config) for problem in quick.broken)
    refused |= any(fit.pool.name == pool.name for fit in quick.fits if not fit.placement.fits)
    return tuple(advise(config, quick, pool)) if all_known and (refused or quick.over_budget) else ()


def _advised(fit: Fit, advice: Mapping[str, tuple[Advice, ...]]) -> Fit:
    return fit if fit.placement.fits else replace(fit, advice=tuple(each.change for each in advice[fit.pool.name]))


def _above_the_budget(config: StackConfig, quick: QuickVerdict, pool: GpuPool, within: Sequence[Advice]) -> str:
    """The cheapest change that keeps the models as they are, for more than the budget, in words.

    Empty if there is none, or if one `within` the budget keeps them, too.
    """
    if not quick.limits.is_set or any(map(_keeps_models, within)):
        return ""
    unlimited = config.changed(budget=Budget())
    more = advise(unlimited, judge_quickly(unlimited), pool, most=None)
    above = next((each for each in more if _keeps_models(each) and each.is_priced), None)
    # That one may also be within the budget, beyond the few that are offered.
    if above is None or any(map(_keeps_models, advise(config, quick, pool, most=None))):
        return ""
    return f"{above.change} (${above.usd_per_hour:.3f} per hour, ${above.usd_per_month:,.0f} per month)"


def _keeps_models(advice: Advice) -> bool:
    return not any(setting.startswith("models[") for setting in advice.settings)


def _do_not_fit(
    config: StackConfig, quick: QuickVerdict, advice: Mapping[str, tuple[Advice, ...]]
) -> Iterator[Problem]:
    """One error for all models that exceed the same limit by the same amount; a pool's advice is given once."""
    alike: dict[tuple[str, str, str], list[Fit]] = {}
    for fit in quick.misfits:
        alike.setdefault((fit.pool.name, fit.placement.rule, fit.placement.needed), []).append(fit)
    advised: dict[str, str] = {}
    for (pool, bound, size), fits in alike.items():
        # Of limits that do not fit together, one that the file has can be changed.
        first = next((fit for fit in fits if _limit_is_given(fit)), fits[0])
        place = f"{first.served.path}.share.memory-gib" if _limit_is_given(first) else first.served.path
        path = advised.setdefault(pool, place)
        above = _above_the_budget(config, quick, first.pool, advice[pool]) if path == place else ""
        if not advice[pool]:
            within, larger = (" within the budget", ", or raise the budget") if quick.limits.is_set else ("", "")
            fix = (
                f"No other settings or instance type{within} would fit, and a model cannot be split "
                f"across GPUs.{f' Above the budget, this would: {above}.' * bool(above)} Use a smaller model{larger}."
            )
        elif path == place:
            higher = f"; or, above your budget, {above}" * bool(above)
            fix = f"Write {'; or '.join(map(str, advice[pool]))}{higher}."
        else:
            fix = f"Apply the fix for {path}."
        rule = f"{bound} ({first.pool.sharing.mode} on {first.pool.smallest.gpu.title})"
        if _wants_several_gpus(first):
            rule += "; a model runs on one GPU, even if its node has several"
        yield Problem(place, f"{_names(fits)} ({size})", rule, fix)


def _limit_is_given(fit: Fit) -> bool:
    return fit.placement.shares.own_limits and fit.served.given_limit_mib is not None


def _wants_several_gpus(fit: Fit) -> bool:
    """Whether a model is too large for one GPU of a node that has several."""
    return fit.pool.smallest.gpus > 1 and fit.placement.need.bound > fit.placement.unit_mib


def _names(fits: list[Fit]) -> str:
    """The models of an error, e.g. `llama2:7b, mistral:7b and 3 more`."""
    names = list(dict.fromkeys(fit.served.model.name for fit in fits))[:MOST_NAMED]
    more = len(fits) - len(names)
    *others, last = [*names, f"{more} more"] if more else names
    return f"{', '.join(others)} and {last}" if others else last


def _old_prices(config: StackConfig) -> list[Problem]:
    if config.book is None or (days := (config.today - config.book.date).days) <= prices.FRESH_DAYS:
        return []
    fix = f"Run `tandem prices --region {config.book.region}` again."
    return [Problem("--live-prices", f"{days} days", f"is older than {prices.FRESH_DAYS} days", fix)]


def _cheaper(config: StackConfig, quick: QuickVerdict, advice: Mapping[str, tuple[Advice, ...]]) -> list[str]:
    """Changes after which the stack stays within its budget, the cheapest first."""
    if not quick.over_budget:
        return []
    # Where the bill is known, so is the total of each change.
    offered = sorted((each for pool in config.pools for each in advice[pool.name]), key=attrgetter("usd_per_hour"))
    return [str(each) for each in offered[:MOST_CHEAPER]]
