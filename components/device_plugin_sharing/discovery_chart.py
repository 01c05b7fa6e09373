"""The Helm chart of node feature discovery (NFD), which labels each node with its hardware."""

from typing import Any

from components.charts import Chart
from sharing import versions
from sharing.names import tolerations

CHART = Chart(
    name="node-feature-discovery",
    version=versions.FEATURE_DISCOVERY_CHART,
    repository=versions.FEATURE_DISCOVERY_REPOSITORY,
)
"""One release per cluster. Every plugin release and the GPU Operator use its labels."""


def values() -> dict[str, Any]:
    """The chart's values: those that both NVIDIA charts set when they install it as a subchart."""
    return {
        # The cleanup Job needs an untainted node. During `destroy` there may be none, and the Job would hang.
        "postDeleteCleanup": False,
        "master": {"config": {"extraLabelNs": ["nvidia.com"]}},
        "worker": {
            "tolerations": tolerations(None),
            # PCI classes 02 (network) and 03 (display), labelled by vendor, e.g.
            # `feature.node.kubernetes.io/pci-10de.present`.
            "config": {"sources": {"pci": {"deviceClassWhitelist": ["02", "03"], "deviceLabelFields": ["vendor"]}}},
        },
    }
