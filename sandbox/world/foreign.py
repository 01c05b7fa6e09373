"""A VPC that is not the stack's: somebody else made it, and nothing of it is ever left over."""

from typing import Any

from sandbox.cloud.aws.places import Place
from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity
from sharing.sections.existing import ExistingVpc

ELSEWHERE = "somebody else"
"""Maker of such resources."""


def found_vpc(entities: Entities, region: str, vpc: ExistingVpc) -> None:
    """Adds what is missing of a VPC: private subnets in two zones in turn, with NAT, and an endpoint for S3."""

    def add(token: str, id: str, **values: Any) -> str:
        id = id if id.partition("-")[2] else f"{id}-{digest('of', vpc.id, *map(str, values.values()))}"
        if entities.get(token, id) is None:
            entities.add(Entity(type=token, id=id, name=id, inputs=values, outputs=dict(values), made_by=ELSEWHERE))
        return id

    zones = list(Place(region).zones)
    add(tokens.VPC, vpc.id, cidrBlock="10.64.0.0/16", enableDnsHostnames=True)
    table = add(tokens.ROUTE_TABLE, "rtb")
    for index, subnet in enumerate(dict.fromkeys([*vpc.subnets, *vpc.node_subnets])):
        place = {"availabilityZone": zones[index % 2], "mapPublicIpOnLaunch": False}
        add(tokens.SUBNET, subnet, vpcId=vpc.id, cidrBlock=f"10.64.{16 * index}.0/20", **place)
        add(tokens.ASSOCIATION, "rtbassoc", subnetId=subnet, routeTableId=table)
    nat = add(tokens.NAT, "nat")
    add(tokens.ROUTE, "r", routeTableId=table, destinationCidrBlock="0.0.0.0/0", natGatewayId=nat)
    add(tokens.ENDPOINT, "vpce", vpcId=vpc.id, serviceName=f"com.amazonaws.{region}.s3")
    for group in vpc.security_groups:
        add(tokens.SECURITY_GROUP, group, vpcId=vpc.id, name=group)
