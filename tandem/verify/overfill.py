"""The proof that shares are counted: one pod more than there are free shares stays Pending."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sharing import artifacts
from sharing.names import POOL_LABEL, tolerations
from sharing.sections.pools import GpuPool
from tandem.deployed.objects import (
    AdmissionError,
    Object,
    allocatable,
    is_ready,
    labels,
    name,
    node_of,
    requested,
    unplaced,
)
from tandem.verify.checks import Check

if TYPE_CHECKING:
    from tandem.deployed.kubernetes import Cluster

MARK = "tandem/overfill"
"""Label by which to find the pods again."""
HOSTNAME_LABEL = "kubernetes.io/hostname"
IMAGE = artifacts.find("registry.k8s.io/pause").reference
"""Does nothing, in 0.3 MiB. A pod holds its share as soon as it has a node, before it has its image."""
ADMISSION = "A quota or a policy of namespace {} refuses another pod. Allow it, or run `verify` without --overfill."
OTHER_NUMBER = (
    "The node offers another number of shares than the file, or other pods started or ended. Run the command again."
)
PLACE_SECONDS = 60.0
GONE_SECONDS = 60.0
LONGEST_SECONDS = 300
"""Kubelet ends such a pod after this time, even if tandem was killed."""
POLL_SECONDS = 0.5
ENDED = ("Succeeded", "Failed")


def overfill(
    cluster: "Cluster",
    pool: GpuPool,
    nodes: Sequence[Object],
    namespace: str,
    *,
    registry: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """A check for each resource of a pool with these nodes. Deletes its pods before it returns or raises."""
    image = artifacts.redirect(IMAGE, registry) if registry else IMAGE
    ready = [node for node in nodes if is_ready(node)]
    for resource in (kind.resource for kind in pool.offers):
        with _removed(cluster, namespace, clock, sleep):
            pods = cluster.pods()
            free, importance = free_shares(resource, ready, pods), least_important(resource, ready, pods)
            names = [f"tandem-overfill-{secrets.token_hex(4)}" for _ in range(free + 1)]
            try:
                for new in names:
                    cluster.create_pod(pod(new, namespace, pool.name, resource, ready, importance, image=image))
            except AdmissionError as error:
                yield _check(pool, resource, free, False, f"not admitted: {error}", ADMISSION.format(namespace))
                continue
            ends = clock() + PLACE_SECONDS
            while True:
                made = [each for each in cluster.pods(namespace, {MARK: pool.name}) if name(each) in names]
                if sum(bool(node_of(each) or unplaced(each)) for each in made) == len(names) or clock() > ends:
                    break
                sleep(POLL_SECONDS)
        yield judged(pool, resource, free, made)


def free_shares(resource: str, nodes: Sequence[Object], pods: Sequence[Object]) -> int:
    """Free shares on these nodes; `pods` are those of all namespaces."""
    free = sum(allocatable(node, resource) for node in nodes) - sum(
        shares for shares, _ in _held(resource, nodes, pods)
    )
    return max(free, 0)


def least_important(resource: str, nodes: Sequence[Object], pods: Sequence[Object]) -> str:
    """The PriorityClass of the least important pod that holds a share on these nodes; empty if none is below 0.

    Without a class, a pod has priority 0, so the pod too many would evict a model that is less important.
    """
    ranks = [
        (pod["spec"].get("priority") or 0, pod["spec"].get("priorityClassName"))
        for _, pod in _held(resource, nodes, pods)
    ]
    lowest, its_class = min(ranks, key=lambda rank: rank[0], default=(0, None))
    return str(its_class or "") if lowest < 0 else ""


def _held(resource: str, nodes: Sequence[Object], pods: Sequence[Object]) -> Iterator[tuple[int, Object]]:
    """The pods that hold shares on these nodes, each with their number."""
    names = {name(node) for node in nodes}
    for pod in pods:
        if (
            node_of(pod) in names
            and pod.get("status", {}).get("phase") not in ENDED
            and (shares := requested(pod, resource))
        ):
            yield shares, pod


def pod(
    own_name: str,
    namespace: str,
    pool: str,
    resource: str,
    nodes: Sequence[Object],
    importance: str = "",
    *,
    image: str = IMAGE,
) -> dict[str, Any]:
    """A pod that requests one share and does nothing, on the current nodes.

    Otherwise an autoscaler could start a node for it, which costs money and proves nothing. `importance` names its
    PriorityClass; empty for none.
    """
    hosts = [labels(node).get(HOSTNAME_LABEL, name(node)) for node in nodes]
    here = {"key": HOSTNAME_LABEL, "operator": "In", "values": hosts}
    placed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {
        "metadata": {"name": own_name, "namespace": namespace, "labels": {MARK: pool}},
        "spec": {
            "restartPolicy": "Never",
            **({"priorityClassName": importance} if importance else {}),
            # As the strictest namespace requires: kubernetes.io/docs/concepts/security/pod-security-standards,
            # Restricted. The image's own user is 65535 (kubernetes build/pause/Dockerfile).
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "automountServiceAccountToken": False,
            "nodeSelector": {POOL_LABEL: pool},
            "affinity": {"nodeAffinity": placed},
            "tolerations": tolerations(None),
            "containers": [
                {
                    "name": "pause",
                    "image": image,
                    "resources": {"limits": {resource: "1"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def judged(pool: GpuPool, resource: str, free: int, pods: Sequence[Object]) -> Check:
    """The result: all pods but one have a node, and that one waits for a share."""
    placed, words = [node_of(pod) for pod in pods if node_of(pod)], list(filter(None, map(unplaced, pods)))
    too_few = f"Insufficient {resource}"
    refused = next((text for text in words if too_few in text), "")
    if len(placed) > free:
        held, found = False, f"{len(placed)} pods got one of {free} free shares"
    elif len(placed) < free and words:
        held, found = False, f"{len(placed)} of {free} free shares were available: {_sentence(words[0])}"
    elif refused:
        held, found = True, f"Pending: {_sentence(refused)}"
    else:
        held, found = (
            None,
            f"Pending for another reason: {_sentence(words[0])}" if words else "no message from the scheduler",
        )
    return _check(pool, resource, free, held, found, OTHER_NUMBER)


def _check(pool: GpuPool, resource: str, free: int, held: bool | None, found: str, fix: str) -> Check:
    return Check(
        about=f"pool {pool.name}",
        what=f"one pod too many stays Pending for {resource} ({free} free)",
        held=held,
        expected=f"Insufficient {resource}",
        found=found,
        fix=fix,
    )


def _sentence(text: str) -> str:
    """The scheduler's first sentence; the rest is about preemption."""
    return text.partition(". ")[0]


@contextmanager
def _removed(
    cluster: "Cluster", namespace: str, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[None]:
    """Deletes the pods after the block in any case, and those of an earlier call that was killed."""
    try:
        _remove(cluster, namespace, clock, sleep)
        yield
    finally:
        _remove(cluster, namespace, clock, sleep)


def _remove(cluster: "Cluster", namespace: str, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    """Deletes the pods until none is left: one may appear late, if its creation was interrupted."""
    ends = clock() + GONE_SECONDS
    while left := [pod for pod in cluster.pods(namespace) if MARK in labels(pod)]:
        for pod in left:
            cluster.delete_pod(name(pod), namespace)
        if clock() > ends:
            return
        sleep(POLL_SECONDS)
