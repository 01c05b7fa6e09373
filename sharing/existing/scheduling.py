"""Whether the scheduler may place a pod on a node: node selector, required node affinity, taints and tolerations.

Source: Kubernetes documentation, "Assigning Pods to Nodes" and "Taints and Tolerations"; for the cases that they leave
open, k8s.io/component-helpers v0.36.0 scheduling/corev1/nodeaffinity/nodeaffinity.go.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that may not exist yet."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    maybe: re.Pattern[str] | None = None
    """Beginnings of other labels that it may get. Nothing is known of their values."""


def may_run(pod: Object, node: Node) -> bool:
    """Whether a pod with this `spec` may run on the node. Labels that the node may get count as suitable."""
    selector = pod.get("nodeSelector") or {}
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in selector.items()]
    tolerations = pod.get("tolerations") or ()
    return (
        all(_meets(requirement, node) for requirement in wanted)
        and (affinity is None or any(_matches(term, node) for term in affinity.get("nodeSelectorTerms") or ()))
        and all(_is_tolerated(taint, tolerations) for taint in node.taints)
    )


def _matches(term: Object, node: Node) -> bool:
    """Whether all expressions of a term may be true; an empty term matches no node. Fields, like a name, may fit."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return bool(expressions or fields) and all(_meets(requirement, node) for requirement in expressions)


def _meets(requirement: Object, node: Node) -> bool:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or ()
    if key not in node.labels and node.maybe and node.maybe.match(key):
        return True
    found = node.labels.get(key)
    match operator:
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
    return _compares(operator, found, values)


def _compares(operator: str, found: str | None, values: Iterable[str]) -> bool:
    try:
        number, [bound] = int(found or ""), [int(value) for value in values]
    except ValueError:
        return False
    return number > bound if operator == "Gt" else operator == "Lt" and number < bound


def _is_tolerated(taint: Taint, tolerations: Iterable[Object]) -> bool:
    """Whether a pod may start in spite of the taint. `PreferNoSchedule` keeps no pod away."""
    return taint.effect == "PreferNoSchedule" or any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Object, taint: Taint) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if effect not in ("", taint.effect):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return key in ("", taint.key)
    return key == taint.key and (toleration.get("value") or "") == taint.value
