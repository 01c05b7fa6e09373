"""The network of a cluster: an existing VPC, or a new one.

A new one has public subnets in every zone and, with NAT, private ones for the nodes.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.gpu_cluster.inputs import ExistingVpc
from components.gpu_cluster.zones import Market, next_zone, settled
from sharing.names import with_name
from sharing.sections.cluster import CONTROL_PLANE_ZONES, Nat

SUBNET_SLOTS = 16
"""Number of equal parts of the VPC's range: one public and one private part per zone, for at most eight zones."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The parts of the network that the rest of the cluster uses."""

    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    """Subnets of the control plane, which does not wait for their routes."""
    node_subnet_ids: Sequence[pulumi.Input[str]]
    """Subnets of the nodes. They resolve only once their internet routes exist: a node that boots earlier cannot join.
    """
    zone_names: pulumi.Output[list[str]]
    """Zones of `node_subnet_ids`, in the same order."""


def existing_network(vpc: ExistingVpc, child: pulumi.ResourceOptions) -> Network:
    """The network of an existing VPC: only the zones of its subnets are looked up."""
    nodes = vpc.node_subnet_ids or vpc.subnet_ids
    opts = pulumi.InvokeOptions(parent=child.parent)
    zones = [aws.ec2.get_subnet_output(id=id, opts=opts).availability_zone for id in nodes]
    return Network(
        vpc_id=vpc.id,
        subnet_ids=vpc.subnet_ids,
        node_subnet_ids=nodes,
        # Pulumi's mocks know no zone.
        zone_names=pulumi.Output.all(*zones).apply(
            lambda found: [zone or f"zone-{index}" for index, zone in enumerate(found)]
        ),
    )


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
    parts = _Parts(name, vpc, nat, tags, child)
    public_ranges, private_ranges = _ranges(cidr, zones)
    public = parts.public_subnets(public_ranges, zone_names, market)
    zones_in_use = [subnet.availability_zone for subnet in public.subnets]
    nodes, tables = public, public.tables
    if nat != "none":
        nodes = parts.private_subnets(private_ranges, zones_in_use, public)
        tables = [*public.tables, *nodes.tables]
    parts.s3_endpoint(tables)
    return Network(
        vpc_id=vpc.id,
        # These can never change: EKS accepts only subnets in the zones in which it created the cluster
        # (aws/containers-roadmap#2258). Nodes can run in any zone of the VPC.
        subnet_ids=[subnet.id for subnet in nodes.subnets][:CONTROL_PLANE_ZONES],
        node_subnet_ids=nodes.routed_ids,
        zone_names=settled(zone_names, zones_in_use),
    )


@dataclass(frozen=True, kw_only=True)
class _Subnets:
    """A subnet in each zone, with its routes to the internet."""

    subnets: list[aws.ec2.Subnet]
    routed_ids: list[pulumi.Output[str]]
    """Their ids, but resolved only once their routes exist."""
    tables: list[aws.ec2.RouteTable]


