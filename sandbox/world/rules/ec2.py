"""Rules of EC2: resources that must exist first, and resources that cannot be deleted while in use."""

from typing import Any

from sandbox.cloud.aws.places import Place
from sandbox.world import tokens
from sandbox.world.controllers.user_data import MOST_BYTES, decoded
from sandbox.world.rules.rule import CHANGE, CREATE, DELETE, Case, Moments, Refusal, Rule, absent, taken, used

API = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/"
CODES = API + "errors-overview.html"

REFERENCES = (
    (tokens.SUBNET, "vpcId", tokens.VPC, "InvalidVpcID.NotFound"),
    (tokens.GATEWAY, "vpcId", tokens.VPC, "InvalidVpcID.NotFound"),
    (tokens.ROUTE_TABLE, "vpcId", tokens.VPC, "InvalidVpcID.NotFound"),
    (tokens.ENDPOINT, "vpcId", tokens.VPC, "InvalidVpcId.NotFound"),
    (tokens.ENDPOINT, "routeTableIds", tokens.ROUTE_TABLE, "InvalidRouteTableId.NotFound"),
    (tokens.NAT, "subnetId", tokens.SUBNET, "InvalidSubnetID.NotFound"),
    (tokens.NAT, "allocationId", tokens.ADDRESS, "InvalidAllocationID.NotFound"),
    (tokens.ROUTE, "routeTableId", tokens.ROUTE_TABLE, "InvalidRouteTableID.NotFound"),
    (tokens.ROUTE, "gatewayId", tokens.GATEWAY, "InvalidInternetGatewayID.NotFound"),
    (tokens.ROUTE, "natGatewayId", tokens.NAT, "InvalidNatGatewayID.NotFound"),
    (tokens.TEMPLATE, "vpcSecurityGroupIds", tokens.SECURITY_GROUP, "InvalidGroup.NotFound"),
    (tokens.ASSOCIATION, "subnetId", tokens.SUBNET, "InvalidSubnetID.NotFound"),
    (tokens.ASSOCIATION, "routeTableId", tokens.ROUTE_TABLE, "InvalidRouteTableID.NotFound"),
)
# Launch templates and NAT gateways are not in this table. DeleteLaunchTemplate has no condition
# (API_DeleteLaunchTemplate), but afterwards the node group fails, see `eks`. Routes to a deleted NAT gateway become
# black holes (API_DeleteNatGateway).
USES = (
    (tokens.VPC, tokens.SUBNET, "vpcId"),
    (tokens.VPC, tokens.GATEWAY, "vpcId"),
    (tokens.VPC, tokens.ROUTE_TABLE, "vpcId"),
    (tokens.VPC, tokens.SECURITY_GROUP, "vpcId"),
    (tokens.VPC, tokens.ENDPOINT, "vpcId"),
    (tokens.SUBNET, tokens.INTERFACE, "subnetId"),
    (tokens.SUBNET, tokens.NAT, "subnetId"),
    (tokens.SUBNET, tokens.ENDPOINT, "subnetIds"),
    (tokens.ADDRESS, tokens.NAT, "allocationId"),
    (tokens.ROUTE_TABLE, tokens.ASSOCIATION, "routeTableId"),
    (tokens.SECURITY_GROUP, tokens.INTERFACE, "securityGroups"),
    (tokens.SECURITY_GROUP, tokens.ENDPOINT, "securityGroupIds"),
    (tokens.VOLUME, tokens.ATTACHMENT, "volumeHandle"),
)
HELD = {
    tokens.VPC: ("DependencyViolation", "DeleteVpc", "The vpc '{id}' has dependencies and cannot be deleted."),
    tokens.SUBNET: ("DependencyViolation", "DeleteSubnet", "The subnet '{id}' has dependencies and cannot be deleted."),
    tokens.ADDRESS: (
        "InvalidIPAddress.InUse",
        "ReleaseAddress",
        "The address with allocation id '{id}' cannot be released because it is in use.",
    ),
    tokens.ROUTE_TABLE: (
        "DependencyViolation",
        "DeleteRouteTable",
        "The routeTable '{id}' has dependencies and cannot be deleted.",
    ),
    tokens.SECURITY_GROUP: ("DependencyViolation", "DeleteSecurityGroup", "resource {id} has a dependent object"),
    tokens.VOLUME: ("VolumeInUse", "DeleteVolume", "Volume {id} is currently attached"),
}
"""EC2's error for deleting a resource that is in use: code, action and message."""


def _vpc_of(case: Case, inputs: dict[str, Any]) -> str | None:
    """The VPC of a resource in a subnet."""
    subnet = case.entities.get(tokens.SUBNET, inputs.get("subnetId"))
    return subnet.inputs.get("vpcId") if subnet else None


def _mapped_addresses(case: Case) -> str | None:
    vpc = case.inputs.get("vpcId")
    nats = [entity for entity in case.entities.of(tokens.NAT) if _vpc_of(case, entity.inputs) == vpc]
    held = [
        *nats,
        *(entity for entity in case.entities.having(tokens.INTERFACE, vpcId=vpc) if entity.inputs.get("publicIp")),
    ]
    if not held:
        return None
    return (
        f"Network {vpc} has some mapped public address(es). "
        f"Please unmap those public address(es) before detaching the gateway. ({held[0].id})"
    )


