"""Rules of EC2: each refuses a call only while its reason exists."""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.world import tokens
from tests.sandbox.outside import Outside
from tests.sandbox.world_pieces import Account, refused


@pytest.fixture
def account() -> Account:
    return Account()


Key = tuple[str, str]
"""Type and id."""


def held_vpc(by: str) -> Callable[[Account], tuple[Key, Key]]:
    def build(account: Account) -> tuple[Key, Key]:
        vpc = account.make(tokens.VPC)
        return (tokens.VPC, vpc), (by, account.make(by, vpcId=vpc, availabilityZone="us-east-1a"))

    return build


def held_by_nat(held: str) -> Callable[[Account], tuple[Key, Key]]:
    def build(account: Account) -> tuple[Key, Key]:
        nat = account.nat()
        ids = {tokens.SUBNET: account.subnets[0], tokens.ADDRESS: account.address, tokens.GATEWAY: account.gateway}
        return (held, ids[held]), (tokens.NAT, nat)

    return build


def held_by_endpoint(held: str, key: str) -> Callable[[Account], tuple[Key, Key]]:
    def build(account: Account) -> tuple[Key, Key]:
        account.network()
        one = account.subnets[0] if held == tokens.SUBNET else account.make(held, vpcId=account.vpc)
        return (held, one), (tokens.ENDPOINT, account.make(tokens.ENDPOINT, vpcId=account.vpc, **{key: [one]}))

    return build


def held_by_control_plane(held: str) -> Callable[[Account], tuple[Key, Key]]:
    def build(account: Account) -> tuple[Key, Key]:
        user = tokens.CLUSTER, account.cluster()
        group = account.outputs(*user)["vpcConfig"]["clusterSecurityGroupId"]
        return (held, account.subnets[0] if held == tokens.SUBNET else group), user

    return build


def gateway_with_public_nodes(account: Account) -> tuple[Key, Key]:
    account.cluster()
    return (tokens.GATEWAY, account.gateway), (tokens.NODE_GROUP, account.nodes())


def table_of_subnet(account: Account) -> tuple[Key, Key]:
    account.network()
    [first, second] = account.of(tokens.ASSOCIATION)
    account.drop(*second.key)
    return (tokens.ROUTE_TABLE, account.table), first.key


VIOLATION = "DependencyViolation"
HELD = {
    **{f"VPC by {by}": (held_vpc(by), VIOLATION) for by in (tokens.SUBNET, tokens.GATEWAY, tokens.ROUTE_TABLE)},
    **{f"VPC by {by}": (held_vpc(by), VIOLATION) for by in (tokens.SECURITY_GROUP, tokens.ENDPOINT)},
    "subnet by NAT": (held_by_nat(tokens.SUBNET), VIOLATION),
    "subnet by endpoint": (held_by_endpoint(tokens.SUBNET, "subnetIds"), VIOLATION),
    "subnet by control plane": (held_by_control_plane(tokens.SUBNET), VIOLATION),
    "address by NAT": (held_by_nat(tokens.ADDRESS), "InvalidIPAddress.InUse"),
    "gateway by NAT": (held_by_nat(tokens.GATEWAY), VIOLATION),
    "gateway by public nodes": (gateway_with_public_nodes, VIOLATION),
    "table by subnet": (table_of_subnet, VIOLATION),
    "group by control plane": (held_by_control_plane(tokens.SECURITY_GROUP), VIOLATION),
    "group by endpoint": (held_by_endpoint(tokens.SECURITY_GROUP, "securityGroupIds"), VIOLATION),
}


@pytest.mark.parametrize("case", HELD)
def test_a_used_resource_stays_until_its_user_is_deleted(account: Account, case: str) -> None:
    build, code = HELD[case]
    held, user = build(account)
    with refused(code):
        account.drop(*held)
    assert account.world.read(*held)
    account.drop(*user)
    if held[0] == tokens.SUBNET:
        # An association is deleted with its subnet or before it, and blocks no deletion.
        assert account.of(tokens.ASSOCIATION)
    account.drop(*held)
    assert account.world.read(*held) is None


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
def test_a_referenced_resource_must_exist(account: Account, case: str) -> None:
    token, inputs, code = ABSENT[case]
    account.network(routed=False)
    there = {"{vpc}": account.vpc, "{subnet}": account.subnets[0], "{table}": account.table}
    with refused(code):
        account.make(token, **{key: there.get(str(value), value) for key, value in inputs.items()})


@pytest.mark.real_world(
    behaviour="A public NAT gateway needs an internet gateway attached to the VPC",
    source="docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNatGateway.html",
)
def test_a_nat_gateway_needs_an_attached_internet_gateway_and_an_address_of_its_own(account: Account) -> None:
    vpc = account.make(tokens.VPC)
    given = {"subnetId": account.make(tokens.SUBNET, vpcId=vpc), "allocationId": account.make(tokens.ADDRESS)}
    with refused("Gateway.NotAttached"):
        account.make(tokens.NAT, **given)
    account.make(tokens.GATEWAY, vpcId=vpc)
    account.make(tokens.NAT, **given)
    with refused("Resource.AlreadyAssociated"):
        account.make(tokens.NAT, **given)
    # Private NAT gateways have no address.
    assert len({account.make(tokens.NAT, name, subnetId=given["subnetId"]) for name in "ab"}) == 2


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


def test_the_name_of_a_launch_template_is_unique(account: Account) -> None:
    account.make(tokens.TEMPLATE, name="t")
    with refused("InvalidLaunchTemplateName.AlreadyExistsException"):
        account.make(tokens.TEMPLATE, name="t")
    account.make(tokens.TEMPLATE, name="u")


def test_interfaces_and_root_volumes_are_created_and_deleted_with_nodes(account: Account) -> None:
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


def test_unused_gateways_tables_and_volumes_can_be_deleted() -> None:
    account = Account(Outside())
    vpc = account.make(tokens.VPC)
    pairs = [(token, account.make(token, vpcId=vpc)) for token in (tokens.GATEWAY, tokens.ROUTE_TABLE)]
    pairs += [(tokens.VOLUME, account.make(tokens.VOLUME, availabilityZone="us-east-1a", size=1)), (tokens.VPC, vpc)]
    for token, identity in pairs:
        account.drop(token, identity)
    assert account.world.entities() == []
