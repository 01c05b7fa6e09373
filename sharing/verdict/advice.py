"""Changes that make a refused stack valid: each is tried before it is offered, the cheapest first."""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sharing.cost.bill import cost, pool_usd, unpriced
from sharing.fit.memory import need
from sharing.fit.own_limits import with_largest_limit, with_needed_limit
from sharing.fit.shares import place_models
from sharing.fit.slices import each_layout
from sharing.hardware import offerings
from sharing.hardware.gpus import Gpu, instance_types
from sharing.models.catalogue import KvType
from sharing.models.served import ServedModel
from sharing.modes.base import PER_MODEL
from sharing.modes.modes import MPS_PER_MODEL, Exclusive, Mig, Mps, Sharing, TimeSlicing, every_mode
from sharing.problems import Problem
from sharing.sections.changes import MOST_SINGLE, Advice, changed_settings, with_room
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.verdict.quick import QuickVerdict, is_judgeable, price
from sharing.verdict.rules import budget, hosts, table
from sharing.verdict.rules.rule import concerns

SHORTEST_CONTEXT = 512
CONTEXT_STEP = 256
"""Shorter contexts are offered in these steps, in tokens, and never below the shortest."""
SMALLER_BATCHES = (1024, 512)
"""Below 512 a batch saves next to nothing and reads prompts much more slowly."""
MOST_OFFERED = 4
Price = tuple[bool, float]
Models = dict[int, ServedModel]
"""Models by their place in the stack file."""


def advise(config: StackConfig, verdict: QuickVerdict, pool: GpuPool, most: int | None = MOST_OFFERED) -> list[Advice]:
    """Changes of `pool`, or of its models, after which nothing refuses them: the cheapest first, one of each kind.

    `verdict` is that on `config`. Several settings of a model are changed at once only where nothing else helps.
    """
    search = _Search(asked=config, verdict=verdict, start=_accepted_caches(config, pool), pool=pool)
    accepted = search.accepted(_kinds(search))
    accepted += search.accepted([_cheaper_type_and_mode(search, min(map(search.price, accepted), default=None))])
    offers = search.offers(accepted or search.accepted([_all_at_once(search)]))
    return offers[:most]


