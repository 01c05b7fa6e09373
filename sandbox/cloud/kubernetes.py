"""Outputs of Kubernetes objects and Helm releases."""

from sandbox.cloud.identity import autonamed
from sandbox.cloud.protocol import Creation, Rule, Values

PACKAGE = "kubernetes:"


def rule(token: str) -> Rule | None:
    """The rule of a Kubernetes type. None for other packages."""
    if token == "kubernetes:helm.sh/v3:Release":
        return _release
    return _object if token.startswith(PACKAGE) else None


def _object(creation: Creation) -> tuple[str, Values]:
    """Its namespace is the given one: our programs name it for every kind that has one."""
    given = creation.inputs.get("metadata") or {}
    metadata = {**given, "name": autonamed(creation.name, given.get("name"))}
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else metadata["name"], {"metadata": metadata}


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
