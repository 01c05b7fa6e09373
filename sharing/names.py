"""Labels, taints, tags, ports, namespaces and names of resources."""

import hashlib
import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

PROJECT = "tandem"
TOKEN = "tandem:index:{}"
"""Type token of a component. Frozen: a rename replaces the resources of users, unless it gets an alias."""

POOL_LABEL = "tandem/pool"
"""Node label by which models find GPU nodes: our own, since the GPU Operator rewrites `nvidia.com/gpu.present`."""
MPS_DAEMON_LABEL = "tandem/mps"
"""Node label of nodes that run an MPS daemon of their own; its value says what limits its clients have."""
PROOF_LABEL = "tandem/proof"
"""Label of the pods of a share check: pods of the same check have the same value."""
OWNER_LABEL = "tandem/stack"
"""Label of what a stack creates under a fixed name in a cluster that it does not own: its value is `cluster_name()`."""
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
"""Node label on which the device plugin's DaemonSets are scheduled, before any feature discovery has run."""
PLUGIN_CHART = "nvidia-device-plugin"
DEVICE_PLUGIN_NAMESPACE = PLUGIN_CHART
"""Named after the chart; each pool has a release in it."""
OPERATOR_NAMESPACE = "gpu-operator"
DISCOVERY_NAMESPACE = "node-feature-discovery"
OLLAMA_NAMESPACE = "ollama"
"""Default namespace of a stack's models."""
UI_NAMESPACE = "open-webui"
"""Default namespace of the web interface, which it has for itself."""
UI_LABELS = {"app.kubernetes.io/name": "open-webui"}
"""Labels of its pod."""
KEDA_NAMESPACE = "keda"
"""Default namespace of KEDA and its HTTP add-on."""
INTERCEPTOR_LABELS = {"app.kubernetes.io/component": "interceptor", "app.kubernetes.io/name": "http-add-on"}
"""Labels of the add-on's pod that receives requests. Source: chart 0.15.0, templates/interceptor/deployment.yaml."""
SCALER_LABELS = {**INTERCEPTOR_LABELS, "app.kubernetes.io/component": "scaler"}
"""Labels of its pod that reports them to KEDA."""
MONITORING_NAMESPACE = "tandem-monitoring"
"""Default namespace of the metrics store. Not `monitoring`, in which many clusters have a Prometheus."""
GPU_EXPORTER = "dcgm-exporter"
"""Chart, release and namespace of the exporter of GPU metrics, which is privileged and has a namespace of its own."""
ZONE_LABEL = "topology.kubernetes.io/zone"
TYPE_LABEL = "node.kubernetes.io/instance-type"

GPU_TAINT = "nvidia.com/gpu"
GPU_TAINT_VALUE = "present"
"""The value that the plugin chart's feature discovery tolerates by default."""
MODE_TAINT = "tandem/mode"
"""Taint of GPU nodes: pods that tolerate another value are evicted, so that pods of the old mode are deleted before the
first pod of the new mode starts."""
TOLERATED = ({"key": GPU_TAINT, "operator": "Exists"}, {"key": MODE_TAINT, "operator": "Exists"})
"""Tolerations, as Kubernetes writes them, of pods that serve a GPU node under every mode."""

TAG_PROJECT = "tandem:project"
TAG_STACK = "tandem:stack"
TAG_ZONES = "tandem:zones"
"""Tag of a group of GPU nodes with its zones. The next `up` reads them and keeps the group there."""
EBS_CSI_TAG = "ebs.csi.aws.com/cluster"
"""AmazonEBSCSIDriverPolicyV2 lets the driver attach only volumes that carry this tag."""

NODE_MODELS_DIRECTORY = "/var/lib/tandem/models"
"""Folder of model files on a GPU node (`cache: node`), one directory per model."""

OLLAMA_PORT = 11434
UI_PORT = 8080
METRICS_PORT = 9410
"""Port of `/metrics` in each model's pod."""
METRICS_PORT_NAME = "metrics"
"""Name of that port, and of its container.

The container is a native sidecar, so Kubernetes lists it as an init container. A scrape job that drops targets with
`__meta_kubernetes_pod_container_init` never sees it; the default jobs of victoria-metrics-single 0.45.0 do that.
"""
METRICS_ANNOTATIONS = {"prometheus.io/scrape": "true", "prometheus.io/port": str(METRICS_PORT)}
"""Annotations of each model's pod."""
INTERCEPTOR_PORT = OLLAMA_PORT
"""Ollama's port, so that an address without a port means the same with the interceptor in between."""
INTERCEPTOR_ADMIN_PORT = 9090
"""Port on which the interceptor reports its waiting requests."""
SCALER_PORT = 9090
GPU_EXPORTER_PORT = 9400
STORE_PORT = 8428
DASHBOARDS_PORT = 3000
PROOF_PORT = 7077
"""Port on which pod 0 of a share check listens for the others."""


MAX_CLUSTER_NAME = 48
"""EKS allows 100 characters; IAM roles named after the cluster allow 64, including their suffix."""


def cluster_name(stack: str) -> str:
    """Name of the stack's EKS cluster."""
    return safe_name(f"{PROJECT}-{stack}", MAX_CLUSTER_NAME)


class StackTags(dict[str, str]):
    """The tags of a stack, with those that identify it. A user's own mapping of tags must not have these."""


def stack_tags(stack: str, extra: Mapping[str, str]) -> StackTags:
    """The tags of a stack. `extra` cannot replace those that identify it."""
    own = own_tags(stack)
    return StackTags({**own, **extra, **own})


def own_tags(stack: str) -> dict[str, str]:
    """The tags that identify resources of the stack, without those that its file adds."""
    return {TAG_PROJECT: PROJECT, TAG_STACK: stack}


def with_name(tags: Mapping[str, str], name: str) -> dict[str, str]:
    """The tag set with the name that the AWS console shows."""
    return {**tags, "Name": name}


def filled(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that have a value, for EventBridge Scheduler, which refuses others.

    Source: botocore 1.44.5, scheduler `TagValue`, min 1. The other services that a stack uses allow empty values.
    """
    return {key: value for key, value in tags.items() if value}


def plugin_release(pool: str) -> str:
    """Name of a pool's release of the plugin's chart, and of the release's objects.

    The chart takes 41 characters; beyond that its three DaemonSets get the same name. A pool's name has 20 at most.
    """
    return f"{PLUGIN_CHART}-{pool}"


def tolerations(mode_taint: T | None) -> list[dict[str, T | str]]:
    """Tolerations, as Kubernetes writes them, of a pod for nodes with this value of the taint; for all when None."""
    if mode_taint is None:
        return [{**toleration} for toleration in TOLERATED]
    return [{**TOLERATED[0]}, {"key": MODE_TAINT, "operator": "Equal", "value": mode_taint}]


def model_id(tag: str) -> str:
    """An id from a tag, valid as the name of a Kubernetes Service (begins with a letter, no dots)."""
    plain = re.sub(r"[^a-z0-9]+", "-", tag.lower()).strip("-")[:36].strip("-")
    return plain if plain[:1].isalpha() else f"m-{plain}"


def safe_name(text: str, most: int) -> str:
    """`text` as a name of at most `most` lower-case letters, digits and dashes; a hash keeps shortened ones apart."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(plain) <= most and plain == text:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{plain[: most - 7].strip('-')}-{digest}"
