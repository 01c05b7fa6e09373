"""The optional features of a stack: each module declares one.

A feature also has a section in `sharing.sections`, which `StackConfig` reads, and a block in `stacks.features`.
"""

from collections.abc import Iterator

from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.verdict.features.cost_alert import COST_ALERT
from sharing.verdict.features.feature import Feature
from sharing.verdict.features.monitoring import MONITORING
from sharing.verdict.features.park import PARK
from sharing.verdict.features.scale_to_zero import SCALE_TO_ZERO
from sharing.verdict.features.ui import UI

__all__ = ["COST_ALERT", "FEATURES", "MONITORING", "PARK", "SCALE_TO_ZERO", "UI", "features_of"]

FEATURES: tuple[Feature, ...] = (SCALE_TO_ZERO, COST_ALERT, PARK, UI, MONITORING)
"""In the order of their lines on the screen of the plan."""


def features_of(config: StackConfig) -> tuple[Feature, ...]:
    """The features that the stack has."""
    return tuple(feature for feature in FEATURES if feature.is_on(config))


def find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """The errors of form of the stack's features."""
    return (problem for feature in features_of(config) for problem in feature.contradictions(config))


def find_system_pods(config: StackConfig) -> frozenset[str]:
    """What the stack's features add to the system nodes: values of `when` in `data/node_pods.csv`."""
    return frozenset(part for feature in features_of(config) for part in feature.system_pods(config))
