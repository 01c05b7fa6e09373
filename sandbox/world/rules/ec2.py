"""Rules of EC2: what must be there before, and what cannot go while something uses it."""

from typing import NamedTuple

from sandbox.cloud.aws.places import Place
from sandbox.world import tokens
from sandbox.world.rules.rule import CHANGE, CREATE, DELETE, Case, Moments, Refusal, Rule
from sandbox.world.things import Thing, Things, value_at, values_at

API = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/"
CODES = API + "errors-overview.html"


class Reference(NamedTuple):
    """An id in a thing's inputs, and what it must name."""

    type: str
    path: str
    to: str
    code: str


class Use(NamedTuple):
    """What keeps a thing from going: things of type `by` whose `path` names it."""

    type: str
    by: str
    path: str


REFERENCES = (
    Reference(tokens.SUBNET, "vpcId", tokens.VPC, "InvalidVpcID.NotFound"),
    Reference(tokens.GATEWAY, "vpcId", tokens.VPC, "InvalidVpcID.NotFound"),
    Reference(tokens.ROUTE_TABLE, "vpcId", tokens.VPC, "InvalidVpcID.NotFound"),
    Reference(tokens.ENDPOINT, "vpcId", tokens.VPC, "InvalidVpcId.NotFound"),
    Reference(tokens.ENDPOINT, "routeTableIds", tokens.ROUTE_TABLE, "InvalidRouteTableId.NotFound"),
    Reference(tokens.NAT, "subnetId", tokens.SUBNET, "InvalidSubnetID.NotFound"),
    Reference(tokens.NAT, "allocationId", tokens.ADDRESS, "InvalidAllocationID.NotFound"),
    Reference(tokens.ROUTE, "routeTableId", tokens.ROUTE_TABLE, "InvalidRouteTableID.NotFound"),
    Reference(tokens.ROUTE, "gatewayId", tokens.GATEWAY, "InvalidInternetGatewayID.NotFound"),
    Reference(tokens.ROUTE, "natGatewayId", tokens.NAT, "InvalidNatGatewayID.NotFound"),
    Reference(tokens.ASSOCIATION, "subnetId", tokens.SUBNET, "InvalidSubnetID.NotFound"),
    Reference(tokens.ASSOCIATION, "routeTableId", tokens.ROUTE_TABLE, "InvalidRouteTableID.NotFound"),
)
# A launch template is not here: DeleteLaunchTemplate asks nobody (API_DeleteLaunchTemplate), it is the node group that
# suffers, see `eks`. Nor is a NAT gateway: routes to it become black holes (API_DeleteNatGateway).
USES = (
    Use(tokens.VPC, tokens.SUBNET, "vpcId"),
    Use(tokens.VPC, tokens.GATEWAY, "vpcId"),
    Use(tokens.VPC, tokens.ROUTE_TABLE, "vpcId"),
    Use(tokens.VPC, tokens.SECURITY_GROUP, "vpcId"),
    Use(tokens.VPC, tokens.ENDPOINT, "vpcId"),
    Use(tokens.SUBNET, tokens.INTERFACE, "subnetId"),
    Use(tokens.SUBNET, tokens.NAT, "subnetId"),
    Use(tokens.SUBNET, tokens.ENDPOINT, "subnetIds"),
    Use(tokens.ADDRESS, tokens.NAT, "allocationId"),
    Use(tokens.ROUTE_TABLE, tokens.ASSOCIATION, "routeTableId"),
    Use(tokens.SECURITY_GROUP, tokens.INTERFACE, "securityGroups"),
    Use(tokens.SECURITY_GROUP, tokens.ENDPOINT, "securityGroupIds"),
    Use(tokens.VOLUME, tokens.ATTACHMENT, "volumeHandle"),
)
HELD = {
    tokens.VPC: ("DependencyViolation", "DeleteVpc", "The vpc '{}' has dependencies and cannot be deleted."),
    tokens.SUBNET: ("DependencyViolation", "DeleteSubnet", "The subnet '{}' has dependencies and cannot be deleted."),
    tokens.ADDRESS: (
        "InvalidIPAddress.InUse",
        "ReleaseAddress",
        "The address with allocation id '{}' cannot be released because it is in use.",
    ),
    tokens.ROUTE_TABLE: (
        "DependencyViolation",
        "DeleteRouteTable",
        "The routeTable '{}' has dependencies and cannot be deleted.",
    ),
    tokens.SECURITY_GROUP: ("DependencyViolation", "DeleteSecurityGroup", "resource {} has a dependent object"),
    tokens.VOLUME: ("VolumeInUse", "DeleteVolume", "Volume {} is currently attached"),
}
"""What EC2 says to the deletion of a thing that is used: code, action and words."""
# Types whose deletion the Terraform provider, and so pulumi-aws, tries again for minutes while EC2 calls them used
# (internal/service/ec2: vpc_.go, vpc_subnet.go, vpc_internet_gateway.go, vpc_security_group.go, ebs_volume.go).
RETRIED = frozenset({tokens.VPC, tokens.SUBNET, tokens.GATEWAY, tokens.SECURITY_GROUP, tokens.VOLUME})


