"""The kubeconfig that `eks.Cluster` returns: no credential in it, a token comes from the aws CLI at each use."""

import json
from typing import Any

from sandbox.cloud.protocol import Values

_EXEC_API = "client.authentication.k8s.io/v1beta1"


def kubeconfig(cluster: Values) -> dict[str, Any]:
    """For an EKS cluster with these outputs; the region is that of its ARN."""
    region = cluster["arn"].split(":")[3]
    command = ["--region", region, "eks", "get-token", "--cluster-name", cluster["name"], "--output", "json"]
    exec_info = {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps({"apiVersion": _EXEC_API})}
    server = {"server": cluster["endpoint"], "certificate-authority-data": cluster["certificateAuthority"]["data"]}
    login = {"apiVersion": _EXEC_API, "command": "aws", "args": command, "env": [exec_info]}
    return {
        "apiVersion": "v1",
        "clusters": [{"cluster": server, "name": "kubernetes"}],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [{"name": "aws", "user": {"exec": login}}],
    }


def text(config: Values) -> str:
    """As JSON, without spaces."""
    return json.dumps(config, separators=(",", ":"))
