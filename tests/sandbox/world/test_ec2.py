"""Rules of EC2: each refuses, and lets pass once its reason is gone."""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.world import World, tokens
from tests.sandbox.world_pieces import Account, refused


@pytest.fixture
def account() -> Account:
    return Account()


def in_vpc(token: str) -> Callable[[Account], tuple[str, str, str, str]]:
    def build(account: Account) -> tuple[str, str, str, str]:
        vpc = account.make(tokens.VPC)
        return tokens.VPC, vpc, token, account.make(token, vpcId=vpc, availabilityZone="us-east-1a")

    return build


def nat(account: Account) -> tuple[str, str]:
    """Subnet and address of a NAT gateway."""
    account.network()
    return account.subnets[0], account.make(tokens.ADDRESS, domain="vpc")


def subnet_with_nat(account: Account) -> tuple[str, str, str, str]:
    subnet, address = nat(account)
    return tokens.SUBNET, subnet, tokens.NAT, account.make(tokens.NAT, subnetId=subnet, allocationId=address)


def address_of_nat(account: Account) -> tuple[str, str, str, str]:
    subnet, address = nat(account)
    return tokens.ADDRESS, address, tokens.NAT, account.make(tokens.NAT, subnetId=subnet, allocationId=address)


def gateway_with_nat(account: Account) -> tuple[str, str, str, str]:
    subnet, address = nat(account)
    return tokens.GATEWAY, account.gateway, tokens.NAT, account.make(tokens.NAT, subnetId=subnet, allocationId=address)


def gateway_with_public_nodes(account: Account) -> tuple[str, str, str, str]:
    account.cluster()
    return tokens.GATEWAY, account.gateway, tokens.NODE_GROUP, account.nodes()


def group_of_control_plane(account: Account) -> tuple[str, str, str, str]:
    account.network()
    group = account.make(tokens.SECURITY_GROUP, vpcId=account.vpc)
    where = {"subnetIds": account.subnets, "securityGroupIds": [group]}
    return tokens.SECURITY_GROUP, group, "aws:eks/cluster:Cluster", account.cluster(vpcConfig=where)


def subnet_of_endpoint(account: Account) -> tuple[str, str, str, str]:
    account.network()
    subnet = account.subnets[0]
    return tokens.SUBNET, subnet, tokens.ENDPOINT, account.make(tokens.ENDPOINT, vpcId=account.vpc, subnetIds=[subnet])


def group_of_endpoint(account: Account) -> tuple[str, str, str, str]:
    account.network()
    group = account.make(tokens.SECURITY_GROUP, vpcId=account.vpc)
    return (
        tokens.SECURITY_GROUP,
        group,
        tokens.ENDPOINT,
        account.make(tokens.ENDPOINT, vpcId=account.vpc, securityGroupIds=[group]),
    )


def subnet_of_control_plane(account: Account) -> tuple[str, str, str, str]:
    cluster = account.cluster()
    return tokens.SUBNET, account.subnets[0], "aws:eks/cluster:Cluster", cluster


def table_of_subnet(account: Account) -> tuple[str, str, str, str]:
    vpc = account.make(tokens.VPC)
    table, subnet = account.make(tokens.ROUTE_TABLE, vpcId=vpc), account.make(tokens.SUBNET, vpcId=vpc)
    return (
        tokens.ROUTE_TABLE,
        table,
        tokens.ASSOCIATION,
        account.make(tokens.ASSOCIATION, subnetId=subnet, routeTableId=table),
    )


HELD = {
    "VPC by subnet": (in_vpc(tokens.SUBNET), "DependencyViolation"),
    "VPC by gateway": (in_vpc(tokens.GATEWAY), "DependencyViolation"),
    "VPC by route table": (in_vpc(tokens.ROUTE_TABLE), "DependencyViolation"),
    "VPC by security group": (in_vpc(tokens.SECURITY_GROUP), "DependencyViolation"),
    "VPC by endpoint": (in_vpc(tokens.ENDPOINT), "DependencyViolation"),
    "subnet by NAT": (subnet_with_nat, "DependencyViolation"),
    "subnet by interface endpoint": (subnet_of_endpoint, "DependencyViolation"),
    "subnet by control plane": (subnet_of_control_plane, "DependencyViolation"),
    "address by NAT": (address_of_nat, "InvalidIPAddress.InUse"),
    "gateway by NAT": (gateway_with_nat, "DependencyViolation"),
    "gateway by public nodes": (gateway_with_public_nodes, "DependencyViolation"),
    "table by subnet": (table_of_subnet, "DependencyViolation"),
    "group by control plane": (group_of_control_plane, "DependencyViolation"),
    "group by endpoint": (group_of_endpoint, "DependencyViolation"),
}


