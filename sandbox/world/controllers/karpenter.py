"""Karpenter, as far as Pulumi sees it: a node of a pool for pods that fit no other node, and the pool's deletion.

The cluster tier runs the real core. Only the first type and subnet of a pool are used here, and there are no overlays,
no limits but the number of nodes, no consolidation and no drift.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.controllers.nodes import EFFECTS, HOST_LABEL, TYPE_LABEL, ZONE_LABEL, cluster_at, launch, made
from sandbox.world.controllers.permissions import allows
from sandbox.world.controllers.pods import Pod, releases
from sandbox.world.controllers.scheduler import placed
from sandbox.world.entities import Entities, Entity, Key, value_at, values_at

CHART = "karpenter"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
POOL_LABEL = "karpenter.sh/nodepool"
AGENT, DNS = "eks-pod-identity-agent", "coredns"
LAUNCH = ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "iam:PassRole")
TERMINATE = ("ec2:TerminateInstances",)
MAKE_PROFILE = ("iam:CreateInstanceProfile", "iam:AddRoleToInstanceProfile")
DELETE_PROFILE = ("iam:ListInstanceProfiles", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile")
"""AWS calls of Karpenter to launch nodes, to terminate them, and to create and delete an EC2NodeClass.
Source: karpenter-provider-aws v1.14.1, pkg/controllers/nodeclass and its cloudformation.yaml."""


def why_idle(entities: Entities, server: str, *calls: str) -> str | None:
    """Why the controller cannot make these calls to AWS. None if it can make them."""
    release = next(iter(releases(entities, server, CHART)), None)
    if release is None:
        return "Karpenter's controller is not installed"
    cluster = cluster_at(entities, server)
    name = cluster.id if cluster else ""
    for addon, lacking in ((AGENT, "gets no credentials"), (DNS, "cannot resolve names")):
        if entities.get(tokens.ADDON, f"{name}:{addon}") is None:
            return f"Karpenter's controller {lacking}: the add-on {addon} is not installed"
    account = value_at(release.inputs, "values.serviceAccount.name") or release.inputs.get("name")
    wanted = {"clusterName": name, "namespace": release.namespace, "serviceAccount": account}
    identity = next(iter(entities.having(tokens.POD_IDENTITY, **wanted)), None)
    if identity is None:
        return f"Karpenter's controller gets no credentials: no association for {release.namespace}/{account}"
    arn = identity.inputs.get("roleArn")
    role = entities.role(arn)
    refused = [call for call in calls if role is None or not allows(entities, role, call)]
    return f"AccessDenied: {arn} is not authorized to perform {refused[0]}" if refused else None


def why_kept(entities: Entities, entity: Entity) -> str | None:
    """Why no controller removes the finalizer of an object of Karpenter, or those of its nodes. None if one does."""
    if entity.type == tokens.NODE_POOL and entities.owned_by(entity, tokens.INSTANCE):
        return why_idle(entities, entity.cluster, *TERMINATE)
    return why_idle(entities, entity.cluster, *DELETE_PROFILE) if entity.type == tokens.NODE_CLASS else None


def pools_with_nodes(entities: Entities, node_class: Entity) -> list[Entity]:
    """The NodePools of a class that have nodes."""
    return [
        pool
        for pool in entities.within(node_class.cluster, tokens.NODE_POOL)
        if _class_of(entities, pool) is node_class and entities.owned_by(pool, tokens.INSTANCE)
    ]


def make_profiles(entities: Entities, server: str) -> None:
    """Creates the instance profile of each EC2NodeClass. It holds the nodes' role as long as the class exists."""
    for node_class in entities.within(server, tokens.NODE_CLASS):
        role = value_at(node_class.inputs, "spec.role")
        if (
            not entities.owned_by(node_class, tokens.PROFILE)
            and entities.get(tokens.ROLE, role)
            and why_idle(entities, server, *MAKE_PROFILE) is None
        ):
            name = f"{node_class.id}_{digest(server, node_class.id, str(node_class.serial), length=12)}"
            made(entities, tokens.PROFILE, name, name, CHART, node_class.key, {"name": name, "role": role})


@dataclass(frozen=True, slots=True)
class _NewNode:
    """A node that Karpenter can launch."""

    pool: Entity
    node_class: Entity
    subnet: str
    node: Entity
    """The future node. It does not exist yet."""


def placed_with_new_nodes(
    entities: Entities, server: str, namespace: str, pods: Iterable[Pod], ignored: Key | None = None
) -> list[Entity | str]:
    """The node of each pod, perhaps one that Karpenter would launch, or why it has none."""
    coming = [new.node for new in _possible_nodes(entities, server)]
    return placed(entities, server, namespace, pods, ignored, coming)


