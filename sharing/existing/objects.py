"""The Kubernetes objects of a cluster that tell what is installed there, read from the lists of its API."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sharing.names import GPU_PRESENT_LABEL, OWNER_LABEL, POOL_LABEL, ZONE_LABEL

Object = Mapping[str, Any]
Read = Callable[[str], Object | None]
"""Reads a path of the Kubernetes API; None if the server does not know it."""

DAEMON_SETS = "/apis/apps/v1/daemonsets"
DEPLOYMENTS = "/apis/apps/v1/deployments"
SERVICES = "/api/v1/namespaces/kube-system/services"
NAMESPACES = "/api/v1/namespaces"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NODES = "/api/v1/nodes"
MONITORS = "/apis/monitoring.coreos.com/v1/podmonitors?limit=1"
"""Known to the server if the Prometheus Operator is installed."""
NAMED = {NAMESPACES: "namespace", PRIORITY_CLASSES: "PriorityClass", CLUSTER_ROLES: "ClusterRole"}
"""Kinds of objects whose names are unique in the cluster."""
PATHS = (DAEMON_SETS, DEPLOYMENTS, SERVICES, NAMESPACES, PRIORITY_CLASSES, CLUSTER_ROLES, NODES, MONITORS)
"""Everything that is read. The policy AmazonEKSClusterAdminPolicy allows it."""
RESOURCES = "nvidia.com/"
"""Beginning of the names of resources that NVIDIA's device plugin registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A DaemonSet or a Deployment."""

    kind: str
    namespace: str
    name: str
    pod: Object
    """The `spec` of its pods."""

    @property
    def label(self) -> str:
        """E.g. `DaemonSet gpu/plugin`."""
        return f"{self.kind} {self.namespace}/{self.name}"

    def uses(self, *images: str) -> bool:
        """Whether a container's image has one of these in its name, without registry, tag and digest."""
        found = [str(each.get("image", "")) for each in self.pod.get("containers") or ()]
        return any(part in _repository(image) for image in found for part in images)

    def mounts(self, *folders: str) -> bool:
        """Whether it mounts one of these folders of the node, or a folder in it."""
        paths = [str((each.get("hostPath") or {}).get("path", "")) for each in self.pod.get("volumes") or ()]
        return any(f"{path.rstrip('/')}/".startswith(f"{folder}/") for path in paths for folder in folders)

    def variable(self, name: str) -> str:
        """The value of an environment variable of its containers; empty if none has it."""
        variables = [each for container in self.pod.get("containers") or () for each in container.get("env") or ()]
        return next((str(each.get("value", "")) for each in variables if each.get("name") == name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is installed in a cluster."""

    workloads: tuple[Workload, ...]
    owners: Mapping[tuple[str, str], str]
    """The label `tandem/stack` of each object whose name is unique in the cluster, by kind and name; empty without it.
    """
    services: frozenset[str]
    """Names of the Services in kube-system."""
    has_monitors: bool
    """Whether the Prometheus Operator is installed."""
    has_untainted_node: bool
    untainted_zones: tuple[str, ...]
    """Zones of the nodes without taints."""
    gpu_nodes: tuple[str, ...]
    """Nodes with NVIDIA GPUs that are in no pool of a stack of ours."""


def read_installed(read: Read) -> Installed:
    """Asks for every list, and keeps what the rules ask about."""
    answers = {path: read(path) for path in PATHS}
    lists = {path: _items(answer) for path, answer in answers.items()}
    return Installed(
        workloads=(*_workloads("DaemonSet", lists[DAEMON_SETS]), *_workloads("Deployment", lists[DEPLOYMENTS])),
        owners={
            (kind, each["metadata"]["name"]): (each["metadata"].get("labels") or {}).get(OWNER_LABEL, "")
            for path, kind in NAMED.items()
            for each in lists[path]
        },
        services=frozenset(each["metadata"]["name"] for each in lists[SERVICES]),
        has_monitors=answers[MONITORS] is not None,
        has_untainted_node=any(_takes_pods(each) for each in lists[NODES]),
        untainted_zones=tuple(sorted({_zone(each) for each in lists[NODES] if _takes_pods(each)} - {""})),
        gpu_nodes=tuple(each["metadata"]["name"] for each in lists[NODES] if _is_foreign_gpu_node(each)),
    )


def _items(answer: Object | None) -> list[Object]:
    return list((answer or {}).get("items") or ())


def _workloads(kind: str, items: Iterable[Object]) -> Iterable[Workload]:
    for each in items:
        metadata, spec = each["metadata"], each.get("spec") or {}
        pod = (spec.get("template") or {}).get("spec") or {}
        yield Workload(kind=kind, namespace=metadata["namespace"], name=metadata["name"], pod=pod)


def _takes_pods(node: Object) -> bool:
    spec = node.get("spec") or {}
    kept = [taint for taint in spec.get("taints") or () if taint.get("effect") != "PreferNoSchedule"]
    return not spec.get("unschedulable") and not kept


def _zone(node: Object) -> str:
    return str((node["metadata"].get("labels") or {}).get(ZONE_LABEL, ""))


def _is_foreign_gpu_node(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    has_gpu = labels.get(GPU_PRESENT_LABEL) == "true" or any(name.startswith(RESOURCES) for name in capacity)
    return has_gpu and POOL_LABEL not in labels


def _repository(image: str) -> str:
    """`nvidia/k8s-device-plugin` of `nvcr.io/nvidia/k8s-device-plugin:v0.20.0@sha256:…`."""
    host, slash, rest = image.partition("@")[0].partition("/")
    is_host = slash and ("." in host or ":" in host)
    path = rest if is_host else f"{host}{slash}{rest}"
    return path.rpartition(":")[0] or path
