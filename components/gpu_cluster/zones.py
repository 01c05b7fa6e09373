"""What AWS sells in which zone, asked in time; and the zones of a cluster and of its pools, chosen by it once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from sharing.names import POOL_LABEL, TAG_ZONES
from sharing.setup import ZONES_WITHOUT_EKS
from sharing.zones import Demand, Group, NoZoneError, Offers, choose, place, unsold

Groups = dict[str, list[Group]]
"""The node groups that are there, by the pool that they are of."""


@dataclass(frozen=True, kw_only=True)
class Market:
    """What AWS says before anything is created. Stock mocks say nothing: then every zone sells everything."""

    demands: Sequence[Demand]
    """The types that were asked for; the system nodes' first."""
    zones: pulumi.Output[list[str]]
    """Zones in which EKS runs, by name; those that are not `available` now come last."""
    offers: pulumi.Output[Offers]
    groups: pulumi.Output[Groups]


def ask(cluster_name: str, demands: Sequence[Demand], child: pulumi.ResourceOptions) -> Market:
    """Asks AWS for zones, offers and node groups; nothing here waits for a resource, so that a preview knows it all."""
    opts = pulumi.InvokeOptions(parent=child.parent)
    zones = _zones(opts)
    offers = pulumi.Output.all(zones, _offers(demands, opts)).apply(lambda known: _within(*known))
    return Market(demands=demands, zones=zones, offers=offers, groups=_groups(cluster_name, opts))


def next_zone(
    market: Market, count: int, names: Sequence[str], taken: Sequence[pulumi.Output[str]]
) -> pulumi.Output[str]:
    """The zone of the next subnet: of those named, or else of those that sell most of what the nodes need."""

    def pick(known: Sequence[Any]) -> str:
        zones, offers, *before = known
        if not zones:
            return names[len(before)] if names else f"zone-{len(before)}"
        if strange := [name for name in names if name not in zones]:
            raise _error(
                f"cluster.zone-names: EKS does not run in {', '.join(strange)}, or this account does not have it. "
                f"Choose among {', '.join(zones)}."
            )
        chosen = choose(names or zones, count, market.demands, offers, before)
        if len(chosen) <= len(before):
            raise _error(
                f"cluster.zones: EKS runs in {len(zones)} zones of this account ({', '.join(zones)}), and the stack "
                f"wants {count}. Write `zones: {len(zones)}` or fewer."
            )
        return chosen[len(before)]

    return pulumi.Output.all(market.zones, market.offers, *taken).apply(pick)


def settled(names: Sequence[str], zones: Sequence[pulumi.Output[str]]) -> pulumi.Output[list[str]]:
    """The zones of the subnets; an error where other ones are named than a stack that is up has."""

    def check(found: Sequence[str]) -> list[str]:
        if names and set(names) != set(found):
            raise _error(
                f"cluster.zone-names: the stack's subnets are in {', '.join(found)}, and a subnet does not move. "
                "Keep these in the list; you can add zones, and remove those that were added last."
            )
        return list(found)

    return pulumi.Output.all(*zones).apply(check)


def zones_of_pool(
    market: Market, pool: str, demand: Demand, zones: pulumi.Output[list[str]], *, bound: bool = False
) -> pulumi.Output[list[str]]:
    """The zones of a pool's nodes, among `zones`; an error where none of them sells its types, or, for a group that is
    there and keeps its types, a warning. `bound` says that the only zone is that of a volume.
    """

    def pick(known: Sequence[Any]) -> list[str]:
        has, offers, groups = known
        found: list[Group] = groups.get(pool, [])
        # After a failed replacement there are two: the newer one has the types that are asked for.
        group = next((one for one in found if one.types == set(demand.types)), found[0] if found else None)
        try:
            placed = place(demand, has, offers, group, bound=bound)
        except NoZoneError as reason:
            raise _error(str(reason)) from None
        if not any(demand.met_in(zone, offers) for zone in placed):
            pulumi.log.warn(f"{unsold(demand, placed, offers, bound=bound)} Nodes that stop do not come back.")
        return placed

    return pulumi.Output.all(zones, market.offers, market.groups).apply(pick)


