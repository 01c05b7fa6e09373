"""Deployments and DaemonSets of charts and of EKS's add-ons, as somebody sees them who lists a cluster's objects.

The world itself needs none of them: it knows the pods of a release (`pods.py`). Names, labels, images, selectors and
folders are those of the pinned charts with Helm 3 (tests/cluster/test_charts.py renders them), and of EKS's add-ons.
"""

from collections.abc import Iterator
from typing import Any

from sandbox.world import tokens
from sandbox.world.controllers.nodes import cluster_at
from sandbox.world.controllers.pods import DISCOVERY, Values, chart
from sandbox.world.entities import Entities, Entity, value_at

Row = tuple[str, str, str, tuple[str, ...]]
"""Kind, name or its suffix, image, and folders of the node that the pods mount."""
PLUGIN, OPERATOR = "nvidia-device-plugin", "gpu-operator"
MPS = "-mps-control-daemon"
SOCKETS = "/var/lib/kubelet/device-plugins"
_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"
CHARTS: dict[str, tuple[Row, ...]] = {
    PLUGIN: (
        ("DaemonSet", "", _IMAGE, (SOCKETS, "/run/nvidia/mps")),
        ("DaemonSet", "-gpu-feature-discovery", _IMAGE, ()),
        ("DaemonSet", MPS, _IMAGE, ("/run/nvidia/mps",)),
    ),
    OPERATOR: (("Deployment", "", "nvcr.io/nvidia/gpu-operator", ()),),
    "karpenter": (("Deployment", "", "public.ecr.aws/karpenter/controller", ()),),
    DISCOVERY: (
        ("Deployment", "-master", "registry.k8s.io/nfd/node-feature-discovery", ()),
        ("Deployment", "-gc", "registry.k8s.io/nfd/node-feature-discovery", ()),
        ("DaemonSet", "-worker", "registry.k8s.io/nfd/node-feature-discovery", ()),
    ),
    "keda": (("Deployment", "-operator", "ghcr.io/kedacore/keda", ()),),
}
OPERANDS = (
    ("nvidia-device-plugin-daemonset", "nvidia.com/gpu.deploy.device-plugin", _IMAGE, (SOCKETS,)),
    ("nvidia-mig-manager", "nvidia.com/gpu.deploy.mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager", ()),
)
"""Of the operator's DaemonSets, those that concern others: name, label of their nodes, image, folders."""
ADDONS: dict[str, tuple[Row, ...]] = {
    "vpc-cni": (("DaemonSet", "aws-node", "amazon-k8s-cni", ("/opt/cni/bin", "/etc/cni/net.d")),),
    "kube-proxy": (("DaemonSet", "kube-proxy", "eks/kube-proxy", ()),),
    "coredns": (("Deployment", "coredns", "eks/coredns", ()),),
    "eks-pod-identity-agent": (("DaemonSet", "eks-pod-identity-agent", "eks/eks-pod-identity-agent", ()),),
    "aws-ebs-csi-driver": (
        ("Deployment", "ebs-csi-controller", "eks/aws-ebs-csi-driver", ()),
        ("DaemonSet", "ebs-csi-node", "eks/aws-ebs-csi-driver", ("/var/lib/kubelet",)),
    ),
}
SELF_MANAGED = ("vpc-cni", "kube-proxy", "coredns")
"""What a cluster has without add-ons, unless its `bootstrapSelfManagedAddons` is false (API_CreateCluster.html)."""


def workloads(entities: Entities, server: str) -> Iterator[tuple[str, Values]]:
    """Kind and object of each workload in a cluster, and of the Service of its DNS."""
    for release in entities.within(server, tokens.RELEASE):
        yield from _of_release(release)
    cluster = cluster_at(entities, server)
    if cluster is not None:
        names = {one.inputs["addonName"] for one in entities.having(tokens.ADDON, clusterName=cluster.id)}
        own = () if cluster.inputs.get("bootstrapSelfManagedAddons") is False else SELF_MANAGED
        for kind, name, image, folders in (row for one in sorted({*names, *own}) for row in ADDONS.get(one, ())):
            pod = {"tolerations": [{"operator": "Exists"}]} if kind == "DaemonSet" else {}
            yield kind, _workload(name, "kube-system", {"k8s-app": name}, image, folders, pod)
            if name == "coredns":
                yield "Service", {"metadata": {"name": "kube-dns", "namespace": "kube-system"}, "spec": {}}


def _of_release(release: Entity) -> Iterator[tuple[str, Values]]:
    of, values = chart(release.inputs), release.inputs.get("values") or {}
    name, version = str(release.inputs.get("name")), release.inputs.get("version")
    full = str(values.get("fullnameOverride") or (name if of in name else f"{name}-{of}"))
    labels = {"app.kubernetes.io/name": of, "app.kubernetes.io/instance": name}
    for kind, suffix, image, folders in CHARTS.get(of, ()):
        if suffix == "-gpu-feature-discovery" and not value_at(values, "gfd.enabled"):
            continue
        shown = values.get("worker") or {} if suffix == "-worker" else values
        pod = {key: shown[key] for key in ("nodeSelector", "affinity", "tolerations") if shown.get(key)}
        if suffix == MPS:
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), "nvidia.com/mps.capable": "true"}
        queue = value_at(values, "settings.interruptionQueue")
        env = [{"name": "INTERRUPTION_QUEUE", "value": queue}] if of == "karpenter" and queue else []
        yield kind, _workload(f"{full}{suffix}", release.namespace, labels, f"{image}:v{version}", folders, pod, env)
    if of == OPERATOR and value_at(values, "devicePlugin.enabled") is not False:
        for name, label, image, folders in OPERANDS:
            pod = {"nodeSelector": {label: "true"}, "tolerations": value_at(values, "daemonsets.tolerations") or []}
            yield "DaemonSet", _workload(name, release.namespace, {"app": name}, image, folders, pod)


def _workload(
    name: str,
    namespace: str,
    labels: dict[str, str],
    image: str,
    folders: tuple[str, ...],
    pod: Values,
    env: list[Values] | None = None,
) -> Values:
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(folders)]
    container = {"name": name, "image": image, "env": env or []}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes, **pod}},
    }
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}
