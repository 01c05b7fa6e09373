"""Karpenter: the nodes that it launches for pending pods, and its requirements for launching and terminating them.

Karpenter counts by the NodeOverlay, or else by GPUs, and respects the pool's limit. Where possible, this was measured
on the core of 1.14.1. The model has no prices, no nodes launched while the device plugin is missing, and no
consolidation of nodes with pods. An empty node stays until its pool is deleted or a test moves the clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.identity import digest
from sandbox.world import quotas, tokens
from sandbox.world.entities import Entities, Entity, Key, value_at, values_at
from sandbox.world.hardware import instance_types
from sandbox.world.nodes import EFFECTS, HOST_LABEL, TYPE_LABEL, ZONE_LABEL, cluster_at, launch, made, meets, sold_in
from sandbox.world.permissions import allows
from sandbox.world.plugin import COUNTED_ON
from sandbox.world.pods import Pod, releases
from sandbox.world.scheduler import groups, placed, preference
from sandbox.world.storage import has_policy

CHART = "karpenter"
BEYOND_LIMITS = "all available instance types exceed limits"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
POOL_LABEL = "karpenter.sh/nodepool"
GPU = "nvidia.com/gpu"
AGENT, DNS = "eks-pod-identity-agent", "coredns"
LAUNCH = ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "iam:PassRole")
TERMINATE = ("ec2:TerminateInstances",)
MAKE_PROFILE = ("iam:CreateInstanceProfile", "iam:AddRoleToInstanceProfile")
DELETE_PROFILE = ("iam:ListInstanceProfiles", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile")
"""AWS calls of Karpenter to launch nodes, to terminate them, and to create and delete an EC2NodeClass.
Source: karpenter-provider-aws v1.14.1, pkg/controllers/nodeclass and its cloudformation.yaml."""
JOINING = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistry")


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that Karpenter is about to launch."""

    pool: Entity
    node_class: Entity
    subnet: str
    node: Entity
    """The future node. It does not exist yet."""


# Requirements.


def idle(entities: Entities, server: str, *calls: str) -> str | None:
    """Why the controller cannot make these calls to AWS. None if it can make them."""
    release = next(iter(releases(entities, server, CHART)), None)
    if release is None or not any(one.outputs["node"] for one in entities.owned_by(release, tokens.POD)):
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


def gate_is_on(entities: Entities, server: str) -> bool:
    """Whether the controller uses NodeOverlays."""
    gate = "values.settings.featureGates.nodeOverlay"
    return [value_at(one.inputs, gate) for one in releases(entities, server, CHART)][:1] == [True]


# Launching nodes.


def placed_with_new_nodes(
    entities: Entities, server: str, namespace: str, pods: Iterable[Pod], ignored: Key | None = None
) -> tuple[list[Entity | str], list[NewNode]]:
    """The node of each pod, or why it has none, after Karpenter has launched nodes. Also returns those nodes."""
    wanted, new = list(pods), list[NewNode]()
    while True:
        coming = [one.node for one in new]
        found = placed(entities, server, namespace, wanted, ignored, coming)
        why, index = "", 0
        for group in groups(wanted):
            where, index = found[index], index + len(group)
            if isinstance(where, str):
                bought = _bought_for(entities, server, namespace, group, new)
                if isinstance(bought, NewNode):
                    new.append(bought)
                    break
                why = f" Karpenter launches none: {bought}." if bought else ""
        else:
            return [f"{where}{why}" if isinstance(where, str) else where for where in found], new


def _bought_for(entities: Entities, server: str, namespace: str, pods: list[Pod], new: list[NewNode]) -> NewNode | str:
    """The node that a pool launches for pods that must run together, or why no pool launches one."""
    reasons = []
    labels = "spec.template.metadata.labels"
    preferred = sorted(
        entities.within(server, tokens.NODE_POOL),
        key=lambda pool: -preference(pods[0], value_at(pool.inputs, labels) or {}),
    )
    for pool in preferred:
        reason = _unable(entities, server, pool)
        if reason is None:
            left = _left(entities, pool, new)
            for candidate in _candidates(entities, server, pool, new):
                if any(candidate.node.outputs[COUNTED_ON].get(name, 0) > count for name, count in left.items()):
                    reason = BEYOND_LIMITS
                elif placed(entities, server, namespace, pods, None, [candidate.node])[0] is candidate.node:
                    return candidate
            reason = reason or "no instance type satisfied resources and requirements"
        reasons.append(f"{pool.id}: {reason}")
    return "; ".join(reasons)


