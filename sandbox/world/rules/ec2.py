"""Rules of EC2: what must be there before, and what cannot go while something uses it."""

from __future__ import annotations

from typing import NamedTuple

from sandbox.cloud.aws.places import Place
from sandbox.world import tokens
from sandbox.world.rules.rule import Case, Moment, Refusal, Rule
from sandbox.world.things import Thing, Things, value_at, values_at

API = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/"
CODES = API + "errors-overview.html"


class Reference(NamedTuple):
    """An id in a thing's inputs, and what it must name."""

    types: tuple[str, ...]
    path: str
    to: str
    code: str
    source: str
    words: str


class Use(NamedTuple):
    """What keeps a thing from going: things of type `by` whose `path` names it."""

    type: str
    by: str
    path: str
    code: str
    source: str
    words: str


_VPC_HELD = "The vpc '{id}' has dependencies and cannot be deleted."
_SUBNET_HELD = "The subnet '{id}' has dependencies and cannot be deleted."
_ADDRESS_HELD = "The address with allocation id '{id}' cannot be released because it is in use."
_TABLE_HELD = "The routeTable '{id}' has dependencies and cannot be deleted."
_GROUP_HELD = "resource {id} has a dependent object"
_VOLUME_HELD = "Volume {id} is currently attached"
NOT_FOUND = "The {what} ID '{id}' does not exist"

REFERENCES = (
    Reference((tokens.SUBNET,), "vpcId", tokens.VPC, "InvalidVpcID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.GATEWAY,), "vpcId", tokens.VPC, "InvalidVpcID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.ROUTE_TABLE,), "vpcId", tokens.VPC, "InvalidVpcID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.ENDPOINT,), "vpcId", tokens.VPC, "InvalidVpcId.NotFound", CODES, NOT_FOUND),
    Reference(
        (tokens.ENDPOINT,), "routeTableIds", tokens.ROUTE_TABLE, "InvalidRouteTableId.NotFound", CODES, NOT_FOUND
    ),
    Reference((tokens.ENDPOINT,), "subnetIds", tokens.SUBNET, "InvalidSubnetId.NotFound", CODES, NOT_FOUND),
    Reference((tokens.NAT,), "subnetId", tokens.SUBNET, "InvalidSubnetID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.NAT,), "allocationId", tokens.ADDRESS, "InvalidAllocationID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.ROUTE,), "routeTableId", tokens.ROUTE_TABLE, "InvalidRouteTableID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.ROUTE,), "gatewayId", tokens.GATEWAY, "InvalidInternetGatewayID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.ROUTE,), "natGatewayId", tokens.NAT, "InvalidNatGatewayID.NotFound", CODES, NOT_FOUND),
    Reference((tokens.ASSOCIATION,), "subnetId", tokens.SUBNET, "InvalidSubnetID.NotFound", CODES, NOT_FOUND),
    Reference(
        (tokens.ASSOCIATION,), "routeTableId", tokens.ROUTE_TABLE, "InvalidRouteTableID.NotFound", CODES, NOT_FOUND
    ),
)
# A launch template is not here: DeleteLaunchTemplate asks nobody (API_DeleteLaunchTemplate), it is the node group that
# suffers, see `eks`. Nor is a NAT gateway: routes to it become black holes (API_DeleteNatGateway).
USES = (
    *(
        Use(tokens.VPC, by, "vpcId", "DependencyViolation", API + "API_DeleteVpc.html", _VPC_HELD)
        for by in (tokens.SUBNET, tokens.GATEWAY, tokens.ROUTE_TABLE, tokens.SECURITY_GROUP, tokens.ENDPOINT)
    ),
    *(
        Use(tokens.SUBNET, by, path, "DependencyViolation", API + "API_DeleteSubnet.html", _SUBNET_HELD)
        for by, path in ((tokens.INTERFACE, "subnetId"), (tokens.NAT, "subnetId"), (tokens.ENDPOINT, "subnetIds"))
    ),
    Use(
        tokens.ADDRESS,
        tokens.NAT,
        "allocationId",
        "InvalidIPAddress.InUse",
        API + "API_ReleaseAddress.html",
        _ADDRESS_HELD,
    ),
    Use(
        tokens.ROUTE_TABLE,
        tokens.ASSOCIATION,
        "routeTableId",
        "DependencyViolation",
        API + "API_DeleteRouteTable.html",
        _TABLE_HELD,
    ),
    Use(
        tokens.SECURITY_GROUP,
        tokens.INTERFACE,
        "securityGroups",
        "DependencyViolation",
        API + "API_DeleteSecurityGroup.html",
        _GROUP_HELD,
    ),
    Use(
        tokens.SECURITY_GROUP,
        tokens.ENDPOINT,
        "securityGroupIds",
        "DependencyViolation",
        API + "API_DeleteSecurityGroup.html",
        _GROUP_HELD,
    ),
    Use(tokens.VOLUME, tokens.ATTACHMENT, "volumeHandle", "VolumeInUse", API + "API_DeleteVolume.html", _VOLUME_HELD),
)
# Types whose deletion the Terraform provider, and so pulumi-aws, tries again for minutes while EC2 calls them used
# (internal/service/ec2: vpc_.go, vpc_subnet.go, vpc_internet_gateway.go, vpc_security_group.go, ebs_volume.go).
RETRIED = frozenset({tokens.VPC, tokens.SUBNET, tokens.GATEWAY, tokens.SECURITY_GROUP, tokens.VOLUME})


