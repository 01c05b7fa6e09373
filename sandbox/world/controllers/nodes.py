"""Nodes: resources that EKS and EC2 create and delete for control planes and node groups."""

from typing import Any

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.controllers import hardware, quotas
from sandbox.world.controllers.user_data import decoded, template_of
from sandbox.world.entities import Entities, Entity, Key, value_at, values_at

Values = dict[str, Any]
BY_EKS, BY_SCALING = "eks", "ec2-auto-scaling"
BLOCKING = ("NO_SCHEDULE", "NO_EXECUTE")
EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}
"""EKS's spelling of a taint's effect, by Kubernetes' spelling."""
# Changes of a group that replace every node: EKS drains and terminates the old ones.
# https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
RECYCLING = ("version", "releaseVersion", "launchTemplate.version")
SURGE_PER_ZONE = 2
"""Nodes per zone that an update with the strategy DEFAULT adds to the group (same page)."""
TYPE_LABEL = "node.kubernetes.io/instance-type"


def cluster_at(entities: Entities, server: str) -> Entity | None:
    """The EKS cluster with this API server."""
    return next((entity for entity in entities.of(tokens.CLUSTER) if entity.outputs["endpoint"] == server), None)


def labels(node: Entity) -> dict[str, str]:
    """A node's labels."""
    return dict(value_at(node.outputs, "metadata.labels") or {})


def gpu_count(node: Entity) -> int:
    """Number of a node's NVIDIA GPUs."""
    return hardware.gpus(labels(node).get(TYPE_LABEL, ""))


def taints(of: Values) -> list[dict[str, str]]:
    """Taints in the outputs of a node, or in a template for nodes, in EKS's spelling (`effect: NO_SCHEDULE`)."""
    return [{**one, "effect": EFFECTS.get(one["effect"], one["effect"])} for one in values_at(of, "spec.taints")]


def meets(has: dict[str, str], requirement: dict[str, Any]) -> bool:
    """Whether labels meet a requirement of a pod."""
    # No manifest here uses another operator.
    return requirement.get("operator") == "In" and has.get(str(requirement.get("key"))) in requirement["values"]


def make_control_plane(entities: Entities, cluster: Entity) -> None:
    """Creates EKS's security group, its network interfaces in the subnets, and a log group without an owner."""
    group = str(value_at(cluster.outputs, "vpcConfig.clusterSecurityGroupId"))
    network = value_at(cluster.outputs, "vpcConfig.vpcId")
    name = f"eks-cluster-sg-{cluster.id}"
    made(entities, tokens.SECURITY_GROUP, group, name, BY_EKS, cluster.key, {"vpcId": network, "name": name})
    interfaces = entities.owned_by(cluster, tokens.INTERFACE)
    wanted = set(values_at(cluster.inputs, "vpcConfig.subnetIds"))
    for interface in interfaces:
        if interface.inputs["subnetId"] not in wanted:
            entities.remove(interface)
    for subnet in sorted(wanted - {one.inputs["subnetId"] for one in interfaces}):
        made(entities, tokens.INTERFACE, "", f"Amazon EKS {cluster.id}", BY_EKS, cluster.key, {"subnetId": subnet})
    if cluster.inputs.get("enabledClusterLogTypes"):
        logs = f"/aws/eks/{cluster.id}/cluster"
        # No owner: it outlives the cluster. https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
        made(entities, tokens.LOG_GROUP, logs, logs, BY_EKS, None, {"name": logs})


def admit_creator(entities: Entities, cluster: Entity, caller: str) -> None:
    """Makes the cluster's creator its admin, unless the cluster's access configuration disables that.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html
    """
    if value_at(cluster.inputs, "accessConfig.bootstrapClusterCreatorAdminPermissions") is False:
        return
    policy = f"arn:{caller.split(':')[1]}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = {"clusterName": cluster.id, "principalArn": caller}
    made(entities, tokens.ACCESS_ENTRY, f"{cluster.id}:{caller}", caller, BY_EKS, cluster.key, entry)
    granted = {**entry, "policyArn": policy}
    made(entities, tokens.ACCESS_POLICY, f"{cluster.id}#{caller}#{policy}", caller, BY_EKS, cluster.key, granted)


def make_access_entry(entities: Entities, group: Entity) -> None:
    """Creates the access entry for the role of a managed node group, as EKS does.

    https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
    """
    cluster, role = group.inputs.get("clusterName"), group.inputs.get("nodeRoleArn")
    values = {"clusterName": cluster, "principalArn": role}
    made(entities, tokens.ACCESS_ENTRY, f"{cluster}:{role}", str(role), BY_EKS, group.key, values)


def desired(inputs: Values) -> int:
    """Number of nodes that a group with these inputs wants."""
    return int(value_at(inputs, "scalingConfig.desiredSize") or 0)


def scale(entities: Entities, group: Entity) -> None:
    """Scales a group to its desired size, as far as the quota allows, spread over its subnets."""
    _scale_to(entities, group, desired(group.inputs))


def _scale_to(entities: Entities, group: Entity, wanted: int) -> None:
    have = entities.owned_by(group, tokens.INSTANCE)
    for instance in have[wanted:]:
        entities.remove(instance)
    # An Auto Scaling group keeps trying to launch the others.
    most = min(wanted, len(have) + quotas.room(entities, *launched(group.inputs)))
    for index in range(len(have), most):
        _make_node(entities, group, index)


def launched(inputs: Values) -> quotas.Launch:
    """The instances that a group with these inputs launches: its first type, and whether they are spot."""
    return str(value_at(inputs, "instanceTypes") or "t3.medium"), inputs.get("capacityType") == "SPOT"