def absent(reference: Reference) -> Refusal:
    """Refuses while an id names nothing."""

    def refuse(case: Case) -> str | None:
        for identity in values_at(case.inputs, reference.path):
            if case.things.get(reference.to, identity) is None:
                what = reference.to.rpartition(":")[2]
                return f"The {what[0].lower() + what[1:]} ID '{identity}' does not exist"
        return None

    return refuse


def used(use: Use) -> Refusal:
    """Refuses while something names the thing."""

    def refuse(case: Case) -> str | None:
        users = [one for one in case.things.of(use.by) if case.id in values_at(one.inputs, use.path)]
        return f"{HELD[use.type][2].format(case.id)} (used by {users[0].id})" if users else None

    return refuse


def _mapped_addresses(case: Case) -> str | None:
    vpc = case.inputs.get("vpcId")
    nats = [one for one in case.things.of(tokens.NAT) if _vpc_of(case.things, one) == vpc]
    public = [
        one for one in case.things.of(tokens.INTERFACE) if one.inputs.get("publicIp") and one.inputs.get("vpcId") == vpc
    ]
    held = [*nats, *public]
    if not held:
        return None
    return (
        f"Network {vpc} has some mapped public address(es). "
        f"Please unmap those public address(es) before detaching the gateway. ({held[0].id})"
    )


def _vpc_of(things: Things, nat: Thing) -> str | None:
    subnet = things.get(tokens.SUBNET, nat.inputs.get("subnetId"))
    return subnet.inputs.get("vpcId") if subnet else None


def _no_gateway(case: Case) -> str | None:
    subnet = case.things.get(tokens.SUBNET, case.inputs.get("subnetId"))
    vpc = subnet.inputs.get("vpcId") if subnet else None
    if any(one.inputs.get("vpcId") == vpc for one in case.things.of(tokens.GATEWAY)):
        return None
    return f"Network {vpc} has no Internet gateway attached"


def _address_taken(case: Case) -> str | None:
    address = case.inputs.get("allocationId")
    taken = [
        one for one in case.things.of(tokens.NAT) if one is not case.thing and one.inputs.get("allocationId") == address
    ]
    return f"Elastic IP address [{address}] is already associated" if address and taken else None


def _second_gateway(case: Case) -> str | None:
    vpc = case.inputs.get("vpcId")
    others = [one for one in case.things.of(tokens.GATEWAY) if one is not case.thing and one.inputs.get("vpcId") == vpc]
    return f"Network {vpc} already has an internet gateway attached" if vpc and others else None


def _same_route(case: Case) -> str | None:
    wanted = [case.inputs.get(key) for key in ("routeTableId", "destinationCidrBlock")]
    if any(
        [one.inputs.get("routeTableId"), one.inputs.get("destinationCidrBlock")] == wanted
        for one in case.things.of(tokens.ROUTE)
    ):
        return f"The route identified by {wanted[1]} already exists."
    return None