def provision(entities: Entities, server: str, namespace: str, pods: Iterable[Pod]) -> None:
    """Launches nodes for pods that fit no other node."""
    possible = _possible_nodes(entities, server)
    found = placed(entities, server, namespace, pods, coming=[new.node for new in possible])
    chosen = {where.id for where in found if isinstance(where, Entity)}
    for new in possible:
        if new.node.id in chosen:
            _launch(entities, new)


def _class_of(entities: Entities, pool: Entity) -> Entity | None:
    wanted = value_at(pool.inputs, "spec.template.spec.nodeClassRef.name")
    return next((entity for entity in entities.within(pool.cluster, tokens.NODE_CLASS) if entity.id == wanted), None)


def _possible_nodes(entities: Entities, server: str) -> list[_NewNode]:
    if why_idle(entities, server, *LAUNCH) is not None:
        return []
    found = []
    for pool in entities.within(server, tokens.NODE_POOL):
        node_class = _class_of(entities, pool)
        if node_class is None or not entities.owned_by(node_class, tokens.PROFILE):
            continue
        launched = len(entities.owned_by(pool, tokens.INSTANCE))
        for number in range(launched, int(value_at(pool.inputs, "spec.limits.nodes") or 1)):
            zone, subnet = _place(entities, pool, node_class)
            node = _described(pool, f"new-{pool.id}-{number}", zone)
            # Plain text, unlike that of a launch template (karpenter.sh/docs/concepts/nodeclasses/, spec.userData).
            node.inputs = {"userData": value_at(node_class.inputs, "spec.userData") or ""}
            found.append(_NewNode(pool, node_class, subnet, node))
    return found


def _place(entities: Entities, pool: Entity, node_class: Entity) -> tuple[str, str]:
    """Zone and subnet of a pool's nodes: the first of its class that the pool allows."""
    allowed = _allowed(pool, ZONE_LABEL)
    given = values_at(node_class.inputs, "spec.subnetSelectorTerms.id")
    subnets = [subnet for one in given if (subnet := entities.get(tokens.SUBNET, one)) is not None]
    places = [(str(subnet.outputs.get("availabilityZone")), subnet.id) for subnet in subnets]
    return next((place for place in places if not allowed or place[0] in allowed), ("", ""))


def _described(pool: Entity, name: str, zone: str) -> Entity:
    own = {
        POOL_LABEL: pool.id,
        CAPACITY_LABEL: "spot" if "spot" in _allowed(pool, CAPACITY_LABEL) else "on-demand",
        TYPE_LABEL: _allowed(pool, TYPE_LABEL)[0],
        ZONE_LABEL: zone,
        HOST_LABEL: name,
        "kubernetes.io/os": "linux",
    }
    labels = {**own, **(value_at(pool.inputs, "spec.template.metadata.labels") or {})}
    given = values_at(pool.inputs, "spec.template.spec.taints")
    taints = [{**one, "effect": EFFECTS.get(one.get("effect"), one.get("effect"))} for one in given]
    outputs = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}
    return Entity(type=tokens.NODE, id=name, name=name, inputs={}, outputs=outputs, cluster=pool.cluster)


def _allowed(pool: Entity, label: str) -> list[str]:
    """Values that the pool's requirements allow for a label; empty for any."""
    found = values_at(pool.inputs, "spec.template.spec.requirements")
    return next((list(one["values"]) for one in found if one.get("key") == label), [])


def _launch(entities: Entities, new: _NewNode) -> None:
    labels = value_at(new.node.outputs, "metadata.labels")
    disk = value_at(new.node_class.inputs, "spec.blockDeviceMappings.ebs") or {}
    instance, node = launch(
        entities,
        owner=new.pool,
        name=new.pool.id,
        by=CHART,
        kind=labels[TYPE_LABEL],
        spot=labels[CAPACITY_LABEL] == "spot",
        subnet=new.subnet,
        security_groups=values_at(new.node_class.inputs, "spec.securityGroupSelectorTerms.id"),
        disk={"size": disk.get("volumeSize"), "type": disk.get("volumeType")},
        user_data=new.node.inputs["userData"],
    )
    node.cluster = new.pool.cluster
    metadata = {"name": node.id, "labels": {**labels, HOST_LABEL: node.id}}
    node.outputs = {"metadata": metadata, "spec": {**new.node.outputs["spec"], "providerID": instance.id}}
