"""Judges whether every model fits its share of the GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sharing.fit.memory import Need, need
from sharing.fit.own_limits import own_limits
from sharing.hardware.gpus import InstanceType
from sharing.models.served import ServedModel
from sharing.modes.base import Shares
from sharing.modes.modes import Sharing
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The share that one model gets, and whether the model fits it."""

    need: Need
    shares: Shares
    """The kind of share that it gets; the nearest kind where none is left."""
    crowd_mib: float
    """Need of this model and of the largest neighbours that may be placed on the same GPU or slice; with limits per
    model, these limits.
    """
    is_left: bool
    """Whether a share of that kind is left for it."""

    @property
    def share_mib(self) -> int | None:
        """Memory that the model has to itself; None if tenants share all memory of a GPU or slice."""
        return self.shares.memory_mib

    @property
    def unit_mib(self) -> int:
        """Memory of the GPU or slice that CUDA can use: the limit for all of its tenants in total."""
        return self.shares.unit_mib

    @property
    def fits(self) -> bool:
        return self.is_left and not self._is_too_large and self.crowd_mib <= self.unit_mib

    @property
    def _is_too_large(self) -> bool:
        return self.need.bound > (self.unit_mib if self.share_mib is None else self.share_mib)

    @property
    def room(self) -> float:
        """MiB that remain before the model or one of its neighbours does not fit; negative if one does not."""
        total = self.unit_mib - self.crowd_mib
        if self.share_mib is None:
            return total
        own = self.share_mib - self.need.bound
        # Limits of their own divide all memory between the models, so only those that are too large leave less.
        return own if self.shares.own_limits and total >= 0 else min(total, own)

    @property
    def rule(self) -> str:
        """The limit that this model breaks, as a sentence without its subject."""
        profile, unit = self.shares.profile, "slice" if self.shares.profile else "GPU"
        if self.share_mib is not None and self._is_too_large:
            return f"cannot fit {f'a slice {profile}' if profile else 'its share'} of {self.share_mib:,} MiB"
        if not self.is_left:
            return f"cannot have a slice {profile} or larger: none is left"
        return f"cannot fit one {unit}{f' {profile}' if profile else ''} with {self.unit_mib:,} MiB"

    @property
    def needed(self) -> str:
        """The memory that does not fit."""
        if not self.is_left or (self.share_mib is not None and self._is_too_large):
            return f"{self.need.bound:,.0f} MiB with its margin"
        return f"{'limits of ' * self.shares.own_limits}{self.crowd_mib:,.0f} MiB in total"


def limits_on_one_gpu(config: StackConfig, pool: GpuPool) -> list[int]:
    """The largest limits that may meet on one GPU, where each model has its own; empty for other modes."""
    own = [placement.shares for placement in place_models(config, pool) if placement.shares.own_limits]
    limits = [shares.memory_mib for shares in own if shares.memory_mib is not None]
    return sorted(limits, reverse=True)[: pool.offers[0].sharers]


def place_models(config: StackConfig, pool: GpuPool) -> list[Placement]:
    """How the models of `pool` fit it, in their order; with their guests, unless that does not fit."""
    alone = _place(pool, config.models_of(pool))
    together = _place(pool, config.residents_of(pool)) if config.guests_of(pool) else []
    return together[: len(alone)] if together and all(placement.fits for placement in together) else alone


def place_guests(config: StackConfig, pool: GpuPool) -> list[tuple[ServedModel, Placement]]:
    """How the models that may spill to `pool` fit it together with its own; none if its own do not fit.

    The largest combination of models that contains a guest is in that guest's placement. So where all guests fit, the
    pool's own models still fit, too.
    """
    own, guests = config.models_of(pool), config.guests_of(pool)
    if not guests or not all(placement.fits for placement in _place(pool, own)):
        return []
    return [*zip(guests, _place(pool, [*own, *guests])[len(own) :], strict=True)]


def _place(pool: GpuPool, tenants: Sequence[ServedModel]) -> list[Placement]:
    return place_on(tenants, pool.sharing, pool.smallest, pool.planned_nodes)


def place_on(models: Sequence[ServedModel], sharing: Sharing, instance: InstanceType, nodes: int) -> list[Placement]:
    """One placement per model, in order; `sharing` must be one that `instance` can have.

    Where shares are enforced, a model must fit its share. All tenants of a GPU, or of a slice that is shared again,
    must also fit the memory that CUDA can use, in any combination that the scheduler may choose: MPS's limits add up to
    NVML's total, which is more than that.
    """
    needs = [need(served, instance.gpu) for served in models]
    kinds = sharing.offers(instance.gpu)
    taken = [each.bound for each in needs]
    if kinds[0].own_limits:
        taken = own_limits(models, needs, kinds[0])
    given = _given(taken, kinds, nodes * instance.gpus)
    tenants: dict[Shares, list[float]] = {kind: [] for kind in kinds}
    for own, (kind, is_left) in zip(taken, given, strict=True):
        if is_left:
            tenants[kind].append(own)
    largest = {kind: sorted(sizes, reverse=True)[: kind.sharers] for kind, sizes in tenants.items()}
    placements = []
    for served, each, own, (kind, is_left) in zip(models, needs, taken, given, strict=True):
        shares = kind
        if kind.own_limits:
            shares = replace(kind, memory_mib=int(own), threads=served.share.threads if served.share else 1.0)
        placements.append(
            Placement(
                need=each,
                shares=shares,
                crowd_mib=_crowd(own, largest[kind], kind, is_tenant=is_left),
                is_left=is_left,
            )
        )
    return placements


def _crowd(own: float, largest: Sequence[float], kind: Shares, *, is_tenant: bool) -> float:
    """`own` and its largest neighbours in total. `largest` has as many as can share a unit, with `own` if it is one."""
    if is_tenant and own >= largest[-1]:
        return sum(largest)
    return own + sum(largest[: kind.sharers - 1])


def _given(needs: Sequence[float], kinds: Sequence[Shares], gpus: int) -> list[tuple[Shares, bool]]:
    """The kind of share for each model, and whether one was left: the largest models choose first.

    A model with a slice of its own takes the largest free one. This is optimal: models that fit at all also fit in the
    order of their sizes. Models that take turns on a slice get the smallest that holds them, because fewer of them meet
    there. With one kind there is no choice, and another rule checks that there are enough.
    """
    if len(kinds) == 1:
        return [(kinds[0], True)] * len(needs)
    given: dict[int, tuple[Shares, bool]] = {}
    tenants: dict[Shares, list[float]] = {kind: [] for kind in kinds}
    for index in sorted(range(len(needs)), key=lambda i: -needs[i]):
        own = needs[index]
        possible = [kind for kind in kinds if own <= kind.unit_mib] or [kinds[-1]]
        free = [kind for kind in possible if len(tenants[kind]) < kind.per_gpu * gpus]
        quiet = [kind for kind in free if sum([*tenants[kind], own][: kind.sharers]) <= kind.unit_mib]
        kind = (quiet or free or possible)[-1 if free and kinds[0].sharers == 1 else 0]
        given[index] = kind, bool(free)
        if free:
            tenants[kind].append(own)
    return [given[index] for index in range(len(needs))]
