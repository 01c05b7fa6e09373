"""Nodes and pods as the Kubernetes API gives them, read for what matters here."""

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]
INSTANCE_LABEL = "app.kubernetes.io/instance"
"""Label of a model's pods: the chart gives it the release's name, which is the model's id."""
TYPE_LABEL = "node.kubernetes.io/instance-type"


def name(thing: Object) -> str:
    """Its name."""
    return str(thing["metadata"]["name"])


def labels(thing: Object) -> Mapping[str, str]:
    """Its labels."""
    found: Mapping[str, str] = thing["metadata"].get("labels") or {}
    return found


def is_ready(thing: Object) -> bool:
    """Whether a pod or node is ready, and stays."""
    conditions = thing.get("status", {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not is_leaving(thing)


def is_leaving(thing: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in thing["metadata"]


def node_of(pod: Object) -> str:
    """The node that the scheduler chose for a pod; empty before it has."""
    return str(pod.get("spec", {}).get("nodeName") or "")


def allocatable(node: Object, resource: str) -> int:
    """How much of an extended resource a node offers."""
    return int((node.get("status", {}).get("allocatable") or {}).get(resource, 0))


def requested(pod: Object, resource: str) -> int:
    """How much of an extended resource a pod holds."""
    containers = pod.get("spec", {}).get("containers") or []
    limits = [(one.get("resources") or {}).get("limits") or {} for one in containers]
    return sum(int(limit.get(resource, 0)) for limit in limits)


def unplaced(pod: Object) -> str:
    """The scheduler's own words for why a pod has no node; empty where it has said nothing, or has placed it."""
    conditions = pod.get("status", {}).get("conditions") or []
    refused = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return str(refused[0].get("message") or refused[0].get("reason") or "") if refused else ""


def restarts(pod: Object) -> int:
    """How often its containers were started again."""
    return sum(one.get("restartCount", 0) for one in pod.get("status", {}).get("containerStatuses") or [])


def state(pod: Object) -> str:
    """A pod in words: ready, or its phase and why; restarts, and what its container said last."""
    told = ["being deleted" if is_leaving(pod) else "ready" if is_ready(pod) else _phase(pod), unplaced(pod)]
    for container in pod.get("status", {}).get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        told.append(": ".join(filter(None, (waiting.get("reason"), waiting.get("message")))))
        if count := container.get("restartCount", 0):
            ended = (container.get("lastState") or {}).get("terminated") or {}
            reason = f"{ended.get('reason', 'ended')}, exit code {ended.get('exitCode', 'unknown')}"
            told.append(
                f"{count} restart{'s' if count != 1 else ''}, the last: {_one_line(ended.get('message')) or reason}"
            )
    return ", ".join(filter(None, told))


def _phase(pod: Object) -> str:
    phase = str(pod.get("status", {}).get("phase") or "Unknown")
    return "Running, not ready" if phase == "Running" else phase


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