@pytest.mark.parametrize("case", HELD)
def test_what_is_used_stays_until_its_user_is_gone(account: Account, case: str) -> None:
    build, code = HELD[case]
    token, identity, user_type, user = build(account)
    with refused(code):
        account.drop(token, identity)
    assert account.world.read(token, identity)
    account.drop(user_type, user)
    if token == tokens.SUBNET:
        # An association goes with its subnet or before it, and holds nothing.
        assert account.of(tokens.ASSOCIATION)
    account.drop(token, identity)
    assert account.world.read(token, identity) is None


ABSENT: dict[str, tuple[str, dict[str, Any], str]] = {
    "subnet": (tokens.SUBNET, {"vpcId": "vpc-0"}, "InvalidVpcID.NotFound"),
    "gateway": (tokens.GATEWAY, {"vpcId": "vpc-0"}, "InvalidVpcID.NotFound"),
    "table": (tokens.ROUTE_TABLE, {"vpcId": "vpc-0"}, "InvalidVpcID.NotFound"),
    "endpoint": (tokens.ENDPOINT, {"vpcId": "vpc-0"}, "InvalidVpcId.NotFound"),
    "endpoint's table": (
        tokens.ENDPOINT,
        {"vpcId": "{vpc}", "routeTableIds": ["rtb-0"]},
        "InvalidRouteTableId.NotFound",
    ),
    "endpoint's subnet": (tokens.ENDPOINT, {"vpcId": "{vpc}", "subnetIds": ["subnet-0"]}, "InvalidSubnetId.NotFound"),
    "NAT's subnet": (tokens.NAT, {"subnetId": "subnet-0"}, "InvalidSubnetID.NotFound"),
    "NAT's address": (tokens.NAT, {"subnetId": "{subnet}", "allocationId": "eip-0"}, "InvalidAllocationID.NotFound"),
    "route's table": (tokens.ROUTE, {"routeTableId": "rtb-0"}, "InvalidRouteTableID.NotFound"),
    "route's gateway": (
        tokens.ROUTE,
        {"routeTableId": "{table}", "gatewayId": "igw-0"},
        "InvalidInternetGatewayID.NotFound",
    ),
    "route's NAT": (tokens.ROUTE, {"routeTableId": "{table}", "natGatewayId": "nat-0"}, "InvalidNatGatewayID.NotFound"),
    "association's subnet": (tokens.ASSOCIATION, {"subnetId": "subnet-0"}, "InvalidSubnetID.NotFound"),
    "association's table": (
        tokens.ASSOCIATION,
        {"subnetId": "{subnet}", "routeTableId": "rtb-0"},
        "InvalidRouteTableID.NotFound",
    ),
    "volume's zone": (tokens.VOLUME, {"availabilityZone": "us-east-1x"}, "InvalidZone.NotFound"),
}


@pytest.mark.parametrize("case", ABSENT)
def test_what_is_named_must_be_there(account: Account, case: str) -> None:
    token, inputs, code = ABSENT[case]
    account.network(routed=False)
    there = {"{vpc}": account.vpc, "{subnet}": account.subnets[0], "{table}": account.table}
    with refused(code):
        account.make(token, **{key: there.get(str(value), value) for key, value in inputs.items()})


