"""Chooses the availability zones of a cluster and its pools, by the instance types that AWS offers in each zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from sharing.names import POOL_LABEL, TAG_ZONES
from sharing.sections.cluster import ZONES_WITHOUT_EKS
from sharing.sections.zones import (
    Demand,
    Group,
    NoZoneError,
    Offers,
    choose_for_pool,
    choose_for_stack,
    unsold,
)

Groups = dict[str, list[Group]]
"""The cluster's existing node groups, by pool."""


@dataclass(frozen=True, kw_only=True)
class Market:
    """What AWS reports before anything is created. Pulumi's mocks report nothing: then every zone offers every type."""

    demands: Sequence[Demand]
    """The required instance types, those of the system nodes first."""
    zones: pulumi.Output[list[str]]
    """Names of the zones in which EKS runs. Zones that are not `available` now come last."""
    offers: pulumi.Output[Offers]
    """The zones that offer each instance type."""
    groups: pulumi.Output[Groups]
    more: str
    """How the stack gets nodes in other zones."""


def ask(cluster_name: str, demands: Sequence[Demand], child: pulumi.ResourceOptions, more: str) -> Market:
    """Looks up zones, offers and node groups in AWS. No lookup waits for a resource, so a preview knows them all."""
    opts = pulumi.InvokeOptions(parent=child.parent)
    zones = _zones(opts)
    offers = pulumi.Output.all(zones, _offers(demands, opts)).apply(lambda known: _within(*known))
    return Market(demands=demands, zones=zones, offers=offers, groups=_groups(cluster_name, opts), more=more)


def next_zone(
    market: Market, count: int, names: Sequence[str], taken: Sequence[pulumi.Output[str]]
) -> pulumi.Output[str]:
    """The zone of the next subnet: one of `names`, or else of the zones that offer most of the required types.

    Raises `pulumi.RunError`, which Pulumi's language host shows without a traceback.
    """

    def pick(known: Sequence[Any]) -> str:
        zones, offers, *before = known
        if not zones:
            return names[len(before)] if names else f"zone-{len(before)}"
        if unknown := [name for name in names if name not in zones]:
            raise pulumi.RunError(
                f"cluster.zone-names: {', '.join(unknown)} cannot be used: EKS does not run there, or this account has "
                f"no access. Choose from {', '.join(zones)}."
            )
        chosen = choose_for_stack(names or zones, count, market.demands, offers, before)
        if len(chosen) <= len(before):
            raise pulumi.RunError(
                f"cluster.zones: {count} is too large; EKS runs in {len(zones)} zones of this account "
                f"({', '.join(zones)}). Set `zones` to {len(zones)} or less."
            )
        return chosen[len(before)]

    return pulumi.Output.all(market.zones, market.offers, *taken).apply(pick)


def settled(names: Sequence[str], zones: Sequence[pulumi.Output[str]]) -> pulumi.Output[list[str]]:
    """The zones of the subnets. Raises `pulumi.RunError` if `names` differs from the zones of a deployed stack."""

    def check(found: Sequence[str]) -> list[str]:
        if names and set(names) != set(found):
            raise pulumi.RunError(
                f"cluster.zone-names: the deployed subnets are in {', '.join(found)} and cannot move. "
                "Keep these zones; you can add zones, and remove those that you added last."
            )
        return list(found)

    return pulumi.Output.all(*zones).apply(check)


def zones_of_pool(
    market: Market,
    pool: str,
    demand: Demand,
    here: pulumi.Output[list[str]],
    volume_zone: pulumi.Output[str] | None,
) -> pulumi.Output[list[str]]:
    """The zones of a pool's nodes, out of those of the subnets, `here`; with `volume_zone`, only that zone counts.

    Raises `pulumi.RunError` if none of the zones offers the pool's instance types. For an existing node group that
    keeps its types, it is only a warning.
    """

    bound = volume_zone is not None

    def pick(known: Sequence[Any]) -> list[str]:
        has, offers, groups = known
        found: list[Group] = groups.get(pool, [])
        # After a failed replacement there are two groups; the newer one has the required types.
        group = next((one for one in found if one.types == set(demand.types)), found[0] if found else None)
        try:
            placed = choose_for_pool(demand, has, offers, group, bound=bound, more=market.more)
        except NoZoneError as error:
            raise pulumi.RunError(str(error)) from None
        if not any(demand.met_in(zone, offers) for zone in placed):
            reason = unsold(demand, placed, offers, bound=bound, more=market.more)
            pulumi.log.warn(f"{reason} Nodes that stop cannot be replaced.")
        return placed

    # Several subnets can be in one zone.
    zones = here.apply(lambda names: list(dict.fromkeys(names)))
    if volume_zone is not None:
        zones = volume_zone.apply(lambda zone: [zone])
    return pulumi.Output.all(zones, market.offers, market.groups).apply(pick)


def _zones(opts: pulumi.InvokeOptions) -> pulumi.Output[list[str]]:
    def found(state: str | None) -> pulumi.Output[list[str]]:
        return aws.get_availability_zones_output(
            state=state,
            exclude_zone_ids=list(ZONES_WITHOUT_EKS),
            # Excludes local zones, which require opt-in.
            filters=[aws.GetAvailabilityZonesFilterArgs(name="opt-in-status", values=["opt-in-not-required"])],
            opts=opts,
        ).apply(lambda answer: list(answer.names or ()))

    # An outage of a zone must not make a stack that uses it invalid.
    return pulumi.Output.all(found("available"), found(None)).apply(
        lambda both: list(dict.fromkeys([*both[0], *both[1]]))
    )


def _offers(demands: Sequence[Demand], opts: pulumi.InvokeOptions) -> pulumi.Output[Offers]:
    def sold(demand: Demand) -> pulumi.Output[list[tuple[str, str]] | None]:
        return aws.ec2.get_instance_type_offerings_output(
            location_type="availability-zone",
            # One call per demand: EC2 accepts at most 200 values in a filter.
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
    """The offers in zones that a stack can use, so without local zones."""
    return offers and {name: [zone for zone in sold if zone in zones] for name, sold in offers.items()}


def _groups(cluster_name: str, opts: pulumi.InvokeOptions) -> pulumi.Output[Groups]:
    """The cluster's node groups. First looks for the cluster in a list, because describing a missing one fails."""

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
        grouped: Groups = {}
        for pool, group in groups:
            grouped.setdefault(pool, []).append(group)
        return grouped

    clusters = aws.eks.get_clusters_output(opts=opts).apply(lambda answer: list(answer.names or ()))
    groups: pulumi.Output[list[str]] = clusters.apply(names)
    each: pulumi.Output[list[tuple[str, Group]]] = groups.apply(described)
    return each.apply(by_pool)
