"""The blocks of the optional features (`sharing.verdict.features`)."""

from collections.abc import Callable, Mapping
from typing import Any

from sharing.verdict.features import COST_ALERT, MONITORING, PARK, UI, features_of
from stacks.base import Serving
from stacks.features.cost_alert import warn_of_costs
from stacks.features.monitoring import watch_metrics
from stacks.features.park import park_nodes
from stacks.features.ui import serve_ui

BLOCKS: Mapping[str, Callable[[Serving], Mapping[str, Any]]] = {
    COST_ALERT.key: warn_of_costs,
    MONITORING.key: watch_metrics,
    UI.key: serve_ui,
    PARK.key: park_nodes,
}
"""What deploys each feature, after the models, and returns its outputs.

`scale-to-zero` is not here: the models need its block (`stacks.features.scale_to_zero`).
"""


def deploy_features(stack: Serving) -> dict[str, Any]:
    """The blocks of the features that the stack has. Returns their outputs: fields of `stacks.outputs.StackOutputs`."""
    keys = {feature.key for feature in features_of(stack.base.plan.config)}
    return {name: value for key, block in BLOCKS.items() if key in keys for name, value in block(stack).items()}
