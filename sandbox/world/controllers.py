"""The controllers of AWS and Kubernetes: after each call they create and delete nodes, pods, volumes and CRDs."""

from typing import Any

from sandbox.world import jobs, journal, karpenter, plugin, tokens
from sandbox.world.nodes import admit_creator, made, make_access_entry, make_control_plane, refresh, scale
from sandbox.world.pods import DISCOVERY, chart, pods_of
from sandbox.world.pods import Pod as PodSpec
from sandbox.world.scheduler import must_leave, placed
from sandbox.world.storage import claims, detach, mount
from sandbox.world.things import PULUMI, Thing, Things, value_at

BY_HELM, BY_SCHEDULER = "helm", "kube-scheduler"

# CRDs of the pinned charts: kinds by group, and whether an uninstall deletes them. Helm keeps those in `crds/` and
# deletes those that are templates (seen by installing them).
_KARPENTER: dict[str, tuple[str, ...]] = {
    "karpenter.sh": ("NodePool", "NodeClaim", "NodeOverlay"),
    "karpenter.k8s.aws": ("EC2NodeClass",),
    "autoscaling.x-k8s.io": ("CapacityBuffer",),
}
CHART_CRDS: dict[str, tuple[dict[str, tuple[str, ...]], bool]] = {
    "karpenter-crd": (_KARPENTER, True),
    "karpenter": (_KARPENTER, False),
    DISCOVERY: ({"nfd.k8s-sigs.io": ("NodeFeature", "NodeFeatureGroup", "NodeFeatureRule")}, False),
    "gpu-operator": (
        {
            "nvidia.com": ("ClusterPolicy", "NVIDIADriver", "GPUCluster"),
            "resource.nvidia.com": ("ComputeDomain", "ComputeDomainClique"),
        },
        False,
    ),
}


def custom_type(thing: Thing) -> tuple[str, str]:
    """Group and kind that a CRD defines."""
    return str(value_at(thing.inputs, "spec.group")), str(value_at(thing.inputs, "spec.names.kind"))


def group_and_kind(token: str) -> tuple[str, str]:
    """Group and kind of a Kubernetes type token."""
    _, place, kind = token.split(":", 2)
    return place.partition("/")[0], kind


def created(things: Things, thing: Thing, caller: str, *, joins: bool = True) -> None:
    """Runs the controllers after a creation by `caller`. Without `joins`, a group's nodes never join the cluster."""
    if thing.type == tokens.CLUSTER:
        make_control_plane(things, thing)
        admit_creator(things, thing, caller)
    elif thing.type == tokens.NODE_GROUP:
        make_access_entry(things, thing)
        if joins:
            scale(things, thing)
    elif thing.type == tokens.RELEASE:
        _install(things, thing)
    elif thing.type == tokens.JOB:
        jobs.run(things, thing)
    _settle(things)


def reclaimed(things: Things, group: Thing) -> None:
    """Runs the controllers after EC2 has reclaimed the spot instances of a node group."""
    for instance in things.owned_by(group, tokens.INSTANCE):
        things.remove(instance)
    _settle(things)


def updated(things: Things, thing: Thing, before: dict[str, Any]) -> None:
    """Runs the controllers after an update."""
    if thing.type == tokens.CLUSTER:
        make_control_plane(things, thing)
        karpenter.upgrade(things, thing, before)
    elif thing.type == tokens.NODE_GROUP:
        refresh(things, thing, before)
    elif thing.type == tokens.RELEASE:
        _replace_pods(things, thing)
    elif thing.type in (tokens.NODE_POOL, tokens.NODE_CLASS):
        karpenter.drift(things, thing, before)
    _settle(things)


def delete(things: Things, thing: Thing) -> None:
    """Deletes a resource, and everything that is deleted with it."""
    if thing.type == tokens.CLUSTER:
        _delete_cluster(things, thing)
    elif thing.type == tokens.RELEASE:
        uninstall(things, thing)
    elif thing.type == tokens.NAMESPACE:
        _empty(things, thing)
    things.remove(thing)
    _settle(things)


def _empty(things: Things, namespace: Thing) -> None:
    """Deletes the releases in a namespace, without running their hooks, and then everything else in it."""
    inside = [one for one in things.inside(namespace.cluster) if one.namespace == namespace.id]
    for one in sorted(inside, key=lambda one: one.type != tokens.RELEASE):
        if things.get(one.type, one.id) is not None:
            delete(things, one)


def uninstall(things: Things, release: Thing) -> None:
    """Deletes everything that Helm deletes with a release: its pods, and CRDs that are templates."""
    for pod in things.owned_by(release, tokens.POD):
        things.remove(pod)
    _settle(things)
    crds = things.owned_by(release, tokens.CRD)
    if CHART_CRDS.get(chart(release.inputs), ({}, False))[1]:
        delete_custom_resources(things, crds)
    else:
        for one in crds:
            one.owner = None
    things.remove(release)


def delete_custom_resources(things: Things, crds: list[Thing]) -> None:
    """Deletes all objects of the kinds that these CRDs define. Pulumi does not know of it."""
    for crd in crds:
        for one in custom_resources(things, crd):
            things.remove(one)


