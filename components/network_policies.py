"""Network policies: which pods can connect to the models, the share proof, Jobs and the web interface.

These policies only restrict incoming connections between pods:

- Outgoing connections stay open, because pods pull models from a registry and look up names in kube-system.
- Kubelet's probes come from the node. No policy blocks a node's traffic to its own pods (Kubernetes documentation,
  "Network Policies"; aws-network-policy-agent v1.4.0 pkg/fwruleprocessor/fw_rule_processor.go allows the node's address
  in every map).
- `kubectl port-forward` connects to localhost inside the pod's own network namespace (containerd v2.2.4
  internal/cri/server/sandbox_portforward_linux.go). The agent's eBPF programs are attached to the host's end of the
  pod's interface and never see such connections. The same is true for the sidecar that watches a model.

vpc-cni enforces the policies (see `GpuCluster`). It requires that a Service and its container use the same port number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import check_arguments
from sharing.names import (
    GPU_EXPORTER_PORT,
    INTERCEPTOR_ADMIN_PORT,
    INTERCEPTOR_LABELS,
    INTERCEPTOR_PORT,
    METRICS_PORT,
    OLLAMA_PORT,
    PROOF_LABEL,
    PROOF_PORT,
    SCALER_LABELS,
    STORE_PORT,
    UI_PORT,
)

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label with the name of a namespace. The API server sets it, and users cannot change it."""

JOB_LABEL = "batch.kubernetes.io/job-name"
"""Label with the name of a pod's Job, which the Job controller sets
(https://kubernetes.io/docs/reference/labels-annotations-taints/).
"""

PROMETHEUS_LABELS = {"app.kubernetes.io/managed-by": "prometheus-operator"}
"""Labels that the Prometheus Operator gives its pods (prometheus-operator pkg/prometheus/server/statefulset.go)."""

Spec = dict[str, Any]
Peer = dict[str, Any]


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ModelClients:
    """Pods outside the models' namespace that can send requests to the models, or read their metrics.

    Raises `ValueError` for a value of the wrong type.
    """

    namespaces: Sequence[str] = ()
    """Names of namespaces, all of whose pods have access."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of pods that have access, in any namespace. A pod must have all of them."""


def network_policy(
    name: str,
    namespace: pulumi.Input[str],
    spec: Spec,
    opts: pulumi.ResourceOptions,
    policy_name: str = "incoming",
) -> k8s.networking.v1.NetworkPolicy:
    """Registers a policy in a namespace."""
    return k8s.networking.v1.NetworkPolicy(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=policy_name, namespace=namespace),
        spec=cast(Any, spec),
        opts=opts,
    )


def to_models(clients: ModelClients, scrapers: ModelClients | None, interceptors: Sequence[str]) -> Spec:
    """Lets the models' own namespace and `clients` reach the Ollama servers, and `scrapers` their metrics only.

    `interceptors` are namespaces of KEDA's HTTP add-on, whose interceptor may reach the servers, too.
    """
    forwarding = [
        {
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: interceptor}},
            "podSelector": {"matchLabels": INTERCEPTOR_LABELS},
        }
        for interceptor in interceptors
    ]
    spec = _incoming([{"podSelector": {}}, *_peers(clients), *forwarding], OLLAMA_PORT)
    if scrapers and (peers := _peers(scrapers)):
        spec["ingress"].append(_rule(peers, METRICS_PORT))
    return spec


def to_page(clients: ModelClients) -> Spec:
    """Lets `clients` reach the web page, whose API is one address for all models."""
    peers = _peers(clients)
    return _incoming(peers, UI_PORT) if peers else to_no_pod()


def to_interceptor(clients: ModelClients) -> Spec:
    """Lets `clients` reach the interceptor, and the scaler of its namespace the number of waiting requests.

    It selects only the interceptor: the control plane checks KEDA's other pods.
    """
    scaler = _rule([{"podSelector": {"matchLabels": SCALER_LABELS}}], INTERCEPTOR_ADMIN_PORT)
    spec = _incoming(_peers(clients), INTERCEPTOR_PORT)
    return {**spec, "podSelector": {"matchLabels": INTERCEPTOR_LABELS}, "ingress": [*spec["ingress"], scaler]}


def _peers(clients: ModelClients) -> list[Peer]:
    peers: list[Peer] = []
    if clients.namespaces:
        named = {"key": NAMESPACE_NAME, "operator": "In", "values": [*clients.namespaces]}
        peers.append({"namespaceSelector": {"matchExpressions": [named]}})
    if clients.labels:
        # Both selectors in one peer: pods with these labels in any namespace.
        peers.append({"namespaceSelector": {}, "podSelector": {"matchLabels": {**clients.labels}}})
    return peers


def to_proof() -> Spec:
    """Lets the pods of a share proof reach the pod that collects the results."""
    return _incoming([{"podSelector": {"matchExpressions": [{"key": PROOF_LABEL, "operator": "Exists"}]}}], PROOF_PORT)


def to_nobody(job: str) -> Spec:
    """Lets no pod connect to the pods of this Job."""
    return {**to_no_pod(), "podSelector": {"matchLabels": {JOB_LABEL: job}}}


def to_no_pod() -> Spec:
    """Lets no pod connect to any pod of the namespace.

    Without `ingress`: the API server stores no empty list, so applying one again counts as a change of the policy
    (`PrepareForUpdate` in pkg/registry/networking/networkpolicy/strategy.go, Kubernetes 1.36).
    """
    return {"podSelector": {}, "policyTypes": ["Ingress"]}


def to_store() -> Spec:
    """Lets the pods of a metrics store's own namespace reach the store, and no pod anything else there."""
    return _incoming([{"podSelector": {}}], STORE_PORT)


def to_gpu_exporter(namespaces: Sequence[str], *, prometheus: bool) -> Spec:
    """Lets the pods of these namespaces, and those of the Prometheus Operator, read the metrics of GPUs."""
    labels = PROMETHEUS_LABELS if prometheus else {}
    return _incoming(_peers(ModelClients(namespaces=namespaces, labels=labels)), GPU_EXPORTER_PORT)


def _incoming(peers: Sequence[Peer], port: int) -> Spec:
    return {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [_rule(peers, port)]}


def _rule(peers: Sequence[Peer], port: int) -> dict[str, Any]:
    return {"from": [*peers], "ports": [{"protocol": "TCP", "port": port}]}