def absent(reference: Reference) -> Refusal:
    """Refuses while an id names nothing."""

    def refuse(case: Case) -> str | None:
        for identity in values_at(case.inputs, reference.path):
            if case.things.get(reference.to, identity) is None:
                what = reference.to.rpartition(":")[2]
                return reference.words.format(what=what[0].lower() + what[1:], id=identity)
        return None

    return refuse


def used(use: Use) -> Refusal:
    """Refuses while something names the thing."""

    def refuse(case: Case) -> str | None:
        users = [one for one in case.things.of(use.by) if case.id in values_at(one.inputs, use.path)]
        return f"{use.words.format(id=case.id)} (used by {users[0].id})" if users else None

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


def _rule(
    types: tuple[str, ...], on: tuple[Moment, ...], code: str, page: str, refuses: Refusal, waits: bool = False
) -> Rule:
    return Rule(types, on, code, API + page, refuses, waits=waits)


RULES: tuple[Rule, ...] = (
    *(Rule(one.types, ("create", "update"), one.code, one.source, absent(one)) for one in REFERENCES),
    *(Rule((one.type,), ("delete",), one.code, one.source, used(one), waits=one.type in RETRIED) for one in USES),
    _rule(
        (tokens.GATEWAY,), ("delete",), "DependencyViolation", "API_DetachInternetGateway.html", _mapped_addresses, True
    ),
    _rule(
        (tokens.GATEWAY,),
        ("create", "update"),
        "Resource.AlreadyAssociated",
        "API_AttachInternetGateway.html",
        _second_gateway,
    ),
    _rule((tokens.NAT,), ("create",), "Gateway.NotAttached", "API_CreateNatGateway.html", _no_gateway),
    _rule((tokens.NAT,), ("create",), "Resource.AlreadyAssociated", "API_CreateNatGateway.html", _address_taken),
    _rule((tokens.ROUTE,), ("create",), "RouteAlreadyExists", "API_CreateRoute.html", _same_route),
    _rule((tokens.ROUTE,), ("create", "update"), "InvalidParameterValue", "API_CreateRoute.html", _other_network),
    _rule(
        (tokens.ASSOCIATION,), ("create",), "Resource.AlreadyAssociated", "API_AssociateRouteTable.html", _subnet_taken
    ),
    _rule(
        (tokens.TEMPLATE,),
        ("create",),
        "InvalidLaunchTemplateName.AlreadyExistsException",
        "API_CreateLaunchTemplate.html",
        _same_template,
    ),
    _rule((tokens.VOLUME, tokens.SUBNET), ("create",), "InvalidZone.NotFound", "API_CreateVolume.html", _no_such_zone),
    _rule((tokens.VOLUME,), ("delete",), "VolumeInUse", "API_DeleteVolume.html", _root_volume),
    _rule((tokens.VOLUME,), ("update",), "InvalidParameterValue", "API_ModifyVolume.html", _smaller),
)
