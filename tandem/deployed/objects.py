"""Reads nodes and pods as the Kubernetes API returns them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.names import POOL_LABEL
from sharing.printable import one_line
from tandem.deployed.planned import BATCH, Daemon

Object = Mapping[str, Any]
WHOLE = re.compile(r"(?P<digits>[0-9]{1,15})(?P<suffix>[kM]?)")
THOUSANDS = {"": 1, "k": 1_000, "M": 1_000_000}
MPS_CONTAINER = "mps-control-daemon-ctr"
"""Container of the MPS daemon (k8s-device-plugin v0.20.0, templates/daemonset-mps-control-daemon.yml)."""
INSTANCE_LABEL = "app.kubernetes.io/instance"
"""Label of a model's pods: the chart gives it the release's name, which is the model's id."""


FORWARD_REFUSED = "the cluster refuses to forward a port"
"""The start of a forwarded port's error for that."""


class AdmissionError(Exception):
    """A quota, or another rule of the cluster, refuses a pod; the text names it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The objects of a stack from the Kubernetes API."""

    nodes: Sequence[Object]
    daemon_sets: Mapping[str, Sequence[Object]]
    """By namespace."""
    pods: Sequence[Object]
    """In the models' namespaces."""
    deployments: Sequence[Object] = ()
    """In the same namespaces."""
    mps_pods: Sequence[Object] = ()
    """Pods in the namespaces of the MPS daemons that the models need."""


def name(item: Object) -> str:
    """Its name."""
    return str(item["metadata"]["name"])


def labels(item: Object) -> Mapping[str, str]:
    """Its labels."""
    own: Mapping[str, str] = item["metadata"].get("labels") or {}
    return own


def is_ready(item: Object) -> bool:
    """Whether a pod or node is ready and not being deleted."""
    return bool(_conditions(item, "Ready", "True")) and not is_leaving(item)