def _unable(entities: Entities, server: str, pool: Entity) -> str | None:
    if (reason := idle(entities, server, *LAUNCH)) is not None:
        return reason
    node_class = _class_of(entities, pool)
    if node_class is None or _profile(entities, node_class) is None:
        return "its EC2NodeClass is not ready"
    if (reason := _unjoinable(entities, server, node_class)) is not None:
        return reason
    if _capacity_type(entities, pool) is None:
        return "all requested instance types were unavailable during launch: no spot capacity"
    limit = value_at(pool.inputs, "spec.limits.nodes")
    return (
        BEYOND_LIMITS if limit is not None and len(entities.owned_by(pool, tokens.NODE_CLAIM)) >= int(limit) else None
    )


def _left(entities: Entities, pool: Entity, new: list[NewNode]) -> dict[str, int]:
    """The unused part of each limited extended resource. Within a batch, `nodes` is not enforced (scheduler.go)."""
    limits = {name: int(limit) for name, limit in (value_at(pool.inputs, "spec.limits") or {}).items() if "/" in name}
    nodes = [*(one.node for one in new), *entities.within(pool.cluster, tokens.NODE)]
    own = [node for node in nodes if value_at(node.outputs, "metadata.labels").get(POOL_LABEL) == pool.id]
    return {name: limit - sum(one.outputs[COUNTED_ON].get(name, 0) for one in own) for name, limit in limits.items()}


def _capacity_type(entities: Entities, pool: Entity) -> str | None:
    """The capacity type that Karpenter launches: spot if the pool allows it, or else on-demand if the pool allows that.

    Without the service-linked role it treats spot as unavailable and only records an event.
    karpenter-provider-aws 1.14.1, pkg/providers/instance/instance.go, `getCapacityType` and `checkODFallback`.
    """
    allowed = _required(pool, CAPACITY_LABEL) or ["on-demand"]
    if "spot" in allowed and entities.has_spot:
        return "spot"
    return "on-demand" if "on-demand" in allowed else None


def _unjoinable(entities: Entities, server: str, node_class: Entity) -> str | None:
    """Why nodes of the class would never register. None if they would register."""
    role, cluster = entities.get(tokens.ROLE, value_at(node_class.inputs, "spec.role")), cluster_at(entities, server)
    if role is None or cluster is None:
        return "its nodes' role does not exist"
    entry = entities.get(tokens.ACCESS_ENTRY, f"{cluster.id}:{role.outputs.get('arn')}")
    if entry is None or entry.inputs.get("type") != "EC2_LINUX":
        return f"its nodes do not register: no EC2_LINUX access entry for {role.id}"
    lacking = [policy for policy in JOINING if not has_policy(entities, role, policy)]
    return f"its nodes do not register: {role.id} lacks {', '.join(lacking)}" if lacking else None


def _candidates(entities: Entities, server: str, pool: Entity, new: list[NewNode]) -> Iterable[NewNode]:
    """A node for each type and subnet that pool and quotas allow, in the order of the pool's lists."""
    node_class = _class_of(entities, pool)
    assert node_class is not None, "a pool without a class is never ready"
    zones, coming = _required(pool, ZONE_LABEL), [_launched(one) for one in new]
    for kind in _required(pool, TYPE_LABEL) or []:
        if not quotas.room(entities, kind, _is_spot(pool), coming):
            continue
        for subnet in values_at(node_class.inputs, "spec.subnetSelectorTerms.id"):
            place = entities.get(tokens.SUBNET, subnet)
            zone = place.outputs.get("availabilityZone") if place else None
            # A zone without the type is not an offering (offering/base_resolver.go, `itZones.Has(zone)`).
            if place is None or (zones is not None and zone not in zones) or not sold_in(entities, subnet, [kind]):
                continue
            name = f"new-{len(new)}"
            node = Entity(type=tokens.NODE, id=name, name=name, inputs={}, outputs={}, cluster=server)
            node.outputs = _described(entities, server, pool, name, kind, str(zone))
            yield NewNode(pool, node_class, subnet, node)


