"""The Helm chart of the NVIDIA device plugin, for GPUs without MIG: one release per pool of nodes."""

import hashlib
import json
from typing import Any

import pulumi

from components.charts import Chart
from sharing import versions
from sharing.modes.base import ENTIRE_GPU_LABELS
from sharing.modes.modes import Sharing
from sharing.names import MODE_TAINT, PLUGIN_CHART, POOL_LABEL, tolerations

CHART = Chart(
    name=PLUGIN_CHART,
    version=versions.DEVICE_PLUGIN_CHART,
    repository=versions.DEVICE_PLUGIN_REPOSITORY,
)


def values(pool: str, sharing: Sharing, mode_taint: pulumi.Input[str] | None = None) -> dict[str, Any]:
    """The chart's values for one pool.

    They never set `migStrategy` or similar chart values. Those become environment variables, which override the
    plugin's configuration.

    The map has a single configuration, and it is the default. The plugin's config-manager starts every node with the
    default, whatever its label says. It then applies the labelled one with a signal from which the plugin does not
    recover (docs/decisions/0001).
    """
    return {
        "config": {"default": sharing.config_name, "map": {sharing.config_name: json.dumps(sharing.plugin_config())}},
        "nodeSelector": {POOL_LABEL: pool, **ENTIRE_GPU_LABELS},
        # Replaces the chart's own terms, one of which requires `nvidia.com/gpu.present`. The GPU Operator sets that
        # label to `false` until feature discovery has seen the node, which would stop the plugin.
        "affinity": _on_nodes_of(pool),
        # Tolerates every mode: the plugin must keep running while its node changes mode.
        "tolerations": tolerations(None),
        # GPU feature discovery sets the node label that the MPS daemon's DaemonSet selects.
        "gfd": {"enabled": True},
        # Installed as a separate release. A second instance would overwrite its node labels.
        "nfd": {"enabled": False},
        # If the reply to an update is lost, Pulumi's state and the cluster disagree. A value that was never used before
        # forces an update, even when you switch back to the previous mode (tests/engine/test_switch.py).
        **({} if mode_taint is None else {"podAnnotations": {MODE_TAINT: mode_taint}}),
    }


def fingerprint(pool: str, sharing: Sharing, registry: str | None = None) -> str:
    """Eight characters that change whenever a change restarts the plugin pods of this pool."""
    release = json.dumps([CHART.version, values(pool, sharing), *([registry] if registry else [])], sort_keys=True)
    return hashlib.sha256(release.encode()).hexdigest()[:8]


def _on_nodes_of(pool: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": [pool]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
