"""Outputs of Kubernetes objects and Helm releases."""

from typing import Any

from sandbox.cloud.identity import autonamed
from sandbox.cloud.protocol import Creation, Rule, Values

PACKAGE = "kubernetes:"
# Kinds in use that get a default namespace. Others, including custom resources, stay unchanged.
NAMESPACED = (
    *("ConfigMap", "CronJob", "DaemonSet", "Deployment", "Ingress", "Job", "NetworkPolicy", "PersistentVolumeClaim"),
    *("Pod", "PodDisruptionBudget", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "StatefulSet"),
)
PHASES = {"Namespace": "Active", "PersistentVolume": "Available", "PersistentVolumeClaim": "Bound"}


def rule(token: str) -> Rule | None:
    """The rule of a Kubernetes type. None for other packages."""
    if token == "kubernetes:helm.sh/v3:Release":
        return _release
    return _object if token.startswith(PACKAGE) else None


def _object(creation: Creation) -> tuple[str, Values]:
    kind = creation.type.rpartition(":")[2]
    given = creation.inputs.get("metadata") or {}
    metadata = {**given, "name": autonamed(creation.name, given.get("name"))}
    if kind in NAMESPACED:
        metadata["namespace"] = given.get("namespace") or "default"
    namespace = metadata.get("namespace")
    computed: dict[str, Any] = {"metadata": metadata}
    if kind in PHASES:
        computed["status"] = {"phase": PHASES[kind]}
    return f"{namespace}/{metadata['name']}" if namespace else metadata["name"], computed


def _release(creation: Creation) -> tuple[str, Values]:
    inputs = creation.inputs
    name = autonamed(creation.name, inputs.get("name"))
    namespace = inputs.get("namespace") or "default"
    status = {
        "name": name,
        "namespace": namespace,
        "status": "deployed",
        "revision": 1,
        "chart": inputs.get("chart"),
        "version": inputs.get("version"),
        "appVersion": inputs.get("version"),
    }
    return f"{namespace}/{name}", {"name": name, "namespace": namespace, "status": status, "resourceNames": {}}
