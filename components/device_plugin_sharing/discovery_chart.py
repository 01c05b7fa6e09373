"""The chart of node feature discovery (NFD), which labels nodes with the hardware that they have."""

from typing import Any

from components.charts import Chart
from sharing import versions
from sharing.names import tolerations

CHART = Chart(
    name="node-feature-discovery",
    version=versions.FEATURE_DISCOVERY_CHART,
    repository=versions.FEATURE_DISCOVERY_REPOSITORY,
)
"""One release for the whole cluster: its labels serve every plugin release and the GPU Operator."""


def values() -> dict[str, Any]:
    """Values of the chart: the ones that both NVIDIA charts give it where they bring it along."""
    return {
        # Its Job needs a node without a taint when everything is being destroyed, and hangs without one.
        "postDeleteCleanup": False,
        "master": {"config": {"extraLabelNs": ["nvidia.com"]}},
        "worker": {
            "tolerations": tolerations(None),
            # Display and network controllers by vendor, e.g. `feature.node.kubernetes.io/pci-10de.present`.
            "config": {"sources": {"pci": {"deviceClassWhitelist": ["02", "03"], "deviceLabelFields": ["vendor"]}}},
        },
    }