def _other_network(case: Case) -> str | None:
    table, gateway = case.inputs.get("routeTableId"), case.inputs.get("gatewayId")
    ends = [case.things.get(tokens.ROUTE_TABLE, table), case.things.get(tokens.GATEWAY, gateway)]
    vpcs = [one.inputs.get("vpcId") for one in ends if one is not None]
    if len(vpcs) == 2 and vpcs[0] != vpcs[1]:
        return f"route table {table} and network gateway {gateway} belong to different networks"
    return None


def _subnet_taken(case: Case) -> str | None:
    subnet = case.inputs.get("subnetId")
    if any(one.inputs.get("subnetId") == subnet for one in case.things.of(tokens.ASSOCIATION)):
        return f"the specified association for route table {case.inputs.get('routeTableId')} conflicts with another one"
    return None


def _same_template(case: Case) -> str | None:
    name = case.inputs.get("name")
    return (
        f"{name} already exists"
        if any(one.inputs.get("name") == name for one in case.things.of(tokens.TEMPLATE))
        else None
    )


def _no_such_zone(case: Case) -> str | None:
    zone = case.inputs.get("availabilityZone")
    place = Place.of(case.provider)
    return f"The zone '{zone}' does not exist." if zone and zone not in place.zones else None


def _root_volume(case: Case) -> str | None:
    instance = case.inputs.get("instance")
    return f"Volume {case.id} is currently attached to {instance}" if instance else None


def _smaller(case: Case) -> str | None:
    before, after = value_at(case.thing.inputs, "size") if case.thing else None, case.inputs.get("size")
    if before and after and int(after) < int(before):
        return f"New size cannot be smaller than existing size ({before} GiB to {after} GiB)"
    return None


def _rule(type: str, on: Moments, code: str, action: str, refuses: Refusal, *, waits: bool = False) -> Rule:
    return Rule((type,), on, code, f"{API}API_{action}.html", refuses, waits=waits)


def _held(use: Use) -> Rule:
    code, action, _ = HELD[use.type]
    return _rule(use.type, DELETE, code, action, used(use), waits=use.type in RETRIED)


TAKEN, INVALID = "Resource.AlreadyAssociated", "InvalidParameterValue"
NAME_TAKEN = "InvalidLaunchTemplateName.AlreadyExistsException"
RULES: tuple[Rule, ...] = (
    *(Rule((one.type,), CHANGE, one.code, CODES, absent(one)) for one in REFERENCES),
    *map(_held, USES),
    _rule(tokens.GATEWAY, DELETE, "DependencyViolation", "DetachInternetGateway", _mapped_addresses, waits=True),
    _rule(tokens.GATEWAY, CHANGE, TAKEN, "AttachInternetGateway", _second_gateway),
    _rule(tokens.NAT, CREATE, "Gateway.NotAttached", "CreateNatGateway", _no_gateway),
    _rule(tokens.NAT, CREATE, TAKEN, "CreateNatGateway", _address_taken),
    _rule(tokens.ROUTE, CREATE, "RouteAlreadyExists", "CreateRoute", _same_route),
    _rule(tokens.ROUTE, CHANGE, INVALID, "CreateRoute", _other_network),
    _rule(tokens.ASSOCIATION, CREATE, TAKEN, "AssociateRouteTable", _subnet_taken),
    _rule(tokens.TEMPLATE, CREATE, NAME_TAKEN, "CreateLaunchTemplate", _same_template),
    *(
        _rule(type, CREATE, "InvalidZone.NotFound", "CreateVolume", _no_such_zone)
        for type in (tokens.VOLUME, tokens.SUBNET)
    ),
    _rule(tokens.VOLUME, DELETE, "VolumeInUse", "DeleteVolume", _root_volume),
    _rule(tokens.VOLUME, ("update",), INVALID, "ModifyVolume", _smaller),
)
