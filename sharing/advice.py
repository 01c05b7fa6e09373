"""Which small change would make a model fit: each is tried before it is told."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from sharing import layouts, mig, prices
from sharing.fit import verdicts
from sharing.gpus import Gpu, InstanceType, instance_types
from sharing.layouts import Strategy
from sharing.models import KvType, Served
from sharing.modes import Mig, Sharing, every_mode, written
from sharing.offerings import offered
from sharing.setup import ONE_POOL

SHORTEST_CONTEXT = 512
CONTEXT_STEP = 256
"""Shorter contexts are offered in these steps, in tokens, and never below the shortest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a verdict depends on, so that a change of it can be tried."""

    models: tuple[Served, ...]
    sharing: Sharing
    instance: InstanceType
    nodes: int = 1
    path: str = ONE_POOL
    """Where the pool stands in the stack file: what to write begins with it."""

    def fitting(self) -> list[bool]:
        """Whether each model fits, in order."""
        return [verdict.fits for verdict in verdicts(self.models, self.sharing, self.instance, self.nodes)]

    @property
    def shares(self) -> int:
        """Shares of all kinds on all cards."""
        each = sum(kind.per_gpu for kind in self.sharing.offers(self.instance.gpu))
        return self.nodes * self.instance.gpus * each

    def with_model(self, index: int, served: Served) -> "Case":
        models = (*self.models[:index], served, *self.models[index + 1 :])
        return replace(self, models=models)

    def shared(self, sharing: Sharing, *settings: str) -> "Change":
        """The case under `sharing`, to be had by `settings`."""
        return _told(*self.own(sharing, *settings)), replace(self, sharing=sharing)

    def own(self, sharing: Sharing, *settings: str) -> tuple[str, ...]:
        """`settings`, or for a pool of several a `sharing` of its own, which leaves the others theirs."""
        return settings if self.path == ONE_POOL else (f"`{self.path}.sharing: {written(sharing)}`",)


Change = tuple[str, Case]
"""What to write, and the case that results."""


def advice(case: Case, index: int, region: str) -> list[str]:
    """The smallest changes after which model `index` fits, each tried before it is told.

    One offer of each kind at most; a change that takes the place from a model that fits, or has no share for one that
    has one now, is not offered.
    """
    kinds: tuple[Callable[[], Iterator[Change]], ...] = (
        lambda: _fewer_replicas(case),
        lambda: _other_layout(case),
        lambda: _fewer_slots(case, index),
        lambda: _shorter_context(case, index),
        lambda: _smaller_kv(case, index),
        lambda: _other_mode(case),
        lambda: _other_type(case, region),
    )
    before, wanted = case.fitting(), min(len(case.models), case.shares)

    def first_that_fits(changes: Iterator[Change]) -> str | None:
        for text, changed in changes:
            if changed.shares < wanted:
                continue
            after = changed.fitting()
            if after[index] and all(now or not then for then, now in zip(before, after, strict=True)):
                return text
        return None

    offers = [text for kind in kinds if (text := first_that_fits(kind()))]
    together = None if offers else first_that_fits(_all_at_once(case, index))
    return [*offers, together] if together else offers


def _fewer_replicas(case: Case) -> Iterator[Change]:
    replicas = case.sharing.replicas or 1
    for fewer in range(replicas - 1, 1, -1):
        sharing = case.sharing.model_copy(update={"replicas": fewer})
        yield case.shared(sharing, f"`sharing.replicas: {fewer}`")
    if isinstance(case.sharing, Mig) and replicas > 1:
        yield case.shared(case.sharing.model_copy(update={"replicas": None}), "`sharing.replicas: null`")


def _fewer_slots(case: Case, index: int) -> Iterator[Change]:
    served = case.models[index]
    for slots in range(served.slots - 1, 0, -1):
        yield f"`slots: {slots}`", case.with_model(index, replace(served, slots=slots))


def _shorter_context(case: Case, index: int) -> Iterator[Change]:
    served = case.models[index]
    longest = (served.effective_context - 1) // CONTEXT_STEP * CONTEXT_STEP
    for context in range(longest, SHORTEST_CONTEXT - 1, -CONTEXT_STEP):
        yield f"`context: {context}`", case.with_model(index, replace(served, context=context))


def _smaller_kv(case: Case, index: int) -> Iterator[Change]:
    served = case.models[index]
    if served.kv_type is KvType.F16:
        yield "`kv-type: q8_0`", case.with_model(index, replace(served, kv_type=KvType.Q8_0))


def _all_at_once(case: Case, index: int) -> Iterator[Change]:
    asked = case.models[index]
    kv_type = KvType.Q8_0 if asked.kv_type is KvType.F16 else asked.kv_type
    least, settings = replace(asked, slots=1, kv_type=kv_type), ("`slots: 1`", f"`kv-type: {kv_type}`")
    yield _told(*settings), case.with_model(index, least)
    for shorter, changed in _shorter_context(case.with_model(index, least), index):
        yield _told(*settings, shorter), changed


def _other_mode(case: Case) -> Iterator[Change]:
    for sharing in every_mode(case.sharing):
        if sharing.mode != case.sharing.mode and not sharing.check(case.instance.gpu):
            yield case.shared(sharing, f"`sharing.mode: {sharing.mode}`")


def _other_layout(case: Case) -> Iterator[Change]:
    """Other slices of the same card."""
    if isinstance(case.sharing, Mig):
        for settings, sharing in _cuts(case.sharing, case.instance.gpu):
            yield case.shared(sharing, *settings)


def _cuts(sharing: Mig, gpu: Gpu) -> Iterator[tuple[list[str], Mig]]:
    """The layouts that `gpu` may have, the most slices first, with the settings to write for each."""
    presets = {mig.name(layout): preset for preset, layout in mig.presets(gpu).items()}
    for layout in mig.layouts(gpu):
        preset = presets.get(mig.name(layout))
        setting = preset or [layouts.Slices(profile=profile.name, count=count) for profile, count in layout]
        settings = [f"`sharing.layout: {preset or layouts.written(layout)}`"]
        strategy: Strategy = "mixed" if len(layout) > 1 else sharing.strategy
        if strategy != sharing.strategy:
            settings.append("`sharing.strategy: mixed`")
        yield settings, sharing.model_copy(update={"layout": setting, "strategy": strategy})


def _told(first: str, *more: str) -> str:
    return f"{first} with {' and '.join(more)}" if more else first


def _other_type(case: Case, region: str) -> Iterator[Change]:
    """Types of the same architecture with as many cards, cheapest first: with more memory on each, or other slices."""
    for candidate in _by_price(_alike(case), region):
        setting = f"`{case.path}.instance-types: [{candidate.name}]`"
        moved = replace(case, instance=candidate)
        if not case.sharing.check(candidate.gpu):
            yield setting, moved
        if isinstance(case.sharing, Mig):
            for settings, sharing in _cuts(case.sharing, candidate.gpu):
                yield _told(setting, *moved.own(sharing, *settings)), replace(moved, sharing=sharing)


def _by_price(types: Iterable[InstanceType], region: str) -> list[InstanceType]:
    here = [each for each in types if offered(each.name, region) != "no"]
    return sorted(here, key=lambda each: (prices.on_demand(each.name, region).usd_per_hour, each.name))


def _alike(case: Case) -> Iterator[InstanceType]:
    here, is_cut = case.instance, case.sharing.needs_mig_manager
    for candidate in instance_types().values():
        gpu = candidate.gpu
        is_alike = gpu.vendor == here.gpu.vendor and candidate.arch == here.arch and candidate.gpus >= here.gpus
        is_more = gpu.cuda_mib > here.gpu.cuda_mib or (is_cut and gpu != here.gpu)
        if is_alike and is_more and not gpu.min_driver:
            yield candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A type that holds models in MIG."""

    instance_type: str
    layout: str
    """What to write as `sharing.layout`."""
    usd_per_hour: float
    """On demand, one node."""


