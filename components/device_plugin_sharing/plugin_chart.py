"""The chart of the NVIDIA device plugin, for GPUs that stay whole: one release for each pool of nodes."""

import hashlib
import json
from typing import Any

import pulumi

from components.charts import Chart
from sharing import versions
from sharing.modes import WHOLE_GPU_LABELS, Sharing
from sharing.names import MODE_TAINT, PLUGIN_CHART, POOL_LABEL, tolerations

CHART = Chart(
    name=PLUGIN_CHART,
    version=versions.DEVICE_PLUGIN_CHART,
    repository=versions.DEVICE_PLUGIN_REPOSITORY,
)


def values(pool: str, sharing: Sharing, mode_taint: pulumi.Input[str] | None = None) -> dict[str, Any]:
    """Values of the chart. No chart value `migStrategy` and the like: as environment it would beat the configuration.

    There is one configuration, and it is the default. The plugin's config-manager starts every node with the default,
    whatever a label says, and then changes it by a signal from which the plugin does not recover (docs/decisions/0001).
    """
    return {
        "config": {"default": sharing.config_name, "map": {sharing.config_name: json.dumps(sharing.plugin_config())}},
        "nodeSelector": {POOL_LABEL: pool, **WHOLE_GPU_LABELS},
        # In place of the chart's terms, among them `nvidia.com/gpu.present`: the GPU Operator sets that label to
        # `false` on every node that feature discovery has not seen yet, which would stop the plugin once more.
        "affinity": _on_nodes_of(pool),
        # The plugin stays while the mode of its node changes.
        "tolerations": tolerations(None),
        # Feature discovery sets the label on which the MPS daemon is scheduled.
        "gfd": {"enabled": True},
        # A release of its own: another one here would fight it over the nodes' labels.
        "nfd": {"enabled": False},
        # Engine and cluster disagree after an update whose answer was lost. Values that were never used before are an
        # update in any case, also when the mode is taken back (tests/engine/test_switch.py).
        **({} if mode_taint is None else {"podAnnotations": {MODE_TAINT: mode_taint}}),
    }


def fingerprint(pool: str, sharing: Sharing) -> str:
    """Eight characters that change with anything that restarts the pods of a pool's release."""
    told = json.dumps([CHART.version, values(pool, sharing)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _on_nodes_of(pool: str) -> dict[str, Any]:
    chosen = {"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": [pool]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [chosen]}}}
