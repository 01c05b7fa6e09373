"""The controllers of AWS and Kubernetes: after each call they create and delete nodes, pods, volumes and CRDs."""

from typing import Any

from sandbox.world import jobs, journal, karpenter, plugin, tokens
from sandbox.world.entities import PULUMI, Entities, Entity, value_at
from sandbox.world.nodes import admit_creator, made, make_access_entry, make_control_plane, refresh, scale
from sandbox.world.pods import DISCOVERY, chart, pods_of
from sandbox.world.pods import Pod as PodSpec
from sandbox.world.scheduler import must_leave, placed
from sandbox.world.storage import claims, detach, mount

BY_HELM, BY_SCHEDULER = "helm", "kube-scheduler"

# CRDs of the pinned charts: kinds by group, and whether an uninstall deletes them. Helm keeps CRDs in
# `crds/` and deletes CRDs that are templates (seen by installing the charts).
_KARPENTER: dict[str, tuple[str, ...]] = {
    "karpenter.sh": ("NodePool", "NodeClaim", "NodeOverlay"),
    "karpenter.k8s.aws": ("EC2NodeClass",),
    "autoscaling.x-k8s.io": ("CapacityBuffer",),
}
CHART_CRDS: dict[str, tuple[dict[str, tuple[str, ...]], bool]] = {
    "karpenter-crd": (_KARPENTER, True),
    "karpenter": (_KARPENTER, False),
    DISCOVERY: ({"nfd.k8s-sigs.io": ("NodeFeature", "NodeFeatureGroup", "NodeFeatureRule")}, False),
    "keda": (
        {
            "keda.sh": ("ScaledObject", "ScaledJob", "TriggerAuthentication", "ClusterTriggerAuthentication"),
            "eventing.keda.sh": ("CloudEventSource", "ClusterCloudEventSource"),
        },
        True,
    ),
    "keda-add-ons-http": ({"http.keda.sh": ("HTTPScaledObject", "InterceptorRoute")}, True),
    "gpu-operator": (
        {
            "nvidia.com": ("ClusterPolicy", "NVIDIADriver", "GPUCluster"),
            "resource.nvidia.com": ("ComputeDomain", "ComputeDomainClique"),
        },
        False,
    ),
}


def custom_type(entity: Entity) -> tuple[str, str]:
    """Group and kind that a CRD defines."""
    return str(value_at(entity.inputs, "spec.group")), str(value_at(entity.inputs, "spec.names.kind"))


def group_and_kind(token: str) -> tuple[str, str]:
    """Group and kind of a Kubernetes type token."""
    _, place, kind = token.split(":", 2)
    return place.partition("/")[0], kind


def created(entities: Entities, entity: Entity, caller: str, *, joins: bool = True) -> None:
    """Runs the controllers after a creation by `caller`. Without `joins`, a group's nodes never join the cluster."""
    if entity.type == tokens.CLUSTER:
        make_control_plane(entities, entity)
        admit_creator(entities, entity, caller)
    elif entity.type == tokens.NODE_GROUP:
        make_access_entry(entities, entity)
        if joins:
            scale(entities, entity)
    elif entity.type == tokens.RELEASE:
        _install(entities, entity)
    elif entity.type == tokens.JOB:
        jobs.run(entities, entity)
    _settle(entities)


def reclaimed(entities: Entities, group: Entity) -> None:
    """Runs the controllers after EC2 has reclaimed the spot instances of a node group."""
    for instance in entities.owned_by(group, tokens.INSTANCE):
        entities.remove(instance)
    _settle(entities)


def updated(entities: Entities, entity: Entity, before: dict[str, Any]) -> None:
    """Runs the controllers after an update."""
    if entity.type == tokens.CLUSTER:
        make_control_plane(entities, entity)
        karpenter.upgrade(entities, entity, before)
    elif entity.type == tokens.NODE_GROUP:
        refresh(entities, entity, before)
    elif entity.type == tokens.RELEASE:
        entities.scaled.pop(entity.id, None)
        _replace_pods(entities, entity)
    elif entity.type in (tokens.NODE_POOL, tokens.NODE_CLASS):
        karpenter.drift(entities, entity, before)
    _settle(entities)


