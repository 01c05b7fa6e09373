"""Warnings about `models-clients`: the pods that may send requests to the models."""

from collections.abc import Iterator, Mapping

from sharing.names import OLLAMA_NAMESPACE
from sharing.problems import Problem
from sharing.sections.config import ModelClients

UNWISE: Mapping[str, tuple[str, str]] = {
    # EKS puts the address of every pod of a listed namespace into the rules, also of those with `hostNetwork`
    # (amazon-network-policy-controller-k8s v1.1.7, pkg/resolvers/endpoints.go, computeIngressEndpoints). In kube-system
    # these are aws-node and kube-proxy, on every node.
    "kube-system": (
        "has pods with `hostNetwork` on every node; these use the node's address, so everything on the nodes' "
        "network could use and delete models",
        "Move the client to a namespace of its own, and list that one.",
    ),
    OLLAMA_NAMESPACE: ("has no effect: it is the models' own namespace, whose pods always have access", "Remove it."),
}
"""Namespaces that are accepted with a warning, by name: the rule and the fix."""


def warn_of_clients(clients: ModelClients) -> Iterator[Problem]:
    """Warns about namespaces that give access to too many pods, or to none."""
    for index, name in enumerate(clients.namespaces):
        if name in UNWISE:
            rule, fix = UNWISE[name]
            yield Problem(f"models-clients.namespaces[{index}]", f"'{name}'", rule, fix)
