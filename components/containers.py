"""Security settings of containers and namespaces: the fewest privileges that work."""

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

ROOT, NOBODY = 0, 65534

MODEL_USER = ROOT
"""User of the Ollama servers in every sharing mode, so that model files stay writable after a switch.

It is root, without capabilities (docs/decisions/0046). Kubelet creates a node's directory for root with mode 0755, and
no other user is known to work with the plugin's MPS daemon.
"""
API_ACCESS = {
    "API_SERVER": "https://kubernetes.default.svc",
    "CREDENTIALS": "/var/run/secrets/kubernetes.io/serviceaccount",
}
"""Environment of a script that calls the Kubernetes API with its pod's token."""
UNPRIVILEGED: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""securityContext of a container without privileges."""


def requests(cpu_millis: int, memory_mib: int) -> dict[str, Any]:
    """Resources of a container whose limit of memory is its request."""
    memory = {"memory": f"{memory_mib}Mi"}
    return {"requests": {"cpu": f"{cpu_millis}m", **memory}, "limits": memory}


def run_as(user: int) -> dict[str, Any]:
    """securityContext of a pod whose containers run with this user ID and group ID."""
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": user != ROOT,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def create_namespace(name: str, named: str, level: str, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Registers a namespace that enforces a Pod Security level: `privileged`, `baseline` or `restricted`.

    Returns the name `named` as an output, on which everything inside must depend.
    """
    metadata = k8s.meta.v1.ObjectMetaArgs(name=named, labels={"pod-security.kubernetes.io/enforce": level})
    made: pulumi.Output[str] = k8s.core.v1.Namespace(name, metadata=metadata, opts=child).metadata.name
    return made