def is_leaving(item: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in item["metadata"]


def node_of(pod: Object) -> str:
    """The node that the scheduler chose for a pod; empty before."""
    return str(pod.get("spec", {}).get("nodeName") or "")


def allocatable(node: Object, resource: str) -> int:
    """A node's amount of an extended resource."""
    return _count((node.get("status", {}).get("allocatable") or {}).get(resource))


def taint(node: Object, key: str) -> str:
    """The value of a node's taint; empty if it has none."""
    taints = node.get("spec", {}).get("taints") or []
    return next((str(taint.get("value") or "") for taint in taints if taint["key"] == key), "")


def tolerated(pod: Object, key: str) -> str:
    """The value of a taint that a pod tolerates; empty if it tolerates any, or none."""
    tolerations = pod.get("spec", {}).get("tolerations") or []
    values = (str(toleration.get("value") or "") for toleration in tolerations if toleration.get("key") == key)
    return next(values, "")


def is_cordoned(node: Object) -> bool:
    """Whether a node takes no new pods (`kubectl cordon`)."""
    return bool(node.get("spec", {}).get("unschedulable"))


def requested(pod: Object, resource: str) -> int:
    """A pod's amount of an extended resource."""
    containers = pod.get("spec", {}).get("containers") or []
    limits = [(container.get("resources") or {}).get("limits") or {} for container in containers]
    return sum(_count(limit.get(resource)) for limit in limits)


def outranked(pod: Object, pods: Sequence[Object], resource: str) -> str:
    """Which more important models hold shares that a waiting pod needs, in words; empty if there are none.

    The API server sets the priority of each pod from its PriorityClass.
    """
    priority = pod.get("spec", {}).get("priority") or 0
    above = [
        labels(other).get(INSTANCE_LABEL) or name(other)
        for other in pods
        if (other.get("spec", {}).get("priority") or 0) > priority and node_of(other) and requested(other, resource)
    ]
    waits = f"Insufficient {resource}" in unplaced(pod)
    return f"more important models hold the shares: {', '.join(sorted(above))}" if waits and above else ""


def settings(item: Object) -> dict[str, str]:
    """Settings of the first container of a pod, or of a Deployment's pods: its environment, and `batch`.

    The batch is the last word of the hook that loads the model (components/ollama_pair/model_start.sh).
    """
    spec = item.get("spec", {})
    inner = (spec.get("template") or {}).get("spec") or spec
    container = (inner.get("containers") or [{}])[0]
    environment = {variable["name"]: variable.get("value") or "" for variable in container.get("env") or []}
    hook = (container.get("lifecycle") or {}).get("postStart") or {}
    command = (hook.get("exec") or {}).get("command") or []
    return {**environment, **({BATCH: command[-1]} if command else {})}


def mounts(item: Object) -> set[str]:
    """The directories that are mounted into the first container of a pod."""
    container = (item.get("spec", {}).get("containers") or [{}])[0]
    return {str(mount.get("mountPath") or "") for mount in container.get("volumeMounts") or []}


def _count(quantity: object) -> int:
    """A whole quantity of an extended resource; Kubernetes writes 1000 as 1k."""
    whole = WHOLE.fullmatch(str(quantity or "0"))
    return int(whole["digits"]) * THOUSANDS[whole["suffix"]] if whole else 0


def unplaced(pod: Object) -> str:
    """The scheduler's message about a pod without a node; empty if there is none, or the pod has a node."""
    return condition(pod, "PodScheduled", "False")


def condition(item: Object, type: str, status: str) -> str:
    """The message of an item's condition; empty if it has none with this status."""
    return next((str(each.get("message") or each.get("reason") or "") for each in _conditions(item, type, status)), "")


def _conditions(item: Object, type: str, status: str) -> list[Mapping[str, Any]]:
    conditions = item.get("status", {}).get("conditions") or []
    return [each for each in conditions if each["type"] == type and each["status"] == status]


def restarts(pod: Object) -> int:
    """The number of its containers' restarts."""
    return sum(status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses") or [])


def state(pod: Object) -> str:
    """A pod in words: ready, or its phase and the reason; restarts, and its container's last message."""
    parts = ["being deleted" if is_leaving(pod) else "ready" if is_ready(pod) else _phase(pod), unplaced(pod)]
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        parts.append(": ".join(filter(None, (waiting.get("reason"), waiting.get("message")))))
        if count := container.get("restartCount", 0):
            ended = (container.get("lastState") or {}).get("terminated") or {}
            reason = f"{ended.get('reason') or 'ended'}, exit code {ended.get('exitCode', 'unknown')}"
            last = one_line(ended.get("message") or "") or reason
            parts.append(f"{count} restart{'s' if count != 1 else ''}, the last: {last}")
    return ", ".join(filter(None, map(one_line, parts)))


def daemon_at(pod: Object | None, daemons: Mapping[str, Daemon], nodes: Sequence[Object]) -> Daemon | None:
    """Of daemons by pool, the one for a pod: that of its node's pool. None without a node, or on another pool."""
    node = node_of(pod) if pod else ""
    here = (daemon for pool, daemon in daemons.items() if node in map(name, nodes_of(pool, nodes)))
    return next(here, None)


def outside_mps(pod: Object, daemon_set: str, pods: Sequence[Object]) -> str:
    """Why a model's process is no client of the MPS daemon on its node; empty if it is one, or does not run.

    A process looks for a daemon only when it starts, and a container sees only the `/dev/shm` of a daemon that is
    older. `pods` include those of the DaemonSet that runs the daemons.
    """
    running = _runs_since(pod)
    if not running:
        return ""
    of_set = [
        other
        for other in pods
        if any(owner["name"] == daemon_set for owner in other["metadata"].get("ownerReferences") or ())
    ]
    here = [daemon for daemon in of_set if node_of(daemon) == node_of(pod) and not is_leaving(daemon)]
    since = max((_runs_since(daemon, MPS_CONTAINER) for daemon in here), default="")
    if not since:
        return f"no MPS daemon runs on {node_of(pod)}"
    # Both are times of the same node's kubelet, as RFC 3339 in UTC.
    return f"the MPS daemon on {node_of(pod)} started at {since}, after the server" if since > running else ""


def _runs_since(pod: Object, container: str = "") -> str:
    """When a container of a pod started; empty if it does not run. Without a name, its only one."""
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if container in ("", status.get("name")):
            return str(((status.get("state") or {}).get("running") or {}).get("startedAt") or "")
    return ""


def _containers(pod: Object) -> Iterator[Mapping[str, Any]]:
    """The statuses of its containers; of init containers, only those that block the others."""
    status = pod.get("status", {})
    for init in status.get("initContainerStatuses") or []:
        if ((init.get("state") or {}).get("waiting") or {}).get("reason") not in (None, "PodInitializing"):
            yield init
    yield from status.get("containerStatuses") or []


def _phase(pod: Object) -> str:
    phase = str(pod.get("status", {}).get("phase") or "Unknown")
    return "Running, not ready" if phase == "Running" else phase


def nodes_of(pool: str, nodes: Sequence[Object]) -> list[Object]:
    """Those of a pool, ready or not."""
    return [node for node in nodes if labels(node).get(POOL_LABEL) == pool]


def pod_of(model: str, pods: Sequence[Object]) -> Object | None:
    """The pod of a model: a ready one if possible, none that is being deleted."""
    own = [pod for pod in pods if labels(pod).get(INSTANCE_LABEL) == model and not is_leaving(pod)]
    return min(own, key=lambda pod: (not is_ready(pod), name(pod)), default=None)