def _described(entities: Entities, server: str, pool: Entity, name: str, kind: str, zone: str) -> dict[str, Any]:
    own = {
        POOL_LABEL: pool.id,
        CAPACITY_LABEL: str(_capacity_type(entities, pool)),
        TYPE_LABEL: kind,
        ZONE_LABEL: zone,
        HOST_LABEL: name,
        "kubernetes.io/os": "linux",
    }
    given = value_at(pool.inputs, "spec.template.metadata.labels") or {}
    taints = [
        {**one, "effect": EFFECTS.get(one.get("effect"), one.get("effect"))}
        for one in values_at(pool.inputs, "spec.template.spec.taints")
    ]
    return {
        "metadata": {"name": name, "labels": {**own, **given}},
        "spec": {"taints": taints},
        COUNTED_ON: counted_on(entities, server, {**own, **given}),
    }


def counted_on(entities: Entities, server: str, labels: dict[str, str]) -> dict[str, int]:
    """Extended resources that Karpenter expects on a node with these labels: EC2's, modified by the overlays."""
    kind = instance_types().get(labels.get(TYPE_LABEL, ""))
    # EC2 reports no GPU for a type that has a part of a GPU.
    counted = {GPU: kind.gpus} if kind is not None and not kind.gpu.is_slice else {}
    if not gate_is_on(entities, server):
        return counted
    overlays = sorted(
        entities.within(server, tokens.NODE_OVERLAY), key=lambda one: int(value_at(one.inputs, "spec.weight") or 1)
    )
    for overlay in overlays:
        if all(meets(labels, one) for one in values_at(overlay.inputs, "spec.requirements")):
            capacity = value_at(overlay.inputs, "spec.capacity") or {}
            counted |= {resource: int(count) for resource, count in capacity.items()}
    return counted


def _required(pool: Entity, key: str) -> list[str] | None:
    """Values that the pool's requirements allow for a label. None means any."""
    found = values_at(pool.inputs, "spec.template.spec.requirements")
    return next((list(one["values"]) for one in found if one.get("key") == key and one.get("operator") == "In"), None)


# Controllers.


def reconcile(entities: Entities, server: str) -> None:
    """Creates the instance profile of each EC2NodeClass. It holds the nodes' role as long as the class exists."""
    for node_class in entities.within(server, tokens.NODE_CLASS):
        role = value_at(node_class.inputs, "spec.role")
        if (
            _profile(entities, node_class) is None
            and entities.get(tokens.ROLE, role)
            and not idle(entities, server, *MAKE_PROFILE)
        ):
            name = f"{node_class.id}_{digest(server, node_class.id, str(node_class.serial), length=12)}"
            made(entities, tokens.PROFILE, name, name, CHART, node_class.key, {"name": name, "role": role})


def provision(entities: Entities, server: str, namespace: str, waiting: Iterable[Pod]) -> None:
    """Launches nodes for pending pods."""
    for new in placed_with_new_nodes(entities, server, namespace, waiting)[1]:
        claim_name = f"{new.pool.id}-{digest(new.pool.id, str(entities.serial), length=5)}"
        claim = made(entities, tokens.NODE_CLAIM, claim_name, claim_name, CHART, new.pool.key, {}, server)
        disk = value_at(new.node_class.inputs, "spec.blockDeviceMappings.ebs") or {}
        instance, node = launch(
            entities,
            owner=claim,
            name=claim_name,
            by=CHART,
            kind=_launched(new)[0],
            spot=_launched(new)[1],
            subnet=new.subnet,
            security_groups=values_at(new.node_class.inputs, "spec.securityGroupSelectorTerms.id"),
            disk={"size": disk.get("volumeSize"), "type": disk.get("volumeType")},
        )
        node.cluster = server
        labels = {**value_at(new.node.outputs, "metadata.labels"), HOST_LABEL: node.id}
        spec = {**new.node.outputs["spec"], "providerID": instance.id}
        node.outputs = {**new.node.outputs, "metadata": {"name": node.id, "labels": labels}, "spec": spec}