@dataclass(frozen=True, kw_only=True)
class _Search:
    """A pool of a refused stack, and the checks that a change must pass."""

    asked: StackConfig
    verdict: QuickVerdict
    """That on it."""
    start: StackConfig
    """The stack that is changed further: the one that was asked for, with the changes that all others need."""
    pool: GpuPool

    @cached_property
    def failing(self) -> Models:
        """The models of the pool that do not fit, the largest first."""
        misfits = [fit for fit in self.verdict.fits if fit.pool.name == self.pool.name and not fit.placement.fits]
        misfits.sort(key=lambda fit: -fit.placement.need.total)
        return {fit.served.index: self.start.models[fit.served.index] for fit in misfits}

    @cached_property
    def _others(self) -> set[Problem]:
        """Errors that no change of the pool can mend."""
        return {problem for problem in self.verdict.broken if not concerns(problem, self.pool, self.asked)}

    @cached_property
    def _doubts_before(self) -> set[str]:
        return {warning.rule for warning in table.warnings(self.asked)}

    @cached_property
    def _needs(self) -> dict[Gpu, float]:
        """MiB that all models of the pool need, by GPU."""
        return {}

    def accepted(self, kinds: Iterable[Iterator[StackConfig]]) -> list[StackConfig]:
        """The first accepted change of each kind."""
        return [tried for kind in kinds if (tried := next(filter(self._accepts, kind), None))]

    def offers(self, accepted: Iterable[StackConfig]) -> list[Advice]:
        """The changes sorted by price, then by the number of new warnings."""
        ranked = sorted(accepted, key=lambda tried: (self.price(tried), self._loses_limits(tried), self._doubts(tried)))
        return list({advice.settings: advice for advice in map(self._advice, ranked)}.values())

    def holds(self, tried: StackConfig) -> bool:
        """Whether all models of the pool fit."""
        new = self._new(tried)
        if not is_judgeable(new) or (tried.models is self.start.models and self._lacks_memory(new)):
            return False
        return all(placement.fits for placement in place_models(tried, new))

    def _lacks_memory(self, pool: GpuPool) -> bool:
        """Whether the GPUs of the pool have less memory in total than its models need: faster than judging each."""
        gpu = pool.smallest.gpu
        if gpu not in self._needs:
            self._needs[gpu] = sum(need(served, gpu).bound for served in self.start.models_of(pool))
        return self._needs[gpu] > pool.planned_gpus * gpu.nvml_mib

    def groups(self) -> Iterator[Models]:
        """The models to change: each of the largest that fail, then all that fail."""
        for index, served in [*self.failing.items()][:MOST_SINGLE]:
            yield {index: served}
        if len(self.failing) > 1:
            yield self.failing

    def with_pool(self, pool: GpuPool, *, exact: bool = True) -> StackConfig:
        """The stack with `pool` instead of the old one, with the disk and the nodes that its models need."""
        return self.start.with_pool(with_room(pool, self.start, exact=exact))

    def with_models(self, changed: Models) -> StackConfig:
        """The stack with these models instead of the old ones."""
        models = [changed.get(served.index, served) for served in self.start.models]
        return self.with_pool(self.pool, exact=False).changed(models=models)

    def starting_with(self, changed: Models) -> "_Search":
        """The same search from a stack in which these models are changed already."""
        return replace(self, start=self.with_models(changed))

    def cheapest_first(self, pools: Iterable[GpuPool]) -> Iterator[StackConfig]:
        """The stacks with each of these pools."""
        tried = [self.with_pool(pool) for pool in pools if pool.offers]
        tried.sort(key=lambda each: (self.price(each), self._loses_limits(each)))
        return iter(tried)

    def _accepts(self, tried: StackConfig) -> bool:
        if tried == self.asked or not self.holds(tried):
            return False
        if any(problem not in self._others for problem in table.refusals(tried)):
            return False
        if not budget.limits_of(tried).is_set:
            return True
        priced = price(tried)
        # A change must not turn a checked budget into an unchecked one.
        return not priced.over_budget and (priced.budget_is_open <= self.verdict.budget_is_open)

    def _new(self, tried: StackConfig) -> GpuPool:
        return next(each for each in tried.pools if each.name == self.pool.name)

    def _usd(self, tried: StackConfig) -> float:
        return pool_usd(self._new(tried), tried)

    def price(self, tried: StackConfig) -> Price:
        """Sort key: known prices first, then the lower price."""
        return not self._is_priced(tried), round(self._usd(tried), 6)

    def _is_priced(self, tried: StackConfig) -> bool:
        return not unpriced(tried, self._new(tried))

    def _doubts(self, tried: StackConfig) -> int:
        return len({each.rule for each in table.warnings(tried)} - self._doubts_before)

    def _advice(self, tried: StackConfig) -> Advice:
        bill = cost(tried) if self.verdict.cost else None
        return Advice(
            settings=changed_settings(self.asked, tried),
            usd_per_hour=bill.usd_per_hour if bill else None,
            usd_per_month=bill.usd_per_month if bill else None,
            is_priced=self._is_priced(tried),
            loses_limits=self._loses_limits(tried),
        )

    def _loses_limits(self, tried: StackConfig) -> bool:
        return self.pool.sharing.limits == PER_MODEL and not self._new(tried).offers[0].enforced


def _accepted_caches(config: StackConfig, pool: GpuPool) -> StackConfig:
    """The stack without quantized caches that the engine refuses for models of `pool`: every change needs this."""
    refused = [each for each in config.models_of(pool) if not each.model.can_quantize_kv]
    f16 = {each.index: each.changed(kv_type=KvType.F16) for each in refused}
    return config.changed(models=[f16.get(each.index, each) for each in config.models])


def _kinds(search: _Search) -> Iterator[Iterator[StackConfig]]:
    """The kinds of changes, the least invasive first: among equally cheap ones it is offered first."""
    yield iter([search.with_pool(search.pool)])
    yield _fewer_replicas(search)
    yield _needed_limits(search)
    yield _limits_per_model(search)
    yield _other_layout(search)
    yield _smaller_prompt_caches(search)
    if search.failing:
        yield _fewer_slots(search)
        yield _smaller_batch(search)
        yield _shorter_context(search)
        yield _smaller_kv(search)
    for sharing in every_mode(search.pool.sharing, search.start.compared_modes):
        if sharing.mode != search.pool.sharing.mode:
            yield _other_mode(search, sharing)
    yield _other_type(search)
    yield _cheaper_capacity(search)