@pytest.mark.real_world(
    behaviour="A public NAT gateway needs an internet gateway attached to the VPC",
    source="docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNatGateway.html",
)
def test_a_nat_gateway_needs_an_attached_internet_gateway(account: Account) -> None:
    vpc = account.make(tokens.VPC)
    subnet, address = account.make(tokens.SUBNET, vpcId=vpc), account.make(tokens.ADDRESS)
    with refused("Gateway.NotAttached"):
        account.make(tokens.NAT, subnetId=subnet, allocationId=address)
    account.make(tokens.NAT, subnetId=subnet, connectivityType="private")
    account.make(tokens.GATEWAY, vpcId=vpc)
    account.make(tokens.NAT, subnetId=subnet, allocationId=address)


def test_an_address_serves_one_nat_gateway(account: Account) -> None:
    subnet, address = nat(account)
    account.make(tokens.NAT, subnetId=subnet, allocationId=address)
    with refused("Resource.AlreadyAssociated"):
        account.make(tokens.NAT, subnetId=subnet, allocationId=address)


def test_a_vpc_has_one_gateway_and_a_subnet_one_table(account: Account) -> None:
    account.network()
    with refused("Resource.AlreadyAssociated"):
        account.make(tokens.GATEWAY, vpcId=account.vpc)
    with refused("Resource.AlreadyAssociated"):
        account.make(tokens.ASSOCIATION, subnetId=account.subnets[0], routeTableId=account.table)
    account.change(tokens.GATEWAY, account.gateway, tags={"a": "b"})


def test_a_table_has_one_route_to_a_destination_and_only_in_its_vpc(account: Account) -> None:
    account.network()
    with refused("RouteAlreadyExists"):
        account.make(
            tokens.ROUTE, routeTableId=account.table, destinationCidrBlock="0.0.0.0/0", gatewayId=account.gateway
        )
    other = account.make(tokens.GATEWAY, "other", vpcId=account.make(tokens.VPC, "other"))
    with refused("InvalidParameterValue", "different networks"):
        account.make(tokens.ROUTE, routeTableId=account.table, destinationCidrBlock="10.9.0.0/16", gatewayId=other)
    account.make(
        tokens.ROUTE, routeTableId=account.table, destinationCidrBlock="10.9.0.0/16", gatewayId=account.gateway
    )


def test_the_name_of_a_launch_template_is_taken_once(account: Account) -> None:
    account.make(tokens.TEMPLATE, name="t")
    with refused("InvalidLaunchTemplateName.AlreadyExistsException"):
        account.make(tokens.TEMPLATE, name="t")
    account.make(tokens.TEMPLATE, name="u")


def test_interfaces_and_root_volumes_come_and_go_with_nodes(account: Account) -> None:
    account.cluster()
    group = account.nodes(count=2)
    interfaces = [one for one in account.of("aws:ec2/networkInterface:NetworkInterface") if "instance" in one.inputs]
    roots = account.of(tokens.VOLUME)
    assert (len(interfaces), len(roots)) == (2, 2)
    with refused("VolumeInUse"):
        account.drop(tokens.VOLUME, roots[0].id)
    account.drop(tokens.NODE_GROUP, group)
    assert account.of(tokens.VOLUME) == []
    assert not [one for one in account.of("aws:ec2/networkInterface:NetworkInterface") if "instance" in one.inputs]


@pytest.mark.real_world(
    behaviour="An EBS volume grows and never shrinks",
    source="docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyVolume.html",
)
def test_a_volume_grows_and_never_shrinks(account: Account) -> None:
    volume = account.make(tokens.VOLUME, availabilityZone="us-east-1a", size=20)
    with refused("InvalidParameterValue"):
        account.change(tokens.VOLUME, volume, size=10)
    assert account.change(tokens.VOLUME, volume, size=30)["size"] == 30


def test_a_gateway_without_routes_a_table_without_subnets_and_a_lone_volume_go_at_once() -> None:
    account = Account(World())
    vpc = account.make(tokens.VPC)
    pairs = [(token, account.make(token, vpcId=vpc)) for token in (tokens.GATEWAY, tokens.ROUTE_TABLE)]
    pairs += [(tokens.VOLUME, account.make(tokens.VOLUME, availabilityZone="us-east-1a", size=1)), (tokens.VPC, vpc)]
    for token, identity in pairs:
        account.drop(token, identity)
    assert account.world.things() == []
