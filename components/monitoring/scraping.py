"""Which pods have metrics, and the labels that their series get: for the store and for the Prometheus Operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from sharing.names import (
    GPU_EXPORTER,
    GPU_EXPORTER_PORT,
    METRICS_PORT,
    METRICS_PORT_NAME,
    OPERATOR_NAMESPACE,
    POOL_LABEL,
)

SECONDS = 15
"""Time between two readings. The dashboard's rates need several readings in their two minutes."""
KARPENTER, KARPENTER_PORT = "karpenter", 8080
INTERRUPTIONS = "karpenter_nodeclaims_disrupted_total"
NODE_META = f"__meta_kubernetes_node_label_{POOL_LABEL.replace('/', '_')}"

Rule = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Pods to read metrics from."""

    name: str
    """Value of the label `job`."""
    namespaces: Sequence[pulumi.Input[str]]
    port: int
    port_name: str = METRICS_PORT_NAME
    """dcgm-exporter, also the GPU Operator's, has the same name for it as the models' exporter."""
    rules: Sequence[Rule]
    """Relabeling of targets, after what is the same for all."""
    metric_rules: Sequence[Rule] = ()
    """Relabeling of series."""


def gpu_job() -> Job:
    """dcgm-exporter, also the GPU Operator's.

    Its labels `pod` and `namespace` name the pod that holds a share of the GPU. A series without them belongs to the
    GPU. So the target must not have these labels: the store would add them to the series of the GPU.
    """
    return Job(
        name=GPU_EXPORTER,
        namespaces=(GPU_EXPORTER, OPERATOR_NAMESPACE),
        port=GPU_EXPORTER_PORT,
        rules=({"action": "labeldrop", "regex": "pod|namespace|container|endpoint"},),
        # The label's name changed after 4.8.2 (NVIDIA/dcgm-exporter#655), and `node` has the same value.
        metric_rules=({"action": "labeldrop", "regex": "Hostname|hostname"},),
    )


def models_job(namespace: pulumi.Input[str]) -> Job:
    """The exporter in each model's pod. It is a native sidecar, which Kubernetes lists as an init container."""
    return Job(
        name="tandem-models",
        namespaces=(namespace,),
        port=METRICS_PORT,
        rules=(
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
        ),
    )


def karpenter_job() -> Job:
    """Karpenter's count of nodes that it drains, and no other metric (charts/karpenter 1.14.1, `http-metrics`)."""
    named = "__meta_kubernetes_pod_label_app_kubernetes_io_name"
    return Job(
        name=KARPENTER,
        namespaces=("kube-system",),
        port=KARPENTER_PORT,
        port_name="http-metrics",
        rules=(
            {"action": "keep", "source_labels": [named], "regex": KARPENTER},
            {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
        ),
        metric_rules=({"action": "keep", "source_labels": ["__name__"], "regex": INTERRUPTIONS},),
    )


def _rules(job: Job) -> list[Rule]:
    return [
        {"action": "keep", "source_labels": ["__meta_kubernetes_pod_container_port_number"], "regex": str(job.port)},
        {"target_label": "job", "replacement": job.name},
        {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
        {"source_labels": [NODE_META], "target_label": "pool"},
        *job.rules,
    ]


def scrape_config(jobs: Sequence[Job]) -> dict[str, Any]:
    """The jobs in the format of a Prometheus configuration.

    The store's chart has jobs of its own, which this replaces. They read every node and container, they skip native
    sidecars, and they give the series of a GPU the name of the exporter's pod.
    """
    return {"global": {"scrape_interval": f"{SECONDS}s"}, "scrape_configs": [_scrape(job) for job in jobs]}


def _scrape(job: Job) -> dict[str, Any]:
    discovery = {"role": "pod", "namespaces": {"names": [*job.namespaces]}, "attach_metadata": {"node": True}}
    return {
        "job_name": job.name,
        "honor_labels": True,
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": _rules(job),
        "metric_relabel_configs": [*job.metric_rules],
    }


def pod_monitor(job: Job) -> dict[str, Any]:
    """Spec of the PodMonitor for a job."""
    return {
        "namespaceSelector": {"matchNames": [*job.namespaces]},
        # Every pod with such a port: the rules keep those with the right number.
        "selector": {},
        "attachMetadata": {"node": True},
        "podMetricsEndpoints": [
            {
                "port": job.port_name,
                "interval": f"{SECONDS}s",
                "honorLabels": True,
                "relabelings": [_camel(rule) for rule in _rules(job)],
                "metricRelabelings": [_camel(rule) for rule in job.metric_rules],
            }
        ],
    }


def _camel(rule: Rule) -> Rule:
    names = {"source_labels": "sourceLabels", "target_label": "targetLabel"}
    return {names.get(key, key): value for key, value in rule.items()}