def _fewer_replicas(search: _Search) -> Iterator[StackConfig]:
    old = search.pool.sharing
    if isinstance(old, Exclusive) or not old.replicas:
        return iter(())
    fewer = [*range(old.replicas - 1, 1, -1), *([None] if isinstance(old, Mig) else [])]
    return search.cheapest_first(_shared(search.pool, old.model_copy(update={"replicas": each})) for each in fewer)


def _needed_limits(search: _Search) -> Iterator[StackConfig]:
    """Limits of the file that are too small become as large as the model needs, and one that is too large as small as
    the others allow; else all become as large as needed.
    """
    pool, models = search.pool, search.start.models_of(search.pool)
    given = {place: mib for place, each in enumerate(models) if (mib := each.given_limit_mib)}
    if not given or not pool.sharing.needs_node_daemon:
        return
    needs = [need(each, pool.smallest.gpu) for each in models]
    enough = [*models]
    for place, mib in given.items():
        if needs[place].bound > mib:
            enough[place] = with_needed_limit(models[place], needs[place].bound)
    yield search.with_models({each.index: each for each in enough})
    for place in sorted(given, key=lambda place: needs[place].bound - (enough[place].given_limit_mib or 0)):
        less = with_largest_limit(place, enough, needs, pool.offers[0])
        yield search.with_models({each.index: each for each in (*enough, less)})
    least = [with_needed_limit(models[place], needs[place].bound) for place in given]
    yield search.with_models({each.index: each for each in least})


def _limits_per_model(search: _Search) -> Iterator[StackConfig]:
    """Limits that fit each model, where equal ones do not."""
    yield from (search.with_pool(_shared(search.pool, sharing)) for sharing in _per_model(search))


def _per_model(search: _Search) -> list[Sharing]:
    """The settings of MPS with limits per model instead of equal ones."""
    old = search.pool.sharing
    is_compared = MPS_PER_MODEL in search.start.compared_modes
    return [] if is_compared or not isinstance(old, Mps) else [old.model_copy(update={"limits": PER_MODEL})]


def _other_layout(search: _Search) -> Iterator[StackConfig]:
    """Other slices of the same GPU."""
    pool, old = search.pool, search.pool.sharing
    if not isinstance(old, Mig):
        return iter(())
    return search.cheapest_first(_shared(pool, sharing) for sharing in each_layout(old, pool.smallest.gpu))


def _smaller_prompt_caches(search: _Search) -> Iterator[StackConfig]:
    """Smaller prompt caches where the node lacks RAM for all models: the largest ones that fit."""
    config, pool = search.start, search.pool
    if not any(hosts.cpu_and_ram(config)):
        return
    mib = hosts.fitting_cache(config, pool, pool.known_types)
    if mib is not None:
        meeting = {served.index: served for served in config.residents_of(pool)}
        yield search.with_models({index: hosts.with_cache(served, mib) for index, served in meeting.items()})


def _fewer_slots(search: _Search) -> Iterator[StackConfig]:
    def limited(served: ServedModel, most: int) -> ServedModel:
        return served.changed(slots=min(served.slots, most))

    for asked in search.groups():
        most = max(served.slots for served in asked.values())
        yield from _limited(search, asked, limited, range(1, most))


def _shorter_context(search: _Search) -> Iterator[StackConfig]:
    for asked in search.groups():
        yield from _shorter(search, asked)


def _shorter(search: _Search, asked: Models) -> Iterator[StackConfig]:
    def limited(served: ServedModel, most: int) -> ServedModel:
        return served.changed(context=most) if served.effective_context > most else served

    longest = max(served.effective_context for served in asked.values())
    return _limited(search, asked, limited, range(SHORTEST_CONTEXT, longest, CONTEXT_STEP))


def _limited(
    search: _Search, asked: Models, limited: Callable[[ServedModel, int], ServedModel], limits: Sequence[int]
) -> Iterator[StackConfig]:
    """The stack under the largest of `limits` with which all models fit; empty if none of them helps."""

    def tried(limit: int) -> StackConfig:
        return search.with_models({index: limited(served, limit) for index, served in asked.items()})

    # If a limit helps, every lower one does, too.
    helping = bisect_left(limits, True, key=lambda limit: not search.holds(tried(limit)))
    if helping:
        yield tried(limits[helping - 1])


