"""What AWS says of a VPC that the stack does not own."""

from collections.abc import Collection
from typing import Any

from sharing.existing.vpc import Network, Subnet, VpcFacts, Way, find_way
from tandem.aws.session import Account


def read_vpc(account: Account, network: Network) -> VpcFacts:
    """Reads the VPC and what the stack file names in it; raises boto3's exceptions.

    It filters by id, because EC2 answers an unknown id with an error.
    """

    def described(kind: str, key: str, name: str, values: Collection[str]) -> list[Any]:
        if not values:
            return []
        pages = account.pages("ec2", f"describe_{kind}", Filters=[{"Name": name, "Values": [*values]}])
        return [raw for page in pages for raw in page[key]]

    def is_on(name: str) -> bool:
        answer = account.client("ec2").describe_vpc_attribute(VpcId=network.vpc, Attribute=f"enable{name}")
        return bool(answer[f"Enable{name}"]["Value"])

    here = ("vpc-id", [network.vpc])
    if not described("vpcs", "Vpcs", *here):
        return VpcFacts(exists=False)
    ways = _find_ways(network, described("route_tables", "RouteTables", *here))
    subnets = described("subnets", "Subnets", "subnet-id", {**network.control_plane, **network.nodes})
    groups = described("security_groups", "SecurityGroups", "group-id", network.groups)
    found = described("vpc_endpoints", "VpcEndpoints", *here)
    endpoints = [one for one in found if one["VpcEndpointType"] == "Gateway" or not one["ServiceName"].endswith(".s3")]
    return VpcFacts(
        dns={"enable-dns-support": is_on("DnsSupport"), "enable-dns-hostnames": is_on("DnsHostnames")},
        subnets={
            raw["SubnetId"]: Subnet(
                vpc=raw["VpcId"],
                zone=raw["AvailabilityZone"],
                zone_id=raw["AvailabilityZoneId"],
                free=raw["AvailableIpAddressCount"],
                public_addresses=raw["MapPublicIpOnLaunch"],
                way=ways.get(raw["SubnetId"], "none"),
            )
            for raw in subnets
        },
        groups={raw["GroupId"]: raw["VpcId"] for raw in groups},
        endpoints=frozenset(raw["ServiceName"].partition(f".{account.region}.")[2] for raw in endpoints),
    )


def _find_ways(network: Network, tables: list[Any]) -> dict[str, Way]:
    """Where the nodes' subnets lead: by their route tables, or else by the main one."""
    ways = {
        association.get("SubnetId", ""): _way_of(table) for table in tables for association in table["Associations"]
    }
    return {id: ways.get(id, ways.get("", "none")) for id in network.nodes}


def _way_of(table: Any) -> Way:
    # A route to a deleted gateway is a black hole (API_DeleteNatGateway).
    open_ = [route for route in table["Routes"] if route.get("State") != "blackhole"]
    return find_way(
        (
            one.get("DestinationCidrBlock", one.get("DestinationPrefixListId")),
            one.get("GatewayId"),
            one.get("NatGatewayId"),
        )
        for one in open_
    )
