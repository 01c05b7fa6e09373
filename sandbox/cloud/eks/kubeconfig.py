"""The kubeconfig of `eks.Cluster`. It has no credential: the AWS CLI issues a token at each use."""

import json
from typing import Any

from sandbox.cloud.protocol import Values

_EXEC_API = "client.authentication.k8s.io/v1beta1"


def kubeconfig(cluster: Values) -> dict[str, Any]:
    """The kubeconfig for an EKS cluster with these outputs. The region is from its ARN."""
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
    """The kubeconfig as JSON without spaces."""
    return json.dumps(config, separators=(",", ":"))
