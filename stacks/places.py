"""Where what a stack deploys is found in its cluster: for those who look at it, without importing Pulumi."""

from components.names import OLLAMA_PORT, POOL_LABEL, tolerations

__all__ = [
    "DEVICE_PLUGIN_NAMESPACE",
    "OLLAMA_NAMESPACE",
    "OLLAMA_PORT",
    "OPERATOR_NAMESPACE",
    "POOL_LABEL",
    "tolerations",
]

OLLAMA_NAMESPACE = "ollama"
"""Default of `OllamaPairArgs.namespace`, which no stack overrides."""
DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"
"""Named after its chart, as is the release there."""
OPERATOR_NAMESPACE = "gpu-operator"
"""The same of the GPU Operator, which cuts cards (MIG)."""