def is_recycled(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the change of a group's inputs replaces every node of it."""
    return any(value_at(before, path) != value_at(after, path) for path in RECYCLING)


def surge(entities: Entities, group: Entity, inputs: dict[str, Any]) -> int:
    """Number of nodes that an update adds before it removes the old ones: none with the strategy MINIMAL.

    With DEFAULT, it is the larger of two per zone and `maxUnavailable` (page above). The page does not
    describe a group without nodes. Here, the number is 0.
    """
    if value_at(inputs, "updateConfig.updateStrategy") == "MINIMAL" or not entities.owned_by(group, tokens.INSTANCE):
        return 0
    subnets = [entities.get(tokens.SUBNET, one) for one in values_at(inputs, "subnetIds")]
    zones = {one.outputs.get("availabilityZone") for one in subnets if one}
    return int(max([SURGE_PER_ZONE * len(zones), *values_at(inputs, "updateConfig.maxUnavailable")]))


def refresh(entities: Entities, group: Entity, before: dict[str, Any]) -> None:
    """Applies a change of the group: replaces nodes, adds or removes some, or changes their labels and taints."""
    if is_recycled(before, group.inputs):
        old = entities.owned_by(group, tokens.INSTANCE)
        _scale_to(entities, group, len(old) + surge(entities, group, group.inputs))
        name = str(group.outputs["nodeGroupName"])
        entities.recycled[name] = entities.recycled.get(name, 0) + len(old)
        for instance in old:
            entities.remove(instance)
    scale(entities, group)
    for instance in entities.owned_by(group, tokens.INSTANCE):
        for node in entities.owned_by(instance, tokens.NODE):
            node.outputs = _of_group(instance, group)


def _make_node(entities: Entities, group: Entity, index: int) -> None:
    cluster = entities.get(tokens.CLUSTER, group.inputs.get("clusterName"))
    kind, spot = launched(group.inputs)
    subnets = values_at(group.inputs, "subnetIds")
    template = template_of(entities, group.inputs)
    instance, node = launch(
        entities,
        owner=group,
        name=str(group.outputs["nodeGroupName"]),
        by=BY_SCALING,
        kind=kind,
        spot=spot,
        subnet=subnets[index % len(subnets)],
        # EKS adds the cluster's group only to a template without any (userguide/launch-templates.html).
        security_groups=template.get("vpcSecurityGroupIds")
        or [value_at(cluster.outputs, "vpcConfig.clusterSecurityGroupId") if cluster else None],
        user_data=decoded(template.get("userData")),
    )
    node.cluster = str(cluster.outputs["endpoint"]) if cluster else ""
    node.outputs = _of_group(instance, group)


def launch(
    entities: Entities,
    *,
    owner: Entity,
    name: str,
    by: str,
    kind: str,
    spot: bool,
    subnet: str | None,
    security_groups: list[Any],
    user_data: str | None,
) -> tuple[Entity, Entity]:
    """Creates an instance with network interface and root volume, and its node, which has no details yet.

    The node keeps its user data: a change of the template or class does not reach nodes that run.
    """
    found = entities.get(tokens.SUBNET, subnet)
    place = found.outputs if found else {}
    zone = {"availabilityZone": place.get("availabilityZone"), "subnetId": found.id if found else None}
    lifecycle = {"lifecycle": "spot"} if spot else {}
    instance = made(entities, tokens.INSTANCE, "", name, by, owner.key, {"instanceType": kind, **zone, **lifecycle})
    quotas.note_peak(entities)
    public = {"publicIp": "203.0.113.1"} if place.get("mapPublicIpOnLaunch") else {}
    interface = {"vpcId": place.get("vpcId"), "securityGroups": security_groups, "instance": instance.id}
    made(entities, tokens.INTERFACE, "", instance.id, by, instance.key, {**zone, **interface, **public})
    made(entities, tokens.VOLUME, "", instance.id, by, instance.key, {**zone, "instance": instance.id})
    host = f"ip-{instance.serial}.ec2.internal"
    node = made(entities, tokens.NODE, host, host, by, instance.key, {})
    node.inputs = {"userData": user_data} if user_data else {}
    return instance, node


def describe_node(instance: Entity, labels: Values, taints: list[Values]) -> Values:
    """Outputs of a node with these labels and taints."""
    own = {TYPE_LABEL: instance.inputs["instanceType"]}
    return {"metadata": {"labels": {**own, **labels}}, "spec": {"taints": taints}}


def _of_group(instance: Entity, group: Entity) -> Values:
    return describe_node(instance, group.inputs.get("labels") or {}, list(group.inputs.get("taints") or ()))


_PREFIXES = {tokens.INTERFACE: "eni", tokens.INSTANCE: "i", tokens.VOLUME: "vol"}


def made(
    entities: Entities,
    token: str,
    identity: str,
    name: str,
    by: str,
    owner: Key | None,
    values: dict[str, Any],
    cluster: str = "",
) -> Entity:
    """Creates a resource on behalf of a controller, by default with a new id. `cluster` is for Kubernetes objects."""
    entities.serial += 1
    identity = identity or f"{_PREFIXES[token]}-{digest(token, name, str(entities.serial))}"
    new = Entity(
        type=token,
        id=identity,
        name=name,
        inputs=dict(values),
        outputs=dict(values),
        made_by=by,
        owner=owner,
        serial=entities.serial,
    )
    found = entities.get(token, identity) or entities.add(new)
    found.cluster = cluster or found.cluster
    return found