def custom_resources(things: Things, crd: Thing) -> list[Thing]:
    """All objects of the kind that a CRD defines."""
    wanted = custom_type(crd)
    inside = [one for one in things.inside(crd.cluster) if one.type.count(":") == 2]
    return [one for one in inside if group_and_kind(one.type) == wanted]


def leave_job(things: Things, release: Thing, name: str) -> None:
    """Leaves behind the Job of a hook that found no node. No resource owns it."""
    job = made(things, tokens.JOB, f"{release.namespace}/{name}", name, BY_HELM, None, {})
    job.cluster, job.outputs["metadata"] = release.cluster, {"name": name, "namespace": release.namespace}


def _install(things: Things, release: Thing) -> None:
    groups, _ = CHART_CRDS.get(chart(release.inputs), ({}, False))
    if not release.inputs.get("skipCrds") or chart(release.inputs) == "karpenter-crd":
        for group, kinds in groups.items():
            for kind in kinds:
                name = f"{kind.lower()}s.{group}"
                defined = {"spec": {"group": group, "names": {"kind": kind}}}
                crd = made(things, tokens.CRD, name, name, BY_HELM, release.key, defined, release.cluster)
                # The next release takes over a CRD that an uninstalled release has left behind.
                crd.owner = crd.owner or release.key
    _replace_pods(things, release)


def _replace_pods(things: Things, release: Thing) -> None:
    for old in things.owned_by(release, tokens.POD):
        things.remove(old)
    for pod in pods_of(release.inputs):
        identity = f"{release.namespace}/{pod.name}"
        one = made(things, tokens.POD, identity, pod.name, BY_SCHEDULER, release.key, {}, release.cluster)
        one.outputs = {
            "metadata": {"name": pod.name, "namespace": release.namespace},
            "needs": pod.needs,
            "apart": pod.apart,
            "claims": [f"{release.namespace}/{name}" for name in pod.claims],
            "node": "",
        }


def _settle(things: Things) -> None:
    """Schedules pods: those of lost nodes become pending, pending ones move to nodes, which are launched if necessary.

    If labels and taints of a node change in one call, its pods leave before its plugin has the new config. In a real
    cluster, both start at once, and a process runs until its grace period is over. There, the proof separates old and
    new pods. Its pods need all shares, so they start only when the old pods have freed theirs. They use CUDA only when
    all of them run, and the models start after the proof.
    """
    for release in things.of(tokens.RELEASE):
        for pod in pods_of(release.inputs):
            _evict(things, release, pod)
    journal.note_stops(things)
    plugin.settle(things)
    journal.note_modes(things)
    for release in things.of(tokens.RELEASE):
        for pod in pods_of(release.inputs):
            _schedule(things, release, pod)
    # After the controllers have their nodes.
    for cluster in things.of(tokens.CLUSTER):
        karpenter.reconcile(things, str(cluster.outputs["endpoint"]))
    for release in things.of(tokens.RELEASE):
        waiting = [pod for pod in pods_of(release.inputs) if _is_pending(things, release, pod)]
        karpenter.provision(things, release.cluster, release.namespace, waiting)
        journal.note_modes(things)
        for pod in pods_of(release.inputs):
            _schedule(things, release, pod)
    running = [one for one in things.of(tokens.POD) if one.outputs["node"]]
    detach(things, {(claim, one.outputs["node"]) for one in running for claim in one.outputs["claims"]})


def _evict(things: Things, release: Thing, pod: PodSpec) -> None:
    """Evicts a pod. Its Deployment recreates it, here with the same name."""
    one = things.get(tokens.POD, f"{release.namespace}/{pod.name}")
    if one is not None and one.outputs["node"]:
        node = things.get(tokens.NODE, one.outputs["node"])
        if node is None or must_leave(pod, node):
            one.outputs["node"] = ""


def _is_pending(things: Things, release: Thing, pod: PodSpec) -> bool:
    one = things.get(tokens.POD, f"{release.namespace}/{pod.name}")
    return one is not None and not one.outputs["node"]


def _schedule(things: Things, release: Thing, pod: PodSpec) -> None:
    one = things.get(tokens.POD, f"{release.namespace}/{pod.name}")
    if one is None or one.outputs["node"]:
        return
    node = placed(things, release.cluster, release.namespace, [pod])[0]
    if isinstance(node, Thing):
        one.outputs["node"] = node.id
        journal.note_start(things, one, node)
        for name in pod.claims:
            claim = claims(things, release.cluster, release.namespace, name)
            if claim is not None:
                mount(things, claim, node)


def _delete_cluster(things: Things, cluster: Thing) -> None:
    """Deletes a cluster with everything inside, which Pulumi then cannot reach any more. EBS volumes stay."""
    inside = things.inside(str(cluster.outputs["endpoint"]))
    for below in [below for one in inside for below in things.owned_by(one) if below.type.startswith("aws:")]:
        below.owner = None
    for one in inside:
        if one.made_by == PULUMI:
            things.buried[one.key] = one.cluster
        things.remove(one)
    for one in things.of(tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY):
        if one.inputs.get("clusterName") == cluster.id:
            things.remove(one)