def rescale(entities: Entities, release: Entity, replicas: int) -> None:
    """Sets the replicas of a release's Deployment. Helm does not notice: its next upgrade sets its own number."""
    entities.scaled[release.id] = replicas
    _replace_pods(entities, release)
    _settle(entities)


def _pods_of(entities: Entities, release: Entity) -> list[PodSpec]:
    replicas = entities.scaled.get(release.id)
    if replicas is None:
        return pods_of(release.inputs)
    return pods_of({**release.inputs, "values": {**(release.inputs.get("values") or {}), "replicaCount": replicas}})


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
    _settle(entities)


def _empty(entities: Entities, namespace: Entity) -> None:
    """Deletes the releases in a namespace, without running their hooks, and then everything else in it."""
    inside = [one for one in entities.inside(namespace.cluster) if one.namespace == namespace.id]
    for one in sorted(inside, key=lambda one: one.type != tokens.RELEASE):
        if entities.get(one.type, one.id) is not None:
            delete(entities, one)


def uninstall(entities: Entities, release: Entity) -> None:
    """Deletes everything that Helm deletes with a release: its pods, and CRDs that are templates."""
    for pod in entities.owned_by(release, tokens.POD):
        entities.remove(pod)
    _settle(entities)
    crds = entities.owned_by(release, tokens.CRD)
    if CHART_CRDS.get(chart(release.inputs), ({}, False))[1]:
        delete_custom_resources(entities, crds)
    else:
        for one in crds:
            one.owner = None
    entities.scaled.pop(release.id, None)
    entities.remove(release)


def delete_custom_resources(entities: Entities, crds: list[Entity]) -> None:
    """Deletes all objects of the kinds that these CRDs define. Pulumi does not know about it."""
    for crd in crds:
        for one in custom_resources(entities, crd):
            entities.remove(one)


def custom_resources(entities: Entities, crd: Entity) -> list[Entity]:
    """All objects of the kind that a CRD defines."""
    wanted = custom_type(crd)
    inside = [one for one in entities.inside(crd.cluster) if one.type.count(":") == 2]
    return [one for one in inside if group_and_kind(one.type) == wanted]


def leave_job(entities: Entities, release: Entity, name: str) -> None:
    """Leaves behind the Job of a hook that found no node. No resource owns it."""
    job = made(entities, tokens.JOB, f"{release.namespace}/{name}", name, BY_HELM, None, {})
    job.cluster, job.outputs["metadata"] = release.cluster, {"name": name, "namespace": release.namespace}


def _install(entities: Entities, release: Entity) -> None:
    groups, _ = CHART_CRDS.get(chart(release.inputs), ({}, False))
    if not release.inputs.get("skipCrds") or chart(release.inputs) == "karpenter-crd":
        for group, kinds in groups.items():
            for kind in kinds:
                name = f"{kind.lower()}s.{group}"
                defined = {"spec": {"group": group, "names": {"kind": kind}}}
                crd = made(entities, tokens.CRD, name, name, BY_HELM, release.key, defined, release.cluster)
                # The next release takes over a CRD that an uninstalled release has left behind.
                crd.owner = crd.owner or release.key
    _replace_pods(entities, release)


def _replace_pods(entities: Entities, release: Entity) -> None:
    for old in entities.owned_by(release, tokens.POD):
        entities.remove(old)
    for pod in _pods_of(entities, release):
        identity = f"{release.namespace}/{pod.name}"
        one = made(entities, tokens.POD, identity, pod.name, BY_SCHEDULER, release.key, {}, release.cluster)
        one.outputs = {
            "metadata": {"name": pod.name, "namespace": release.namespace},
            "needs": pod.needs,
            "apart": pod.apart,
            "claims": [f"{release.namespace}/{name}" for name in pod.claims],
            "node": "",
        }