def upgrade(entities: Entities, cluster: Entity, before: dict[str, Any]) -> None:
    """Replaces the nodes after an upgrade of the control plane.

    An alias like `al2023@v20260714` means a different image for each Kubernetes version. So an upgrade changes the
    images of an unchanged class, and its nodes drift (karpenter-provider-aws 1.14.1, resolvePath in
    pkg/providers/amifamily/al2023.go and isAMIDrifted in pkg/cloudprovider/drift.go).
    """
    if before.get("version") == cluster.inputs.get("version"):
        return
    for node_class in entities.within(str(cluster.outputs["endpoint"]), tokens.NODE_CLASS):
        if values_at(node_class.inputs, "spec.amiSelectorTerms.alias"):
            for pool in pools_of(entities, node_class):
                _replace_nodes(entities, pool)


def _launched(new: NewNode) -> quotas.Launch:
    return value_at(new.node.outputs, "metadata.labels")[TYPE_LABEL], _is_spot(new.pool)


def _is_spot(pool: Entity) -> bool:
    """Whether the pool allows spot, which Karpenter then prefers."""
    return "spot" in (_required(pool, CAPACITY_LABEL) or [])


def drift(entities: Entities, entity: Entity, before: dict[str, Any]) -> None:
    """Replaces the nodes of a pool whose template or class has changed, one at a time.

    Karpenter terminates a node when its replacement is ready, so the pool can exceed its limit by one node. Without
    quota for that node, the old one stays. Here the old node is terminated first. Then Karpenter launches the new one
    for its pods.
    Source: karpenter v1.14.1, pkg/controllers/disruption/helpers.go SimulateScheduling (the candidate does not count),
    queue.go.
    """
    if entity.type == tokens.NODE_POOL:
        old, new = (_static(value_at(values, "spec.template")) for values in (before, entity.inputs))
        pools = [entity] if old != new else []
    else:
        pools = pools_of(entities, entity) if before.get("spec") != entity.inputs.get("spec") else []
    for pool in pools:
        _replace_nodes(entities, pool)


def _replace_nodes(entities: Entities, pool: Entity) -> None:
    claims = entities.owned_by(pool, tokens.NODE_CLAIM) if idle(entities, pool.cluster, *TERMINATE) is None else []
    for claim in claims:
        kinds = [str(one.inputs["instanceType"]) for one in entities.owned_by(claim, tokens.INSTANCE)]
        if not all(quotas.room(entities, kind, _is_spot(pool)) for kind in kinds):
            break
        quotas.note_peak(entities, [(kind, _is_spot(pool)) for kind in kinds])
        entities.recycled[pool.id] = entities.recycled.get(pool.id, 0) + 1
        entities.remove(claim)


def _static(template: Any) -> Any:
    """The template without fields whose change does not replace nodes."""
    spec = {
        key: value for key, value in template["spec"].items() if key not in ("requirements", "terminationGracePeriod")
    }
    return {**template, "spec": spec}


def consolidate(entities: Entities) -> None:
    """Terminates empty nodes, as Karpenter does some time after their last pod has gone, not counting DaemonSets."""
    used = {one.outputs["node"] for one in entities.of(tokens.POD)}
    for claim in entities.of(tokens.NODE_CLAIM):
        below = [
            node.id for one in entities.owned_by(claim, tokens.INSTANCE) for node in entities.owned_by(one, tokens.NODE)
        ]
        if not used & {*below} and idle(entities, claim.cluster, *TERMINATE) is None:
            entities.remove(claim)


def pools_of(entities: Entities, node_class: Entity) -> list[Entity]:
    """The NodePools of a class."""
    return [
        one for one in entities.within(node_class.cluster, tokens.NODE_POOL) if _class_of(entities, one) is node_class
    ]


def _class_of(entities: Entities, pool: Entity) -> Entity | None:
    wanted = value_at(pool.inputs, "spec.template.spec.nodeClassRef.name")
    return next((one for one in entities.within(pool.cluster, tokens.NODE_CLASS) if one.id == wanted), None)


def _profile(entities: Entities, node_class: Entity) -> Entity | None:
    return next(iter(entities.owned_by(node_class, tokens.PROFILE)), None)
