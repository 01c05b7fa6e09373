"""Availability zones: those of a region that support EKS, of a stack, and of a pool."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sharing import tables
from sharing.problems import Problem
from sharing.sections.cluster import ZONES_WITHOUT_EKS
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool

Offers = Mapping[str, Iterable[str]] | None
"""The zones that sell each instance type; None if unknown, which allows every zone."""
MORE_ZONES = "Raise `cluster.zones`, or add one of these to `cluster.zone-names`"
"""How a stack with its own network gets nodes in other zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Instance types that nodes need, and that a zone must sell."""

    path: str
    """Their path in the stack file, e.g. `gpu-nodes.instance-types`."""
    types: tuple[str, ...]
    """EC2 instance types, e.g. `g4dn.xlarge`."""
    every: bool
    """True for a node group: EKS refuses one with a type that one of its zones does not sell
    (eksctl-io/eksctl#3531, awslabs/ec2-spot-workshops#154). Karpenter takes any type that a zone sells.
    """

    def met_in(self, zone: str, offers: Offers) -> bool:
        """Whether nodes can start in the zone."""
        if offers is None:
            return True
        sold = [zone in offers.get(name, ()) for name in self.types]
        return all(sold) if self.every else any(sold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An existing node group."""

    zones: tuple[str, ...]
    types: frozenset[str]


class NoZoneError(Exception):
    """No zone is suitable: the reason and the fix."""

    def __init__(self, reason: str, fix: str) -> None:
        self.reason, self.fix = reason, fix
        super().__init__(f"{reason}. {fix}")


def pool_demand(pool: GpuPool) -> Demand:
    """The demand of a pool of GPU nodes."""
    path, every = f"{pool.path}.instance-types", pool.provisioner == "node-group"
    return Demand(path=path, types=tuple(pool.instance_types), every=every)


def system_demand(types: Sequence[str]) -> Demand:
    """The demand of the system nodes."""
    return Demand(path="cluster.system-nodes.instance-types", types=tuple(types), every=True)


def demands(config: StackConfig) -> list[Demand]:
    """The demands of all nodes of a stack: the system nodes first."""
    return [system_demand(config.cluster.system_nodes.instance_types), *map(pool_demand, config.pools)]


def choose_for_stack(
    zones: Sequence[str], count: int, wanted: Sequence[Demand], offers: Offers, taken: Sequence[str] = ()
) -> tuple[str, ...]:
    """The zones of a stack: those that it has, then those that meet the most demands.

    Fewer than `count` if there are no more. System nodes use the first two, so the first demand has priority there.
    """
    free = [zone for zone in zones if zone not in taken]
    more = min(max(count - len(taken), 0), len(free))

    def served(added: tuple[str, ...]) -> tuple[int, int, int]:
        met = [sum(demand.met_in(zone, offers) for zone in (*taken, *added)) for demand in wanted]
        return sum(map(bool, met)), sum(met[:1]), sum(met)

    # Among equals, `max` returns the first, and combinations follow the order of `zones`.
    best = max(combinations(free, more), key=served)
    return (*taken, *sorted(best, key=lambda zone: [not demand.met_in(zone, offers) for demand in wanted[:1]]))


def choose_for_pool(
    demand: Demand,
    zones: Sequence[str],
    offers: Offers,
    group: Group | None = None,
    *,
    bound: bool = False,
    more: str = MORE_ZONES,
) -> list[str]:
    """The zones of a pool, among those of its stack: it keeps its zones while one of them sells its types.

    `bound` means that the only zone is that of a volume. `more` says how to get other zones. Raises `NoZoneError` if no
    zone sells the types, unless a group with these types exists: its nodes keep running.
    """
    selling = [zone for zone in zones if demand.met_in(zone, offers)]
    kept = [zone for zone in zones if group and zone in group.zones]
    unchanged = group is not None and group.types == set(demand.types)
    if still := [zone for zone in kept if zone in selling]:
        # A group with other types is a new one, which EKS refuses in a zone that does not sell them.
        return kept if unchanged else still
    if selling or (unchanged and kept):
        return selling or kept
    raise unsold(demand, zones, offers, bound=bound, more=more)


def unsold(demand: Demand, zones: Sequence[str], offers: Offers, *, bound: bool, more: str = MORE_ZONES) -> NoZoneError:
    """Why none of the zones is suitable, and the fix."""
    offers = offers or {}
    if bound:
        fix = "A volume binds the pool to this zone. Write a type that the zone sells, or `cache: node`."
        return NoZoneError(f"{demand.path}: {', '.join(zones)} does not sell {', '.join(demand.types)}", fix)
    types, here = ", ".join(demand.types), ", ".join(zones)
    everywhere = sorted({zone for name in demand.types for zone in offers.get(name, ())})
    if elsewhere := [zone for zone in everywhere if demand.met_in(zone, offers)]:
        fix = f"{more}: {', '.join(elsewhere)}."
    elif everywhere and demand.every:
        sold = "; ".join(f"{name}: {', '.join(offers.get(name, ())) or 'nowhere'}" for name in demand.types)
        fix = f"A node group needs a zone that sells all of its types ({sold}). Keep types that one zone sells."
    else:
        fix = "No other zone of the region sells them to this account. Use other types or another region."
    return NoZoneError(f"{demand.path}: no zone of the stack ({here}) sells {types}", fix)


def most(region: str) -> int | None:
    """Number of zones of a region in which EKS runs; None for a region that the table lacks."""
    ids = [row["zone_id"] for row in tables.read("zones").rows if row["region"] == region]
    return sum(id not in ZONES_WITHOUT_EKS for id in ids) if ids else None


def too_many(config: StackConfig) -> Iterator[Problem]:
    """Rejects more zones than the region has."""
    limit = most(config.region)
    if limit is not None and config.cluster.zone_count > limit:
        path = "cluster.zone-names" if config.cluster.zone_names else "cluster.zones"
        rule = f"is more than the {limit} zones of {config.region} in which EKS runs"
        yield Problem(path, str(config.cluster.zone_count), rule, f"Write `zones: {limit}` or fewer.")


def misnamed(config: StackConfig) -> Iterator[Problem]:
    """Rejects zones of another region, other kinds of zones, and duplicates."""
    for index, zone in enumerate(config.cluster.zone_names):
        path = f"cluster.zone-names[{index}]"
        fix = f"Write zones of {config.region}, for example `[{config.region}a, {config.region}b]`."
        letter = zone.removeprefix(config.region)
        if not zone.startswith(config.region):
            rule = f"is not a zone of {config.region}, the stack's region"
            yield Problem(path, f"'{zone}'", rule, fix)
        elif len(letter) != 1 or not letter.islower():
            rule = "is not an Availability Zone, and the subnets of an EKS control plane must be in one"
            yield Problem(path, f"'{zone}'", rule, fix)
        elif zone in config.cluster.zone_names[:index]:
            yield Problem(path, f"'{zone}'", "is listed twice", "Keep one of the two.")