def _error(message: str) -> Exception:
    # The language host shows this one without a traceback.
    return pulumi.RunError(message)


def _zones(opts: pulumi.InvokeOptions) -> pulumi.Output[list[str]]:
    def found(state: str | None) -> pulumi.Output[list[str]]:
        return aws.get_availability_zones_output(
            state=state,
            exclude_zone_ids=list(ZONES_WITHOUT_EKS),
            # No local zones: they must be opted into.
            filters=[aws.GetAvailabilityZonesFilterArgs(name="opt-in-status", values=["opt-in-not-required"])],
            opts=opts,
        ).apply(lambda answer: list(answer.names or ()))

    # While a zone is out of order, a stack that lives there must not become an error.
    return pulumi.Output.all(found("available"), found(None)).apply(
        lambda both: list(dict.fromkeys([*both[0], *both[1]]))
    )


def _offers(demands: Sequence[Demand], opts: pulumi.InvokeOptions) -> pulumi.Output[Offers]:
    def sold(demand: Demand) -> pulumi.Output[list[tuple[str, str]] | None]:
        return aws.ec2.get_instance_type_offerings_output(
            location_type="availability-zone",
            # One call for each demand: EC2 takes at most 200 values in a filter.
            filters=[aws.ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=sorted(demand.types))],
            opts=opts,
        ).apply(
            lambda answer: (
                None
                if answer.instance_types is None
                else sorted(zip(answer.instance_types, answer.locations, strict=True))
            )
        )

    def merged(answers: Sequence[list[tuple[str, str]] | None]) -> Offers:
        by_type: dict[str, list[str]] = {}
        for answer in answers:
            if answer is None:
                return None
            for instance_type, zone in answer:
                if zone not in by_type.setdefault(instance_type, []):
                    by_type[instance_type].append(zone)
        return by_type

    return pulumi.Output.all(*map(sold, demands)).apply(merged)


def _within(zones: Sequence[str], offers: Offers) -> Offers:
    """The offers without zones that no stack can take, such as local zones."""
    return offers and {name: [zone for zone in sold if zone in zones] for name, sold in offers.items()}


def _groups(cluster_name: str, opts: pulumi.InvokeOptions) -> pulumi.Output[Groups]:
    """The cluster's groups. It is looked up in a list: a question about a cluster that is not there would fail."""

    def names(clusters: Sequence[str]) -> pulumi.Output[list[str]]:
        if cluster_name not in clusters:
            return pulumi.Output.from_input([])
        return aws.eks.get_node_groups_output(cluster_name=cluster_name, opts=opts).apply(
            lambda answer: list(answer.names or ())
        )

    def described(groups: Sequence[str]) -> pulumi.Output[list[tuple[str, Group]]]:
        return pulumi.Output.all(*map(one, groups))

    def one(group: str) -> pulumi.Output[tuple[str, Group]]:
        return aws.eks.get_node_group_output(cluster_name=cluster_name, node_group_name=group, opts=opts).apply(
            lambda answer: (
                (answer.labels or {}).get(POOL_LABEL, ""),
                Group(
                    zones=tuple((answer.tags or {}).get(TAG_ZONES, "").split()), types=frozenset(answer.instance_types)
                ),
            )
        )

    def by_pool(groups: Sequence[tuple[str, Group]]) -> Groups:
        found: Groups = {}
        for pool, group in groups:
            found.setdefault(pool, []).append(group)
        return found

    clusters = aws.eks.get_clusters_output(opts=opts).apply(lambda answer: list(answer.names or ()))
    groups: pulumi.Output[list[str]] = clusters.apply(names)
    each: pulumi.Output[list[tuple[str, Group]]] = groups.apply(described)
    return each.apply(by_pool)
