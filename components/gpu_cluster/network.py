"""The network of a cluster: a VPC with public subnets in every zone and, with NAT, private ones for the nodes."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.gpu_cluster.zones import Market, next_zone, settled
from sharing.names import with_name
from sharing.stack.cluster import Nat

SUBNET_SLOTS = 16
"""Number of equal parts of the VPC's range: one public and one private part per zone, for at most eight zones."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The parts of the network that the rest of the cluster uses."""

    vpc: aws.ec2.Vpc
    zone_names: pulumi.Output[list[str]]
    subnet_ids: list[pulumi.Output[str]]
    """Subnets of nodes and control plane, one per zone. The control plane does not wait for their routes."""
    node_subnet_ids: list[pulumi.Output[str]]
    """The same subnets, but resolved only once their internet routes exist. A node that boots earlier cannot join."""


def network(
    name: str,
    cidr: str,
    zones: int,
    zone_names: Sequence[str],
    market: Market,
    nat: Nat,
    tags: dict[str, str],
    child: pulumi.ResourceOptions,
) -> Network:
    """Registers the network `name`. Every resource gets the options `child`.

    Zones are chosen once. Each public subnet keeps the zone in which it was created, even if AWS's offers change.
    Everything else takes its zone from that subnet. A new subnet avoids the zones of the subnets before it.
    """
    vpc = aws.ec2.Vpc(
        f"{name}-vpc",
        cidr_block=cidr,
        enable_dns_support=True,
        enable_dns_hostnames=True,
        tags=with_name(tags, name),
        opts=child,
    )
    public_ranges, private_ranges = _ranges(cidr, zones)
    public = _public_subnets(name, vpc, public_ranges, zone_names, market, nat, tags, child)
    zones_in_use = [subnet.availability_zone for subnet in public.subnets]
    nodes, tables = public, public.tables
    if nat != "none":
        nodes = _private_subnets(name, vpc, private_ranges, zones_in_use, public, nat, tags, child)
        tables = [*public.tables, *nodes.tables]
    _s3_endpoint(f"{name}-s3", vpc, tables, tags, child)
    return Network(
        vpc=vpc,
        zone_names=settled(zone_names, zones_in_use),
        subnet_ids=[subnet.id for subnet in nodes.subnets],
        node_subnet_ids=nodes.routed_ids,
    )


@dataclass(frozen=True, kw_only=True)
class _Subnets:
    """A subnet in each zone, with its routes to the internet."""

    subnets: list[aws.ec2.Subnet]
    routed_ids: list[pulumi.Output[str]]
    """Their ids, but resolved only once their routes exist."""
    tables: list[aws.ec2.RouteTable]


def _public_subnets(
    name: str,
    vpc: aws.ec2.Vpc,
    ranges: Sequence[str],
    zone_names: Sequence[str],
    market: Market,
    nat: Nat,
    tags: dict[str, str],
    child: pulumi.ResourceOptions,
) -> _Subnets:
    """Subnets with an internet gateway. Without NAT, the nodes are there and get public addresses."""
    gateway = aws.ec2.InternetGateway(f"{name}-internet", vpc_id=vpc.id, tags=with_name(tags, name), opts=child)
    table = _route_table(f"{name}-public", vpc, tags, child)
    to_internet = aws.ec2.Route(
        f"{name}-public-internet",
        route_table_id=table.id,
        destination_cidr_block="0.0.0.0/0",
        gateway_id=gateway.id,
        opts=child,
    )
    subnets: list[aws.ec2.Subnet] = []
    routed_ids = []
    once = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(ignore_changes=["availabilityZone"]))
    for index, cidr in enumerate(ranges):
        taken = [subnet.availability_zone for subnet in subnets]
        zone = next_zone(market, len(ranges), zone_names, taken)
        subnet = _subnet(f"{name}-public-{index}", vpc, cidr, zone, nat == "none", tags, once)
        subnets.append(subnet)
        routed_ids.append(_routed(f"{name}-public-{index}", subnet, table, to_internet, child))
    return _Subnets(subnets=subnets, routed_ids=routed_ids, tables=[table])


