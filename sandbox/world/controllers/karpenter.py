"""Karpenter, as far as Pulumi sees it: what is ready, and what keeps an object or a node.

The cluster tier runs the real core. Here, the first pod that waits brings as many nodes as the limits
of the pools allow, of their first types and subnets.
"""

import json

from sandbox.world import tokens
from sandbox.world.controllers.nodes import TYPE_LABEL, cluster_at, describe_node, launch, made
from sandbox.world.controllers.pods import Pod, releases
from sandbox.world.controllers.scheduler import must_leave
from sandbox.world.entities import Entities, Entity, value_at, values_at

CHART = "karpenter"
AGENT, DNS = "eks-pod-identity-agent", "coredns"
CALLS = ("ec2:RunInstances", "iam:PassRole")
"""Calls to AWS, one of each of the controller's two policies: without either policy, it can do nothing here."""


def why_idle(entities: Entities, server: str) -> str | None:
    """Why the controller cannot work. None if it can."""
    release = next(iter(releases(entities, server, CHART)), None)
    if release is None:
        return "Karpenter's controller is not installed"
    cluster = cluster_at(entities, server)
    name = cluster.id if cluster else ""
    for addon, lacking in ((AGENT, "gets no credentials"), (DNS, "cannot resolve names")):
        if entities.get(tokens.ADDON, f"{name}:{addon}") is None:
            return f"Karpenter's controller {lacking}: the add-on {addon} is not installed"
    account = value_at(release.inputs, "values.serviceAccount.name") or release.inputs.get("name")
    wanted = {"namespace": release.namespace, "serviceAccount": account}
    identity = next(iter(entities.having(tokens.POD_IDENTITY, **wanted)), None)
    if identity is None:
        return f"Karpenter's controller gets no credentials: no association for {release.namespace}/{account}"
    arn = identity.inputs["roleArn"]
    allowed = _allowed(entities, entities.role(arn))
    refused = [call for call in CALLS if call not in allowed]
    return f"AccessDenied: {arn} is not authorized to perform {refused[0]}" if refused else None


def _allowed(entities: Entities, role: Entity | None) -> list[str]:
    """Actions that the policies of a role allow on some resource. Conditions are ignored."""
    attached = entities.having(tokens.ATTACHED_POLICY, role=role.id) if role else []
    policies = [entities.get(tokens.POLICY, one.inputs["policyArn"]) for one in attached]
    return values_at([json.loads(one.inputs["policy"]) for one in policies if one], "Statement.Action")


def why_kept(entities: Entities, entity: Entity) -> str | None:
    """Why no controller removes the finalizer of an object of Karpenter, or those of its nodes. None if one does."""
    is_held = entity.type == tokens.NODE_CLASS or entities.owned_by(entity, tokens.INSTANCE)
    return why_idle(entities, entity.cluster) if is_held else None


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
            and why_idle(entities, server) is None
        ):
            name = f"{node_class.id}_{node_class.serial}"
            made(entities, tokens.PROFILE, name, name, CHART, node_class.key, {"role": role})


def launch_nodes(entities: Entities, server: str, pod: Pod) -> bool:
    """Launches all nodes of the pools on which a pending pod may stay. Returns whether it launched any."""
    before = len(entities.of(tokens.INSTANCE))
    if why_idle(entities, server) is not None:
        return False
    for pool in entities.within(server, tokens.NODE_POOL):
        node_class = _class_of(entities, pool)
        if node_class is None or must_leave(pod, pool.inputs["spec"]["template"]):
            continue
        launched = len(entities.owned_by(pool, tokens.INSTANCE))
        for _ in range(launched, int(value_at(pool.inputs, "spec.limits.nodes"))):
            _launch(entities, pool, node_class)
    return len(entities.of(tokens.INSTANCE)) > before


def _class_of(entities: Entities, pool: Entity) -> Entity | None:
    wanted = value_at(pool.inputs, "spec.template.spec.nodeClassRef.name")
    return next((entity for entity in entities.within(pool.cluster, tokens.NODE_CLASS) if entity.id == wanted), None)


def _launch(entities: Entities, pool: Entity, node_class: Entity) -> None:
    template = value_at(pool.inputs, "spec.template")
    [kinds] = [one["values"] for one in template["spec"]["requirements"] if one["key"] == TYPE_LABEL]
    instance, node = launch(
        entities,
        owner=pool,
        name=pool.id,
        by=CHART,
        kind=kinds[0],
        spot=False,
        subnet=value_at(node_class.inputs, "spec.subnetSelectorTerms.id"),
        security_groups=values_at(node_class.inputs, "spec.securityGroupSelectorTerms.id"),
        # Plain text, unlike that of a launch template (karpenter.sh/docs/concepts/nodeclasses/, spec.userData).
        user_data=value_at(node_class.inputs, "spec.userData"),
    )
    node.cluster = pool.cluster
    node.outputs = describe_node(instance, template["metadata"]["labels"], template["spec"]["taints"])