def _smaller_batch(search: _Search) -> Iterator[StackConfig]:
    """Fewer tokens per step; not for an embedding model, whose texts must fit one step."""
    for asked in search.groups():
        larger = {
            index: served
            for index, served in asked.items()
            if served.effective_batch > SMALLER_BATCHES[-1] and not served.model.encoder
        }
        for batch in SMALLER_BATCHES if larger else ():
            yield search.with_models(
                {index: served.changed(batch=min(served.effective_batch, batch)) for index, served in larger.items()}
            )


def _smaller_kv(search: _Search) -> Iterator[StackConfig]:
    for asked in search.groups():
        if any(_quantized(served) != served for served in asked.values()):
            yield search.with_models({index: _quantized(served) for index, served in asked.items()})


def _quantized(served: ServedModel) -> ServedModel:
    can = served.kv_type is KvType.F16 and served.model.can_quantize_kv
    return served.changed(kv_type=KvType.Q8_0) if can else served


def _all_at_once(search: _Search) -> Iterator[StackConfig]:
    """One slot and a quantized cache for all models that fail; then also a shorter context, or another type."""
    least = {index: _quantized(served.changed(slots=1)) for index, served in search.failing.items()}
    if least:
        yield search.with_models(least)
        yield from _shorter(search, least)
        yield from _other_type(search.starting_with(least))


def _other_mode(search: _Search, sharing: Sharing) -> Iterator[StackConfig]:
    return search.cheapest_first(_in_mode(search, search.pool, sharing))


def _in_mode(search: _Search, pool: GpuPool, sharing: Sharing) -> Iterator[GpuPool]:
    """`pool` in another mode, with shares for all models on one node or on several."""
    yield _shared(pool, sharing)
    if isinstance(sharing, Mig):
        yield from (_shared(pool, each) for each in each_layout(sharing, pool.smallest.gpu))
    elif isinstance(sharing, TimeSlicing | Mps):
        all_on_one = max(-(-len(search.start.models_of(pool)) // pool.smallest.gpus), 2)
        yield _shared(pool, sharing.model_copy(update={"replicas": all_on_one}))


def _other_type(search: _Search) -> Iterator[StackConfig]:
    """Another instance type, with more or fewer GPUs; with MIG, also other slices."""
    pools = []
    for moved in _moved(search):
        pools.append(moved)
        if isinstance(moved.sharing, Mig):
            pools += [_shared(moved, sharing) for sharing in each_layout(moved.sharing, moved.smallest.gpu)]
    return search.cheapest_first(pools)


def _moved(search: _Search) -> Iterator[GpuPool]:
    """The pool on each instance type that the region may offer."""
    pool, config = search.pool, search.start
    for name in instance_types():
        # `check-offers: false` is meant for the types that the pool already has.
        if name in pool.instance_types or offerings.offered(name, config.region, config.book) != "no":
            yield pool.changed(instance_types=[name])


def _cheaper_type_and_mode(search: _Search, best: Price | None) -> Iterator[StackConfig]:
    """Another type combined with another mode or fewer nodes, below the price of the best single change.

    MIG is left out: a GPU whose slices hold the models also holds them with time-slicing.
    """
    pools = [
        shared
        for moved in _moved(search)
        if best is None or search.price(_with_one_node(search, moved)) < best
        # At the same price, limits per model before a mode without any.
        for sharing in (*_per_model(search), *every_mode(search.pool.sharing, search.start.compared_modes))
        if not isinstance(sharing, Mig)
        for shared in _in_mode(search, moved, sharing)
    ]
    return itertools.takewhile(lambda tried: best is None or search.price(tried) < best, search.cheapest_first(pools))


def _with_one_node(search: _Search, pool: GpuPool) -> StackConfig:
    """The pool alone, at its lowest possible cost."""
    return search.start.changed(pools=[pool.changed(desired=min(pool.desired, 1), max=1)])


def _cheaper_capacity(search: _Search) -> Iterator[StackConfig]:
    """Spot capacity without fallback. It helps only against a budget."""
    pool = search.pool
    if pool.capacity == "on-demand" or pool.on_demand_fallback:
        yield search.with_pool(pool.changed(capacity="spot", on_demand_fallback=False))


def _shared(pool: GpuPool, sharing: Sharing) -> GpuPool:
    """The pool with a sharing of its own, so that other pools keep theirs."""
    return pool.changed(own_sharing=sharing)