def _private_subnets(
    name: str,
    vpc: aws.ec2.Vpc,
    ranges: Sequence[str],
    zones: Sequence[pulumi.Output[str]],
    public: _Subnets,
    nat: Nat,
    tags: dict[str, str],
    child: pulumi.ResourceOptions,
) -> _Subnets:
    """Subnets for the nodes, which reach the internet through NAT gateways in the public subnets."""
    gateways = [
        _nat_gateway(f"{name}-nat-{index}", public.routed_ids[index], tags, child)
        for index in range(1 if nat == "single" else len(zones))
    ]
    subnets, routed_ids, tables = [], [], []
    for index, zone in enumerate(zones):
        table = _route_table(f"{name}-private-{index}", vpc, tags, child)
        route = aws.ec2.Route(
            f"{name}-private-{index}-internet",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=gateways[index % len(gateways)].id,
            opts=child,
        )
        subnet = _subnet(f"{name}-private-{index}", vpc, ranges[index], zone, False, tags, child)
        subnets.append(subnet)
        routed_ids.append(_routed(f"{name}-private-{index}", subnet, table, route, child))
        tables.append(table)
    return _Subnets(subnets=subnets, routed_ids=routed_ids, tables=tables)


def _ranges(cidr: str, zones: int) -> tuple[list[str], list[str]]:
    """The ranges of the public and the private subnets. They stay the same when you add a zone."""
    whole = ipaddress.ip_network(cidr)
    parts = [str(part) for part in whole.subnets(new_prefix=whole.prefixlen + SUBNET_SLOTS.bit_length() - 1)]
    half = SUBNET_SLOTS // 2
    return parts[:zones], parts[half : half + zones]


def _subnet(
    name: str,
    vpc: aws.ec2.Vpc,
    cidr: str,
    zone: pulumi.Output[str],
    public_addresses: bool,
    tags: dict[str, str],
    child: pulumi.ResourceOptions,
) -> aws.ec2.Subnet:
    return aws.ec2.Subnet(
        name,
        vpc_id=vpc.id,
        cidr_block=cidr,
        availability_zone=zone,
        map_public_ip_on_launch=public_addresses,
        tags=with_name(tags, name),
        opts=child,
    )


def _route_table(
    name: str, vpc: aws.ec2.Vpc, tags: dict[str, str], child: pulumi.ResourceOptions
) -> aws.ec2.RouteTable:
    return aws.ec2.RouteTable(name, vpc_id=vpc.id, tags=with_name(tags, name), opts=child)


def _routed(
    name: str,
    subnet: aws.ec2.Subnet,
    table: aws.ec2.RouteTable,
    route: aws.ec2.Route,
    child: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    association = aws.ec2.RouteTableAssociation(name, subnet_id=subnet.id, route_table_id=table.id, opts=child)
    return pulumi.Output.all(subnet.id, association.id, route.id).apply(lambda ids: str(ids[0]))


def _nat_gateway(
    name: str, subnet_id: pulumi.Output[str], tags: dict[str, str], child: pulumi.ResourceOptions
) -> aws.ec2.NatGateway:
    address = aws.ec2.Eip(name, domain="vpc", tags=with_name(tags, name), opts=child)
    return aws.ec2.NatGateway(
        name, subnet_id=subnet_id, allocation_id=address.id, tags=with_name(tags, name), opts=child
    )


def _s3_endpoint(
    name: str,
    vpc: aws.ec2.Vpc,
    tables: list[aws.ec2.RouteTable],
    tags: dict[str, str],
    child: pulumi.ResourceOptions,
) -> aws.ec2.VpcEndpoint:
    """Free of charge. Image layers from ECR come through it instead of through NAT."""
    return aws.ec2.VpcEndpoint(
        name,
        vpc_id=vpc.id,
        service_name=vpc.arn.apply(lambda arn: f"com.amazonaws.{_region_of(arn)}.s3"),
        vpc_endpoint_type="Gateway",
        route_table_ids=[table.id for table in tables],
        tags=with_name(tags, name),
        opts=child,
    )


def _region_of(arn: str | None) -> str:
    """The region in `arn:aws:ec2:REGION:…`. Pulumi's mocks have no ARN."""
    return arn.split(":")[3] if arn else "region"
