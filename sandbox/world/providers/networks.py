"""Functions that describe networks, as the AWS provider answers them from EC2's descriptions."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sandbox.cloud.aws.places import Place
from sandbox.cloud.protocol import Question, Values
from sandbox.world import tokens
from sandbox.world.entities import CloudError, Entities, Entity, values_at

TFRESOURCE = "https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/tfresource/not_found_error.go"
TARGETS = ("destinationPrefixListId", "gatewayId", "natGatewayId")
"""Keys of a route that our programs read, besides `cidrBlock`; those that do not apply are empty."""


_DEFAULTS: dict[str, Values] = {
    tokens.VPC: {"enableDnsSupport": True, "enableDnsHostnames": False},
    tokens.SUBNET: {"mapPublicIpOnLaunch": False, "availableIpAddressCount": 4091},
}
"""What a resource has if its program says nothing (API_CreateVpc.html, API_CreateSubnet.html), and the free addresses
of a new subnet with 20 bits: EC2 keeps five (VPC user guide, subnet-sizing)."""


def answer(entities: Entities, question: Question) -> Values | None:
    """The function's result, or None for other functions. Raises CloudError as the provider does."""
    found = ANSWERS.get(question.token)
    return {**question.args, **found(entities, question)} if found else None


def _found(entity: Entity | None, code: str, what: str) -> dict[str, Any]:
    """The entity. Without one, the error has EC2's code and the provider's text (SingularDataSourceFindError)."""
    if entity is None:
        raise CloudError(code, f"no matching EC2 {what} found", TFRESOURCE)
    return {**entity.outputs, "id": entity.id}


def _by_id(token: str, code: str, what: str, entities: Entities, question: Question) -> Values:
    found = {**_DEFAULTS.get(token, {}), **_found(entities.get(token, question.args.get("id")), code, what)}
    if zone := found.get("availabilityZone"):
        found["availabilityZoneId"] = Place.of(question.provider).zones.get(zone, zone)
    # The main route table of a VPC has no entity, and no route to the internet.
    return {"mainRouteTableId": f"rtb-main-{found['id']}", **found} if token == tokens.VPC else found


def _tables(entities: Entities, question: Question) -> Values:
    """Route tables by the filter `association.subnet-id`, the only one."""
    wanted = values_at(question.args, "filters.values")
    associated = [one.inputs for one in entities.of(tokens.ASSOCIATION) if one.inputs["subnetId"] in wanted]
    return {"id": "tables", "ids": sorted({str(one["routeTableId"]) for one in associated})}


def _table(entities: Entities, question: Question) -> Values:
    id = question.args["routeTableId"]
    routes = [one.inputs for one in entities.having(tokens.ROUTE, routeTableId=id)]
    associations = [one.inputs for one in entities.having(tokens.ASSOCIATION, routeTableId=id)]
    return {
        "id": id,
        "routes": [
            {"cidrBlock": one.get("destinationCidrBlock", ""), **{key: one.get(key, "") for key in TARGETS}}
            for one in routes
        ],
        "associations": [{"subnetId": one["subnetId"]} for one in associations],
    }


def _endpoint(entities: Entities, question: Question) -> Values:
    """An endpoint by the filters `service-name` and `vpc-endpoint-type`; `Gateway` is the default of a program."""
    wanted = {one["name"]: one["values"] for one in question.args["filters"]}
    kinds = wanted.get("vpc-endpoint-type", ["Gateway", "Interface"])
    there = entities.having(tokens.ENDPOINT, vpcId=question.args["vpcId"])
    named = [one for one in there if one.inputs["serviceName"] in wanted["service-name"]]
    found = next((one for one in named if one.inputs.get("vpcEndpointType", "Gateway") in kinds), None)
    return _found(found, "InvalidVpcEndpointId.NotFound", "VPC Endpoint")


ANSWERS: dict[str, Callable[[Entities, Question], Values]] = {
    "aws:ec2/getVpc:getVpc": partial(_by_id, tokens.VPC, "InvalidVpcID.NotFound", "VPC"),
    "aws:ec2/getSubnet:getSubnet": partial(_by_id, tokens.SUBNET, "InvalidSubnetID.NotFound", "Subnet"),
    "aws:ec2/getSecurityGroup:getSecurityGroup": partial(
        _by_id, tokens.SECURITY_GROUP, "InvalidGroup.NotFound", "Security Group"
    ),
    "aws:ec2/getRouteTables:getRouteTables": _tables,
    "aws:ec2/getRouteTable:getRouteTable": _table,
    "aws:ec2/getVpcEndpoint:getVpcEndpoint": _endpoint,
    # No network here has one.
    "aws:ec2/getVpnGateway:getVpnGateway": partial(_by_id, "", "InvalidVpnGatewayID.NotFound", "VPN Gateway"),
}
"""By the function's token."""