def _no_gateway(case: Case) -> str | None:
    vpc = _vpc_of(case, case.inputs)
    return (
        None if case.entities.having(tokens.GATEWAY, vpcId=vpc) else f"Network {vpc} has no Internet gateway attached"
    )


def _other_network(case: Case) -> str | None:
    table, gateway = case.inputs.get("routeTableId"), case.inputs.get("gatewayId")
    ends = [case.entities.get(tokens.ROUTE_TABLE, table), case.entities.get(tokens.GATEWAY, gateway)]
    vpcs = [one.inputs.get("vpcId") for one in ends if one is not None]
    if len(vpcs) == 2 and vpcs[0] != vpcs[1]:
        return f"route table {table} and network gateway {gateway} belong to different networks"
    return None


def _no_such_zone(case: Case) -> str | None:
    zone = case.inputs.get("availabilityZone")
    place = Place.of(case.provider)
    return f"The zone '{zone}' does not exist." if zone and zone not in place.zones else None


def _not_base64(case: Case) -> str | None:
    """EC2 accepts some such text, depending on the region (rancher/eks-operator#33). Here, all of it is rejected."""
    return "Invalid BASE64 encoding of user data." if decoded(case.inputs.get("userData")) is None else None


def _too_long(case: Case) -> str | None:
    given = decoded(case.inputs.get("userData")) or ""
    return f"User data is limited to {MOST_BYTES} bytes." if len(given) > MOST_BYTES else None


def _root_volume(case: Case) -> str | None:
    instance = case.inputs.get("instance")
    return f"Volume {case.id} is currently attached to {instance}" if instance else None


def _smaller(case: Case) -> str | None:
    before, after = case.existing.inputs.get("size"), case.inputs.get("size")
    if before and after and int(after) < int(before):
        return f"New size cannot be smaller than existing size ({before} GiB to {after} GiB)"
    return None


def _rule(type: str, on: Moments, code: str, action: str, refuses: Refusal) -> Rule:
    return Rule((type,), on, code, f"{API}API_{action}.html", refuses)


def _absent(type: str, path: str, to: str, code: str) -> Rule:
    what = to.rpartition(":")[2]
    words = f"The {what[0].lower() + what[1:]} ID '{{id}}' does not exist"
    return Rule((type,), CHANGE, code, CODES, absent(path, to, words))


def _held(type: str, by: str, path: str) -> Rule:
    code, action, words = HELD[type]
    return _rule(type, DELETE, code, action, used(by, path, words + " (used by {by})"))


# Errors of CreateLaunchTemplate and CreateLaunchTemplateVersion.
ENCODED = "https://github.com/pulumi/pulumi-aws/issues/2284"
LIMITED = "https://github.com/github-aws-runners/terraform-aws-github-runner/issues/3700"
TAKEN, INVALID = "Resource.AlreadyAssociated", "InvalidParameterValue"
NAME_TAKEN = "InvalidLaunchTemplateName.AlreadyExistsException"
SECOND_GATEWAY = taken("vpcId", words="Network {vpcId} already has an internet gateway attached")
ADDRESS_TAKEN = taken("allocationId", words="Elastic IP address [{allocationId}] is already associated")
SAME_ROUTE = taken(
    "routeTableId",
    "destinationCidrBlock",
    words="The route identified by {destinationCidrBlock} already exists.",
)
SUBNET_TAKEN = taken(
    "subnetId",
    words="the specified association for route table {routeTableId} conflicts with another one",
)
RULES: tuple[Rule, ...] = (
    *(_absent(*one) for one in REFERENCES),
    *(_held(*one) for one in USES),
    _rule(tokens.GATEWAY, DELETE, "DependencyViolation", "DetachInternetGateway", _mapped_addresses),
    _rule(tokens.GATEWAY, CHANGE, TAKEN, "AttachInternetGateway", SECOND_GATEWAY),
    _rule(tokens.NAT, CREATE, "Gateway.NotAttached", "CreateNatGateway", _no_gateway),
    _rule(tokens.NAT, CREATE, TAKEN, "CreateNatGateway", ADDRESS_TAKEN),
    _rule(tokens.ROUTE, CREATE, "RouteAlreadyExists", "CreateRoute", SAME_ROUTE),
    _rule(tokens.ROUTE, CHANGE, INVALID, "CreateRoute", _other_network),
    _rule(tokens.ASSOCIATION, CREATE, TAKEN, "AssociateRouteTable", SUBNET_TAKEN),
    _rule(tokens.TEMPLATE, CREATE, NAME_TAKEN, "CreateLaunchTemplate", taken("name", words="{name} already exists")),
    Rule((tokens.TEMPLATE,), CHANGE, "InvalidUserData.Malformed", ENCODED, _not_base64),
    Rule((tokens.TEMPLATE,), CHANGE, "InvalidUserData.Malformed", LIMITED, _too_long),
    _rule(tokens.VOLUME, CREATE, "InvalidZone.NotFound", "CreateVolume", _no_such_zone),
    _rule(tokens.SUBNET, CREATE, "InvalidZone.NotFound", "CreateVolume", _no_such_zone),
    _rule(tokens.VOLUME, DELETE, "VolumeInUse", "DeleteVolume", _root_volume),
    _rule(tokens.VOLUME, ("update",), INVALID, "ModifyVolume", _smaller),
)
