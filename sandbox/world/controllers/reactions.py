"""The reactions of AWS's and Kubernetes' controllers to each call: they create and delete nodes, pods and CRDs."""

from typing import Any

from sandbox.world import tokens
from sandbox.world.controllers import jobs
from sandbox.world.controllers.helm import install, replace_pods, uninstall
from sandbox.world.controllers.karpenter import launch_nodes
from sandbox.world.controllers.nodes import admit_creator, make_access_entry, make_control_plane, refresh, scale
from sandbox.world.controllers.pods import pods_of, pods_of_job
from sandbox.world.controllers.settling import settle
from sandbox.world.controllers.user_data import keep_version
from sandbox.world.entities import PULUMI, Entities, Entity


def created(entities: Entities, entity: Entity, caller: str, *, joins: bool = True) -> None:
    """Runs the controllers after a creation by `caller`. Without `joins`, a group's nodes never join the cluster."""
    if entity.type == tokens.CLUSTER:
        make_control_plane(entities, entity)
        admit_creator(entities, entity, caller)
    elif entity.type == tokens.NODE_GROUP:
        make_access_entry(entities, entity)
        if joins:
            scale(entities, entity)
    elif entity.type == tokens.TEMPLATE:
        keep_version(entities, entity)
    elif entity.type == tokens.RELEASE:
        install(entities, entity)
    elif entity.type == tokens.JOB:
        jobs.run(entities, entity)
    settle(entities)


def updated(entities: Entities, entity: Entity, before: dict[str, Any]) -> None:
    """Runs the controllers after an update."""
    if entity.type == tokens.CLUSTER:
        make_control_plane(entities, entity)
    elif entity.type == tokens.NODE_GROUP:
        refresh(entities, entity, before)
    elif entity.type == tokens.TEMPLATE:
        keep_version(entities, entity)
    elif entity.type == tokens.RELEASE:
        replace_pods(entities, entity)
    settle(entities)


def delete(entities: Entities, entity: Entity) -> None:
    """Deletes a resource, and everything that is deleted with it."""
    if entity.type == tokens.CLUSTER:
        _delete_cluster(entities, entity)
    elif entity.type == tokens.RELEASE:
        uninstall(entities, entity)
    elif entity.type == tokens.NAMESPACE:
        _empty(entities, entity)
    elif entity.type == tokens.SCHEDULE_GROUP:
        # https://docs.aws.amazon.com/scheduler/latest/APIReference/API_DeleteScheduleGroup.html
        for schedule in entities.having(tokens.SCHEDULE, groupName=entity.id):
            entities.remove(schedule)
    entities.remove(entity)
    settle(entities)


def answer_pending(entities: Entities, type: str, inputs: dict[str, Any], server: str) -> bool:
    """Launches nodes for the pods of a release or Job that waits. Returns whether there are new ones."""
    pods = pods_of(inputs) if type == tokens.RELEASE else pods_of_job("", inputs) if type == tokens.JOB else []
    if not any(launch_nodes(entities, server, pod) for pod in pods):
        return False
    settle(entities)
    return True


def _empty(entities: Entities, namespace: Entity) -> None:
    """Deletes the releases in a namespace, without running their hooks, and then everything else in it."""
    inside = [entity for entity in entities.inside(namespace.cluster) if entity.namespace == namespace.id]
    for one in sorted(inside, key=lambda one: one.type != tokens.RELEASE):
        if entities.get(one.type, one.id) is not None:
            delete(entities, one)


def _delete_cluster(entities: Entities, cluster: Entity) -> None:
    """Deletes a cluster and its objects, which Pulumi can then no longer reach. EBS volumes stay."""
    inside = entities.inside(str(cluster.outputs["endpoint"]))
    for below in [below for one in inside for below in entities.owned_by(one) if below.type.startswith("aws:")]:
        below.owner = None
    for one in inside:
        if one.made_by == PULUMI:
            entities.buried[one.key] = one.cluster
        entities.remove(one)
    for token in (tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY):
        for entity in entities.having(token, clusterName=cluster.id):
            entities.remove(entity)
