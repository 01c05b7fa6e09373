"""Deployments and DaemonSets of charts and of EKS's add-ons, as somebody sees them who lists a cluster's objects.

The world itself needs none of them: it knows the pods of a release (`pods.py`). Here are only those that say what a
cluster has, with what decides where their pods run. tests/cluster/charts.py has our charts' from Helm.
"""

from collections.abc import Iterator

from sandbox.world import tokens
from sandbox.world.controllers.nodes import cluster_at
from sandbox.world.controllers.pods import DISCOVERY, Values, chart
from sandbox.world.entities import Entities, Entity, value_at

Row = tuple[str, str, str, tuple[str, ...]]
"""Kind, name or its suffix, image, and folders of the node that the pods mount."""
_DISCOVERY = "registry.k8s.io/nfd/node-feature-discovery"
CHARTS: dict[str, tuple[Row, ...]] = {
    "nvidia-device-plugin": (
        ("DaemonSet", "", "nvcr.io/nvidia/k8s-device-plugin", ("/var/lib/kubelet/device-plugins", "/run/nvidia/mps")),
    ),
    "karpenter": (("Deployment", "", "public.ecr.aws/karpenter/controller", ()),),
    DISCOVERY: (("Deployment", "-master", _DISCOVERY, ()), ("DaemonSet", "-worker", _DISCOVERY, ())),
}
ADDONS: dict[str, tuple[Row, ...]] = {
    "vpc-cni": (("DaemonSet", "aws-node", "amazon-k8s-cni", ("/opt/cni/bin", "/etc/cni/net.d")),),
    "kube-proxy": (("DaemonSet", "kube-proxy", "eks/kube-proxy", ()),),
    "coredns": (("Deployment", "coredns", "eks/coredns", ()), ("Service", "kube-dns", "", ())),
    "eks-pod-identity-agent": (("DaemonSet", "eks-pod-identity-agent", "eks/eks-pod-identity-agent", ()),),
    "aws-ebs-csi-driver": (("DaemonSet", "ebs-csi-node", "eks/aws-ebs-csi-driver", ("/var/lib/kubelet",)),),
}


def workloads(entities: Entities, server: str) -> Iterator[tuple[str, Values]]:
    """Kind and object of each workload in a cluster, and of the Service of its DNS."""
    for release in entities.within(server, tokens.RELEASE):
        yield from _of_release(release)
    cluster = cluster_at(entities, server)
    for addon in entities.having(tokens.ADDON, clusterName=cluster.id) if cluster else ():
        for kind, name, image, folders in ADDONS.get(addon.inputs["addonName"], ()):
            pod = {"tolerations": [{"operator": "Exists"}]} if kind == "DaemonSet" else {}
            yield kind, _workload(name, "kube-system", image, folders, pod)


def _of_release(release: Entity) -> Iterator[tuple[str, Values]]:
    of, values, name = chart(release.inputs), release.inputs.get("values") or {}, str(release.inputs.get("name"))
    full = str(values.get("fullnameOverride") or (name if of in name else f"{name}-{of}"))
    queue = value_at(values, "settings.interruptionQueue")
    for kind, suffix, image, folders in CHARTS.get(of, ()):
        shown = values.get("worker") or {} if suffix == "-worker" else values
        pod = {key: shown[key] for key in ("nodeSelector", "affinity", "tolerations") if shown.get(key)}
        env = [{"name": "INTERRUPTION_QUEUE", "value": queue}] if queue else []
        version = release.inputs.get("version")
        yield kind, _workload(f"{full}{suffix}", release.namespace, f"{image}:v{version}", folders, pod, env)


def _workload(
    name: str, namespace: str, image: str, folders: tuple[str, ...], pod: Values, env: list[Values] | None = None
) -> Values:
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(folders)]
    spec = {"containers": [{"name": name, "image": image, "env": env or []}], "volumes": volumes, **pod}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": {"spec": spec}}}
