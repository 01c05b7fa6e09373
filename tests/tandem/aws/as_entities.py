"""Everything in moto's state, in the form that the emulated cloud's rules read."""

from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends
from moto.events.models import events_backends
from moto.iam.models import iam_backends
from moto.scheduler.models import scheduler_backends

from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity
from tests.tandem.aws.emulated import ACCOUNT, REGION


def entity(type: str, id: str, **inputs: Any) -> Entity:
    return Entity(type=type, id=id, name=id, inputs=inputs, outputs=inputs)


def entities() -> Entities:
    """Everything in moto's state that can depend on something else, as entities of the emulated cloud."""
    return Entities([*_network(), *_nodes(), *_clusters(), *_senders(), *_identities()])


def _network() -> Iterator[Entity]:
    ec2 = ec2_backends[ACCOUNT][REGION]
    for vpc in ec2.vpcs.values():
        yield entity(tokens.VPC, vpc.id)
    for zone in ec2.subnets.values():
        for subnet in zone.values():
            yield entity(
                tokens.SUBNET, subnet.id, vpcId=subnet.vpc_id, mapPublicIpOnLaunch=subnet.map_public_ip_on_launch
            )
    for gateway in ec2.internet_gateways.values():
        yield entity(tokens.GATEWAY, gateway.id, vpcId=gateway.vpc.id if gateway.vpc else None)
    for nat in ec2.nat_gateways.values():
        if nat.state != "deleted":
            address = next((one for one in ec2.addresses if one.eni is nat._eni), None)
            yield entity(tokens.NAT, nat.id, subnetId=nat.subnet_id, allocationId=address and address.allocation_id)
    for address in ec2.addresses:
        yield entity(tokens.ADDRESS, str(address.allocation_id))
    for table in ec2.route_tables.values():
        if table.main_association_id is None:
            yield entity(tokens.ROUTE_TABLE, table.id, vpcId=table.vpc_id)
        for association, held in table._associations.items():
            yield entity(tokens.ASSOCIATION, association, routeTableId=table.id, subnetId=held)
        for route in table.routes:
            to = {"gatewayId": route.gateway and route.gateway.id, "natGatewayId": _id(route.nat_gateway)}
            yield entity(
                tokens.ROUTE, route.id, routeTableId=table.id, destinationCidrBlock=route.destination_cidr_block, **to
            )
    for endpoint in ec2.vpc_end_points.values():
        if endpoint.state != "deleted":
            groups, subnets = endpoint.security_group_ids, endpoint.subnet_ids
            yield entity(
                tokens.ENDPOINT, endpoint.id, vpcId=endpoint.vpc_id, subnetIds=subnets, securityGroupIds=groups
            )
    for in_vpc in ec2.groups.values():
        for group in in_vpc.values():
            if group.name != "default":
                yield entity(tokens.SECURITY_GROUP, group.id, vpcId=group.vpc_id)


def _id(one: Any) -> Any:
    return one and getattr(one, "id", one)


def _nodes() -> Iterator[Entity]:
    ec2 = ec2_backends[ACCOUNT][REGION]
    for interface in ec2.enis.values():
        yield entity(
            tokens.INTERFACE,
            interface.id,
            subnetId=interface.subnet.id,
            vpcId=interface.subnet.vpc_id,
            securityGroups=[group.id for group in interface.group_set],
            publicIp=interface.public_ip,
            instance=interface.instance.id if interface.instance and _runs(interface.instance) else None,
        )
    for reservation in ec2.reservations.values():
        for instance in reservation.instances:
            if _runs(instance):
                tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
                group = f"{tags.get('eks:cluster-name')}/{tags.get('eks:nodegroup-name')}"
                profile = (instance.iam_instance_profile or {}).get("Arn", "").rpartition("/")[2]
                yield entity(tokens.INSTANCE, instance.id, group=group, profile=profile)
    for volume in ec2.volumes.values():
        attached = volume.attachment and _runs(volume.attachment.instance) and volume.attachment.instance.id
        yield entity(tokens.VOLUME, volume.id, instance=attached or None)


def _runs(instance: Any) -> bool:
    return instance._state.name not in ("terminated", "stopped")


def _clusters() -> Iterator[Entity]:
    for cluster in eks_backends[ACCOUNT][REGION].clusters.values():
        yield entity(tokens.CLUSTER, cluster.name, roleArn=cluster.role_arn)
        for group in cluster.nodegroups.values():
            template = (group.launch_template or {}).get("id")
            yield entity(
                tokens.NODE_GROUP,
                f"{cluster.name}/{group.nodegroup_name}",
                clusterName=cluster.name,
                nodeRoleArn=group.node_role,
                launchTemplate=template,
                subnetIds=group.subnets,
            )


def _senders() -> Iterator[Entity]:
    """What sends to queues: rules of EventBridge, and schedules."""
    for rule in events_backends[ACCOUNT][REGION].event_buses["default"].rules.values():
        for target in rule.targets:
            yield entity(tokens.EVENT_TARGET, f"{rule.name}/{target['Id']}", queue=target["Arn"])
    for group in scheduler_backends[ACCOUNT][REGION].schedule_groups.values():
        for schedule in group.schedules.values():
            target = schedule.target
            queue = target["DeadLetterConfig"]["Arn"]
            yield entity(tokens.SCHEDULE, f"{group.name}/{schedule.name}", role=target["RoleArn"], queue=queue)


def _identities() -> Iterator[Entity]:
    iam = iam_backends[ACCOUNT]["aws"]
    for role in iam.roles.values():
        yield entity(tokens.ROLE, role.name, arn=role.arn)
        for arn in role.managed_policies:
            yield entity(tokens.ATTACHED_POLICY, f"{role.name}/{arn}", role=role.name, policyArn=arn)
    for profile in iam.instance_profiles.values():
        for role in profile.roles:
            yield entity(tokens.PROFILE, profile.name, role=role.name)
    for arn in iam.managed_policies:
        if f":{ACCOUNT}:" in arn:
            yield entity(tokens.POLICY, arn)
