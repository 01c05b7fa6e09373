"""Importances become PriorityClasses that Kubernetes accepts, and only if a model has one."""

import pytest

from sharing.models.importance import PRIORITIES, priority_class, used
from tests.sharing.builders import served, setup

NONE_OF_OURS = 0
"""Priority of a pod without a PriorityClass, unless the cluster has a default (kubernetes pkg/apis/scheduling)."""
NO_NEW_NODE_BELOW = -10
"""Priority below which the Cluster Autoscaler starts no node (cluster-autoscaler/main.go)."""


def test_models_are_ranked_below_all_other_pods_and_still_get_nodes() -> None:
    assert NONE_OF_OURS >= PRIORITIES["high"] > PRIORITIES["normal"] > PRIORITIES["low"] >= NO_NEW_NODE_BELOW
    assert priority_class("ollama", "high") == "tandem-ollama-high"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([None, None], []),
        (["high", None], ["high", "normal"]),
        ([None, "low"], ["normal", "low"]),
        (["low", "high", "low"], ["high", "low"]),
        (["normal"], ["normal"]),
    ],
)
def test_a_model_without_an_importance_is_normal_once_another_has_one(written: list[str], expected: list[str]) -> None:
    assert used(written) == expected  # type: ignore[arg-type]


def test_one_model_with_an_importance_is_enough() -> None:
    plain, low = served(), served().changed(importance="low")
    assert not setup(models=[plain]).has_importance
    assert setup(models=[plain, low]).has_importance
