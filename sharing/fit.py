"""Does every model fit its share of the GPU, and if not, which small change would make it fit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sharing import prices
from sharing.gpus import InstanceType, instance_types
from sharing.models import KvType, Need, Served, need
from sharing.modes import Shares, Sharing, every_mode, written
from sharing.setup import ONE_POOL

SHORTEST_CONTEXT = 512
CONTEXT_STEP = 256
"""Shorter contexts are offered in these steps, in tokens, and never below the shortest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one model fits."""

    served: Served
    need: Need
    shares: Shares
    share_mib: int | None
    """Memory that the model has to itself; None where the card's tenants share all of it."""
    card_mib: int
    """Memory of the card that CUDA can use: the bound for all tenants together."""
    crowd_mib: float
    """Need of this model and of the largest neighbours that may land on the same card."""

    @property
    def fits(self) -> bool:
        return (self.share_mib is None or self.need.total <= self.share_mib) and self.crowd_mib <= self.card_mib

    @property
    def rule(self) -> str:
        """The bound that this model breaks, in words."""
        if self.share_mib is not None and self.need.total > self.share_mib:
            return f"must fit its share of {self.share_mib:,} MiB"
        return f"models on one card must fit {self.card_mib:,} MiB together"

    @property
    def found(self) -> str:
        if self.share_mib is not None and self.need.total > self.share_mib:
            return f"needs {self.need.total:,.0f} MiB"
        return f"with its neighbours {self.crowd_mib:,.0f} MiB"


def verdicts(models: Sequence[Served], sharing: Sharing, instance: InstanceType) -> list[Verdict]:
    """One verdict per model, in order.

    A model must fit its share where shares are enforced. All tenants of a card must fit what CUDA can use of it,
    whichever of them the scheduler puts together: MPS's limits add up to NVML's total, which is more than that.
    """
    shares = sharing.shares(instance.gpu)
    needs = [need(served) for served in models]
    found = []
    for index, served in enumerate(models):
        others = sorted((n.total for i, n in enumerate(needs) if i != index), reverse=True)
        crowd = needs[index].total + sum(others[: shares.per_gpu - 1])
        found.append(
            Verdict(
                served=served,
                need=needs[index],
                shares=shares,
                share_mib=shares.memory_mib,
                card_mib=instance.gpu.cuda_mib,
                crowd_mib=crowd,
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a verdict depends on, so that a change of it can be tried."""

    models: tuple[Served, ...]
    sharing: Sharing
    instance: InstanceType
    path: str = ONE_POOL
    """Where the pool stands in the stack file: what to write begins with it."""

    def fitting(self) -> list[bool]:
        """Whether each model fits, in order."""
        return [verdict.fits for verdict in verdicts(self.models, self.sharing, self.instance)]

    def with_model(self, index: int, served: Served) -> "Case":
        models = (*self.models[:index], served, *self.models[index + 1 :])
        return replace(self, models=models)

    def shared(self, sharing: Sharing, key: str) -> "Change":
        """The case under `sharing`, which differs in `key`; a pool of several gets its own, and leaves the others."""
        alone = self.path == ONE_POOL
        text = f"sharing.{key}: {getattr(sharing, key)}" if alone else f"{self.path}.sharing: {written(sharing)}"
        return f"`{text}`", replace(self, sharing=sharing)


Change = tuple[str, Case]
"""What to write, and the case that results."""


def advice(case: Case, index: int, region: str) -> list[str]:
    """The smallest changes after which model `index` fits, each tried before it is told.

    One offer of each kind at most; a change that takes the place from a model that fits is not offered.
    """
    kinds: tuple[Callable[[], Iterator[Change]], ...] = (
        lambda: _fewer_replicas(case),
        lambda: _fewer_slots(case, index),
        lambda: _shorter_context(case, index),
        lambda: _smaller_kv(case, index),
        lambda: _other_mode(case),
        lambda: _bigger_type(case, region),
    )
    before = case.fitting()

    def first_that_fits(changes: Iterator[Change]) -> str | None:
        for text, changed in changes:
            after = changed.fitting()
            if after[index] and all(now or not then for then, now in zip(before, after, strict=True)):
                return text
        return None

    offers = [text for kind in kinds if (text := first_that_fits(kind()))]
    together = None if offers else first_that_fits(_all_at_once(case, index))
    return [*offers, together] if together else offers


def _fewer_replicas(case: Case) -> Iterator[Change]:
    replicas = case.sharing.replicas or 1
    for fewer in range(replicas - 1, max(2, len(case.models)) - 1, -1):
        sharing = case.sharing.model_copy(update={"replicas": fewer})
        yield case.shared(sharing, "replicas")


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
    least, told = replace(asked, slots=1, kv_type=kv_type), f"`slots: 1` with `kv-type: {kv_type}`"
    yield told, case.with_model(index, least)
    for text, changed in _shorter_context(case.with_model(index, least), index):
        yield f"{told} and {text}", changed


def _other_mode(case: Case) -> Iterator[Change]:
    """Other modes with as many shares: not exclusive, which would need more cards."""
    for sharing in every_mode(case.sharing):
        shares = sharing.shares(case.instance.gpu)
        if sharing.mode != case.sharing.mode and shares.per_gpu > 1 and not sharing.check(case.instance.gpu):
            yield case.shared(sharing, "mode")


def _bigger_type(case: Case, region: str) -> Iterator[Change]:
    """Types of the same architecture with more memory on each of as many cards, cheapest first."""
    bigger = [
        candidate
        for candidate in instance_types().values()
        if candidate.gpu.vendor == case.instance.gpu.vendor
        and candidate.arch == case.instance.arch
        and candidate.gpus >= case.instance.gpus
        and candidate.gpu.cuda_mib > case.instance.gpu.cuda_mib
        and not candidate.gpu.min_driver
    ]
    for candidate in sorted(bigger, key=lambda c: (prices.on_demand(c.name, region).usd_per_hour, c.name)):
        yield f"`{case.path}.instance-types: [{candidate.name}]`", replace(case, instance=candidate)