def _settle(entities: Entities) -> None:
    """Schedules pods. Pods of lost nodes become pending. Pending pods move to nodes, which are launched if necessary.

    If labels and taints of a node change in one call, its pods leave before its plugin has the new config. In a real
    cluster, both start together, and a process runs until its grace period is over. There, the proof separates old and
    new pods. Its pods need all shares, so they start only when the old pods have freed theirs. They use CUDA only when
    all of them run, and the models start after the proof.
    """
    for release in entities.of(tokens.RELEASE):
        for pod in _pods_of(entities, release):
            _evict(entities, release, pod)
    journal.note_stops(entities)
    plugin.settle(entities)
    journal.note_modes(entities)
    queue = _queue(entities)
    for release, pod in queue:
        _schedule(entities, release, pod)
    # Karpenter runs when its controllers have nodes.
    for cluster in entities.of(tokens.CLUSTER):
        karpenter.reconcile(entities, str(cluster.outputs["endpoint"]))
    for release in {release.key: release for release, _ in queue}.values():
        waiting = [pod for pod in _pods_of(entities, release) if _is_pending(entities, release, pod)]
        karpenter.provision(entities, release.cluster, release.namespace, waiting)
        journal.note_modes(entities)
        for pod in _pods_of(entities, release):
            _schedule(entities, release, pod)
    running = [one for one in entities.of(tokens.POD) if one.outputs["node"]]
    detach(entities, {(claim, one.outputs["node"]) for one in running for claim in one.outputs["claims"]})


def _evict(entities: Entities, release: Entity, pod: PodSpec) -> None:
    """Evicts a pod. Its Deployment recreates it, here with the same name."""
    one = entities.get(tokens.POD, f"{release.namespace}/{pod.name}")
    if one is not None and one.outputs["node"]:
        node = entities.get(tokens.NODE, one.outputs["node"])
        if node is None or must_leave(pod, node):
            one.outputs["node"] = ""


def _queue(entities: Entities) -> list[tuple[Entity, PodSpec]]:
    """The pods of all releases, those of a higher priority first (kubernetes
    pkg/scheduler/framework/plugins/queuesort/priority_sort.go), then in the order of their releases. The scheduler
    takes those that have waited longest. No pod preempts another here.
    """
    priorities = {
        (one.cluster, value_at(one.inputs, "metadata.name")): int(one.inputs.get("value") or 0)
        for one in entities.of(tokens.PRIORITY_CLASS)
    }
    pods = [(release, pod) for release in entities.of(tokens.RELEASE) for pod in _pods_of(entities, release)]
    return sorted(pods, key=lambda one: -priorities.get((one[0].cluster, one[1].priority_class), 0))


def _is_pending(entities: Entities, release: Entity, pod: PodSpec) -> bool:
    one = entities.get(tokens.POD, f"{release.namespace}/{pod.name}")
    return one is not None and not one.outputs["node"]


def _schedule(entities: Entities, release: Entity, pod: PodSpec) -> None:
    one = entities.get(tokens.POD, f"{release.namespace}/{pod.name}")
    if one is None or one.outputs["node"]:
        return
    node = placed(entities, release.cluster, release.namespace, [pod])[0]
    if isinstance(node, Entity):
        one.outputs["node"] = node.id
        journal.note_start(entities, one, node)
        for name in pod.claims:
            claim = claims(entities, release.cluster, release.namespace, name)
            if claim is not None:
                mount(entities, claim, node)


def _delete_cluster(entities: Entities, cluster: Entity) -> None:
    """Deletes a cluster and its objects, which Pulumi can then no longer reach. EBS volumes stay."""
    inside = entities.inside(str(cluster.outputs["endpoint"]))
    for below in [below for one in inside for below in entities.owned_by(one) if below.type.startswith("aws:")]:
        below.owner = None
    for one in inside:
        if one.made_by == PULUMI:
            entities.buried[one.key] = one.cluster
        entities.remove(one)
    for one in entities.of(tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY):
        if one.inputs.get("clusterName") == cluster.id:
            entities.remove(one)
