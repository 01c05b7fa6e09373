"""Does every model fit its share of the GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from sharing.gpus import InstanceType
from sharing.memory import Need, need
from sharing.models import Served
from sharing.modes import Shares, Sharing
from sharing.setup import Pool, Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one model fits."""

    served: Served
    need: Need
    shares: Shares
    """The kind of share that it gets; the nearest one where none is left."""
    share_mib: int | None
    """Memory that the model has to itself; None where tenants of a card or slice share all of it."""
    card_mib: int
    """Memory of the card or slice that CUDA can use: the bound for all tenants together."""
    crowd_mib: float
    """Need of this model and of the largest neighbours that may land on the same card or slice."""
    is_left: bool = True
    """Whether a share of that kind is left for it."""

    @property
    def fits(self) -> bool:
        return self.is_left and not self._is_too_large and self.crowd_mib <= self.card_mib

    @property
    def _is_too_large(self) -> bool:
        return self.need.bound > (self.card_mib if self.share_mib is None else self.share_mib)

    @property
    def room(self) -> float:
        """MiB that the model and its neighbours may still take before one of them does not fit; less than 0 if none."""
        together = self.card_mib - self.crowd_mib
        return together if self.share_mib is None else min(together, self.share_mib - self.need.bound)

    @property
    def rule(self) -> str:
        """The bound that this model breaks, in words."""
        profile, unit = self.shares.profile, "slice" if self.shares.profile else "GPU"
        if self.share_mib is not None and self._is_too_large:
            return f"must fit {f'a slice {profile}' if profile else 'its share'} of {self.share_mib:,} MiB"
        if not self.is_left:
            return f"no slice {profile} or larger is left"
        return f"the models on one {unit}{f' {profile}' if profile else ''} together must fit {self.card_mib:,} MiB"

    @property
    def found(self) -> str:
        if not self.is_left or (self.share_mib is not None and self._is_too_large):
            return f"needs {self.need.bound:,.0f} MiB with its margin"
        return f"together {self.crowd_mib:,.0f} MiB"


def judge_models(setup: Setup, pool: Pool) -> list[Verdict]:
    """How the models of `pool` fit it, in their order."""
    models = [tenant.served for tenant in setup.tenants_of(pool)]
    return verdicts(models, pool.sharing, pool.smallest, pool.planned_nodes)


def verdicts(models: Sequence[Served], sharing: Sharing, instance: InstanceType, nodes: int = 1) -> list[Verdict]:
    """One verdict per model, in order; `sharing` must be one that `instance` can have.

    A model must fit its share where shares are enforced. All tenants of a card must fit what CUDA can use of it,
    whichever of them the scheduler puts together: MPS's limits add up to NVML's total, which is more than that. So must
    those who take turns on a slice.
    """
    needs = [need(served, instance.gpu) for served in models]
    kinds = sharing.offers(instance.gpu)
    given = _given([each.bound for each in needs], kinds, nodes * instance.gpus)
    tenants: dict[Shares, list[float]] = {kind: [] for kind in kinds}
    for each, (kind, is_left) in zip(needs, given, strict=True):
        if is_left:
            tenants[kind].append(each.bound)
    largest = {kind: sorted(bounds, reverse=True)[: kind.sharers] for kind, bounds in tenants.items()}
    found = []
    for index, served in enumerate(models):
        kind, is_left = given[index]
        found.append(
            Verdict(
                served=served,
                need=needs[index],
                shares=kind,
                share_mib=kind.memory_mib,
                card_mib=kind.unit_mib,
                crowd_mib=_crowd(needs[index].bound, largest[kind], kind, is_tenant=is_left),
                is_left=is_left,
            )
        )
    return found


def _crowd(own: float, largest: Sequence[float], kind: Shares, *, is_tenant: bool) -> float:
    """`own` and the largest beside it. `largest` are as many as can be together, with `own` if it is one of them."""
    if is_tenant and own >= largest[-1]:
        return sum(largest)
    return own + sum(largest[: kind.sharers - 1])


def _given(needs: Sequence[float], kinds: Sequence[Shares], gpus: int) -> list[tuple[Shares, bool]]:
    """The kind of share for each model, and whether one was left: the largest models choose first.

    A model that has its slice alone takes the largest that is free. Nothing does better: where the models fit at all,
    they fit in the order of their sizes. Models that take turns on a slice get the smallest that holds them, since
    fewer of them meet there. With one kind there is nothing to choose, and that there are enough is another rule.
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
