"""The connections that the NetworkPolicies of a stack allow, by Kubernetes' documentation of "Network Policies".

Only incoming rules: a stack has no others. `ipBlock` is refused, since it says nothing about pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod, with the properties that policies use."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Network:
    """The policies and namespaces of a cluster."""

    def __init__(self, policies: Iterable[Object], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._policies = list(policies)
        self._namespaces = namespaces

    def allows(self, source: Pod, target: Pod, port: int) -> bool:
        """Whether a pod may connect to a port of another."""
        rules = self._rules(target)
        return rules is None or any(self._matches(rule, source, target, port) for rule in rules)

    def _rules(self, target: Pod) -> list[Object] | None:
        """The rules for connections to a pod; None if no policy selects it, so that all are allowed."""
        selecting = [
            policy["spec"]
            for policy in self._policies
            if policy["metadata"]["namespace"] == target.namespace
            and "Ingress" in policy["spec"].get("policyTypes", ["Ingress"])
            and selects(policy["spec"]["podSelector"], target.labels)
        ]
        return [rule for spec in selecting for rule in spec.get("ingress", [])] if selecting else None

    def _matches(self, rule: Object, source: Pod, target: Pod, port: int) -> bool:
        peers, ports = rule.get("from", []), rule.get("ports", [])
        open_port = not ports or any(one.get("protocol", "TCP") == "TCP" and one["port"] == port for one in ports)
        return open_port and (not peers or any(self._is_peer(peer, source, target.namespace) for peer in peers))

    def _is_peer(self, peer: Object, source: Pod, home: str) -> bool:
        assert peer.keys() <= {"podSelector", "namespaceSelector"}, peer
        if "namespaceSelector" not in peer:
            return source.namespace == home and selects(peer["podSelector"], source.labels)
        # The API server sets this label, and nobody can change it.
        labels = {**self._namespaces.get(source.namespace, {}), "kubernetes.io/metadata.name": source.namespace}
        return selects(peer["namespaceSelector"], labels) and selects(peer.get("podSelector", {}), source.labels)


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects labels; an empty one selects all."""
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(_holds(expression, labels) for expression in selector.get("matchExpressions", []))


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: Sequence[str] = expression.get("values", [])
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]
