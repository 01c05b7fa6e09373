"""Where what a stack deploys is found in its cluster: for those who look at it, without importing Pulumi."""

from components.names import MODE_TAINT, OLLAMA_PORT, PLUGIN_CHART, POOL_LABEL, plugin_release, tolerations

__all__ = [
    "DEVICE_PLUGIN_NAMESPACE",
    "MODE_TAINT",
    "OLLAMA_NAMESPACE",
    "OLLAMA_PORT",
    "OPERATOR_NAMESPACE",
    "POOL_LABEL",
    "plugin_release",
    "tolerations",
]

OLLAMA_NAMESPACE = "ollama"
"""Default of `OllamaPairArgs.namespace`, which no stack overrides."""
DEVICE_PLUGIN_NAMESPACE = PLUGIN_CHART
"""Named after the chart; each pool has a release in it."""
OPERATOR_NAMESPACE = "gpu-operator"
"""The same of the GPU Operator, which cuts cards (MIG)."""
