"""The loops of Kubernetes, which run until nothing changes: evictions, the plugin, scheduling, new nodes, storage."""

from sandbox.world import tokens
from sandbox.world.controllers import journal, karpenter
from sandbox.world.controllers.plugin import start_plugins
from sandbox.world.controllers.pods import Pod, pods_of
from sandbox.world.controllers.scheduler import must_leave, placed
from sandbox.world.controllers.storage import detach, mount
from sandbox.world.entities import Entities, Entity


def settle(entities: Entities) -> None:
    """Schedules pods. Pods of lost nodes become pending. Pending pods move to nodes.

    If labels and taints of a node change in one call, its pods leave before its plugin has the new config. In a real
    cluster, both start together, and a process runs until its grace period is over. There, the proof separates old and
    new pods. Its pods need all shares, so they start only when the old pods have freed theirs. They use CUDA only when
    all of them run, and the models start after the proof.
    """
    for release in entities.of(tokens.RELEASE):
        for pod in pods_of(release.inputs):
            _evict(entities, release, pod)
    journal.note_stops(entities)
    for cluster in entities.of(tokens.CLUSTER):
        karpenter.make_profiles(entities, str(cluster.outputs["endpoint"]))
    start_plugins(entities)
    journal.note_modes(entities)
    for release, pod in _waiting(entities):
        _schedule(entities, release, pod)
    if any(karpenter.launch_nodes(entities, release.cluster, pod) for release, pod in _waiting(entities)):
        settle(entities)
    else:
        detach(entities)


def _waiting(entities: Entities) -> list[tuple[Entity, Pod]]:
    """The pods without a node, with their releases."""
    found = [(release, pod) for release in entities.of(tokens.RELEASE) for pod in pods_of(release.inputs)]
    return [(release, pod) for release, pod in found if _is_pending(entities, release, pod)]


def _of(entities: Entities, release: Entity, pod: Pod) -> Entity | None:
    return entities.get(tokens.POD, f"{release.namespace}/{pod.name}")


def _evict(entities: Entities, release: Entity, pod: Pod) -> None:
    """Evicts a pod. Its Deployment recreates it, here with the same name."""
    running = _of(entities, release, pod)
    if running is not None and running.outputs["node"]:
        node = entities.get(tokens.NODE, running.outputs["node"])
        if node is None or must_leave(pod, node.outputs):
            running.outputs["node"] = ""


def _is_pending(entities: Entities, release: Entity, pod: Pod) -> bool:
    created = _of(entities, release, pod)
    return created is not None and not created.outputs["node"]


def _schedule(entities: Entities, release: Entity, pod: Pod) -> None:
    pending = _of(entities, release, pod)
    [node] = placed(entities, release.cluster, release.namespace, [pod])
    if pending is not None and isinstance(node, Entity):
        pending.outputs["node"] = node.id
        journal.note_start(entities, pending, node)
        for claim in pod.claims:
            mount(entities, release.namespace, claim, node)
