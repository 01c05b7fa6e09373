"""The importance of models: which of them keep running when shares are short."""

from collections.abc import Iterable
from typing import Literal

from sharing.names import PROJECT

Importance = Literal["high", "normal", "low"]
NORMAL: Importance = "normal"
"""Of a model without the key, if another model has it."""
PRIORITIES: dict[Importance, int] = {"high": 0, "normal": -5, "low": -10}
"""Values of the PriorityClasses. A pod without a class has 0, so that no model evicts another program's pod.

The Cluster Autoscaler starts no node for pods below -10 (cluster-autoscaler/main.go, expendable-pods-priority-cutoff).
"""


def priority_class(namespace: str, importance: Importance) -> str:
    """Name of the PriorityClass of models in that namespace. PriorityClasses belong to the entire cluster."""
    return f"{PROJECT}-{namespace}-{importance}"


def used(written: Iterable[Importance | None]) -> list[Importance]:
    """The importances of models, the highest first; empty if no model has one."""
    found = set(written)
    return [one for one in PRIORITIES if one in {each or NORMAL for each in found}] if found - {None} else []