@dataclass(frozen=True)
class _Parts:
    """Registers the parts of a VPC."""

    name: str
    vpc: aws.ec2.Vpc
    nat: Nat
    tags: dict[str, str]
    child: pulumi.ResourceOptions

    def public_subnets(self, ranges: Sequence[str], zone_names: Sequence[str], market: Market) -> _Subnets:
        """Subnets with an internet gateway. Without NAT, the nodes are there and get public addresses."""
        gateway = aws.ec2.InternetGateway(
            f"{self.name}-internet", vpc_id=self.vpc.id, tags=with_name(self.tags, self.name), opts=self.child
        )
        name = f"{self.name}-public"
        table = self._route_table(name)
        to_internet = self._route(name, table, gateway_id=gateway.id)
        subnets: list[aws.ec2.Subnet] = []
        routed_ids = []
        once = pulumi.ResourceOptions.merge(self.child, pulumi.ResourceOptions(ignore_changes=["availabilityZone"]))
        for index, cidr in enumerate(ranges):
            taken = [subnet.availability_zone for subnet in subnets]
            zone = next_zone(market, len(ranges), zone_names, taken)
            subnet = self._subnet(f"{name}-{index}", cidr, zone, once, public_addresses=self.nat == "none")
            subnets.append(subnet)
            routed_ids.append(self._routed(f"{name}-{index}", subnet, table, to_internet))
        return _Subnets(subnets=subnets, routed_ids=routed_ids, tables=[table])

    def private_subnets(self, ranges: Sequence[str], zones: Sequence[pulumi.Output[str]], public: _Subnets) -> _Subnets:
        """Subnets for the nodes, which reach the internet through NAT gateways in the public subnets."""
        gateways = [
            self._nat_gateway(f"{self.name}-nat-{index}", public.routed_ids[index])
            for index in range(1 if self.nat == "single" else len(zones))
        ]
        subnets, routed_ids, tables = [], [], []
        for index, zone in enumerate(zones):
            name = f"{self.name}-private-{index}"
            table = self._route_table(name)
            route = self._route(name, table, nat_gateway_id=gateways[index % len(gateways)].id)
            subnet = self._subnet(name, ranges[index], zone, self.child, public_addresses=False)
            subnets.append(subnet)
            routed_ids.append(self._routed(name, subnet, table, route))
            tables.append(table)
        return _Subnets(subnets=subnets, routed_ids=routed_ids, tables=tables)

    def s3_endpoint(self, tables: list[aws.ec2.RouteTable]) -> None:
        """Free of charge. Image layers from ECR come through it instead of through NAT."""
        name = f"{self.name}-s3"
        aws.ec2.VpcEndpoint(
            name,
            vpc_id=self.vpc.id,
            # The region in `arn:aws:ec2:REGION:…`. Pulumi's mocks have no ARN.
            service_name=self.vpc.arn.apply(lambda arn: f"com.amazonaws.{arn.split(':')[3] if arn else 'region'}.s3"),
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            tags=with_name(self.tags, name),
            opts=self.child,
        )

    def _subnet(
        self, name: str, cidr: str, zone: pulumi.Output[str], opts: pulumi.ResourceOptions, *, public_addresses: bool
    ) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            name,
            vpc_id=self.vpc.id,
            cidr_block=cidr,
            availability_zone=zone,
            map_public_ip_on_launch=public_addresses,
            tags=with_name(self.tags, name),
            opts=opts,
        )

    def _route_table(self, name: str) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(name, vpc_id=self.vpc.id, tags=with_name(self.tags, name), opts=self.child)

    def _route(self, name: str, table: aws.ec2.RouteTable, **gateway: pulumi.Output[str]) -> aws.ec2.Route:
        return aws.ec2.Route(
            f"{name}-internet",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            **gateway,
            opts=self.child,
        )

    def _routed(
        self, name: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable, route: aws.ec2.Route
    ) -> pulumi.Output[str]:
        association = aws.ec2.RouteTableAssociation(name, subnet_id=subnet.id, route_table_id=table.id, opts=self.child)
        return pulumi.Output.all(subnet.id, association.id, route.id).apply(lambda ids: str(ids[0]))

    def _nat_gateway(self, name: str, subnet_id: pulumi.Output[str]) -> aws.ec2.NatGateway:
        tags = with_name(self.tags, name)
        address = aws.ec2.Eip(name, domain="vpc", tags=tags, opts=self.child)
        return aws.ec2.NatGateway(name, subnet_id=subnet_id, allocation_id=address.id, tags=tags, opts=self.child)


def _ranges(cidr: str, zones: int) -> tuple[list[str], list[str]]:
    """The ranges of the public and the private subnets. They stay the same when you add a zone."""
    whole = ipaddress.ip_network(cidr)
    parts = [str(part) for part in whole.subnets(new_prefix=whole.prefixlen + SUBNET_SLOTS.bit_length() - 1)]
    half = SUBNET_SLOTS // 2
    return parts[:zones], parts[half : half + zones]
