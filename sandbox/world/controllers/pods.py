"""Pods: those that a release or a Job creates, and their requirements."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity, value_at, values_at

Values = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DISCOVERY = "node-feature-discovery"
"""The chart that labels each node with its hardware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The properties that decide on its node. CPU, memory, priorities and preferences are not modelled."""

    name: str
    selector: dict[str, str] = field(default_factory=dict)
    terms: tuple[Values, ...] = ()
    """Required node affinity: a node must meet all expressions of one of these terms."""
    tolerations: tuple[dict[str, Any], ...] = ()
    needs: dict[str, int] = field(default_factory=dict)
    """Extended resources that the pod requests."""
    claims: tuple[str, ...] = ()
    together: str = ""
    """Pods with the same value only run on one node (required affinity by host name)."""


def chart(inputs: Values) -> str:
    """Name of a release's chart, the last part of its reference."""
    return str(inputs["chart"]).rpartition("/")[2]


def releases(entities: Entities, server: str, name: str) -> list[Entity]:
    """Releases of that chart in a cluster."""
    return [entity for entity in entities.within(server, tokens.RELEASE) if chart(entity.inputs) == name]


def _ollama(release: str, values: Values) -> list[Pod]:
    name = str(values.get("fullnameOverride") or release)
    gpu = value_at(values, "ollama.gpu") or {}
    needs = {str(gpu["nvidiaResource"]): int(gpu["number"])} if gpu.get("enabled") else {}
    disk = values.get("persistentVolume") or {}
    own = [str(disk["existingClaim"])] if disk.get("enabled") else []
    mounted = [str(one) for one in values_at(values, "volumes.persistentVolumeClaim.claimName")]
    count = values.get("replicaCount")
    return [
        Pod(
            name=f"{name}-{index}",
            selector=dict(values.get("nodeSelector") or {}),
            terms=tuple(values_at(values, f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms")),
            tolerations=tuple(values.get("tolerations") or ()),
            needs=needs,
            claims=(*own, *mounted),
        )
        for index in range(1 if count is None else int(count))
    ]


def _one(release: str, values: Values) -> list[Pod]:
    """One pod for the chart's Deployments, which all need the same. Helm's wait ignores DaemonSets."""
    return [Pod(name=release)]


# The pods of the pinned charts with our values, from rendering and running them. Other charts have no pods here: the
# cluster tier runs those of Karpenter, KEDA and monitoring.
CHARTS: dict[str, Callable[[str, Values], list[Pod]]] = {
    "ollama": _ollama,
    "gpu-operator": _one,
    DISCOVERY: _one,
}


def pods_of(inputs: Values) -> list[Pod]:
    """The pods of a release with these inputs."""
    make = CHARTS.get(chart(inputs))
    return make(str(inputs.get("name")), inputs.get("values") or {}) if make else []


def pods_of_job(name: str, inputs: Values) -> list[Pod]:
    """The pods that a Job with this name runs at the same time."""
    spec: Values = inputs["spec"]
    pod: Values = spec["template"]["spec"]
    hosts = values_at(pod, f"affinity.podAffinity.{_REQUIRED}.topologyKey")
    return [
        Pod(
            name=f"{name}-{index}",
            selector=dict(pod.get("nodeSelector") or {}),
            terms=tuple(values_at(pod, f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms")),
            tolerations=tuple(pod.get("tolerations") or ()),
            needs=_extended(pod),
            claims=tuple(values_at(pod, "volumes.persistentVolumeClaim.claimName")),
            together=name if hosts else "",
        )
        for index in range(int(spec.get("parallelism", 1)))
    ]


def _extended(pod: Values) -> dict[str, int]:
    """Extended resources that the containers request. Their limits are their requests."""
    asked: Counter[str] = Counter()
    for limits in values_at(pod, "containers.resources.limits"):
        asked.update({name: int(count) for name, count in limits.items() if "/" in name})
    return dict(asked)