def in_mig(models: tuple[Served, ...], region: str, most: int = 3) -> list[Choice]:
    """The cheapest type of each card one node of which holds `models` in MIG, a slice each, with a layout that does."""
    found: list[Choice] = []
    cards: set[str] = set()
    known = [each for each in instance_types().values() if mig.profiles(each.gpu) and not each.gpu.min_driver]
    for candidate in _by_price(known, region):
        if candidate.gpu.name in cards:
            continue
        if sharing := slices_for(models, candidate):
            usd = prices.on_demand(candidate.name, region).usd_per_hour
            found.append(Choice(instance_type=candidate.name, layout=_setting(sharing), usd_per_hour=usd))
            cards.add(candidate.gpu.name)
        if len(found) == most:
            break
    return found


def slices_for(models: tuple[Served, ...], instance: InstanceType, strategy: Strategy = "mixed") -> Mig | None:
    """The layout under which one node of `instance` holds `models`, a slice each; None where there is none.

    The one that leaves the fewest kinds of slices idle, of these the one with the most slices.
    """
    holding: list[tuple[int, Mig]] = []
    for _, sharing in _cuts(Mig(strategy=strategy), instance.gpu):
        case = Case(models=models, sharing=sharing, instance=instance)
        if sharing.strategy == strategy and case.shares >= len(models) and all(case.fitting()):
            used = {verdict.shares.profile for verdict in verdicts(models, sharing, instance)}
            idle = sum(shares.profile not in used for shares in sharing.offers(instance.gpu))
            holding.append((idle, sharing))
    return min(holding, key=lambda pair: pair[0], default=(0, None))[1]


def _setting(sharing: Mig) -> str:
    """Its layout as it stands in a stack file."""
    if isinstance(sharing.layout, list):
        return f"[{', '.join(f'{{profile: {each.profile}, count: {each.count}}}' for each in sharing.layout)}]"
    return str(sharing.layout)
