"""What the containers of this program may do: as little as their work allows."""

from typing import Any

ROOT, NOBODY = 0, 65534

MODEL_USER = ROOT
"""User of the models' servers in every mode, so that the files of one mode stay writable in the next.

Root, without any of its capabilities (docs/decisions/0046): kubelet makes a directory on a node for root with mode
0755, and nobody has shown another user to work with the plugin's MPS daemon.
"""
UNPRIVILEGED: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""securityContext of a container."""


def run_as(user: int) -> dict[str, Any]:
    """securityContext of a pod whose containers run as this user and group."""
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": user != ROOT,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def pod_security(level: str) -> dict[str, str]:
    """Labels of a namespace that refuses pods beyond a Pod Security level: `privileged`, `baseline`, `restricted`."""
    return {"pod-security.kubernetes.io/enforce": level}
