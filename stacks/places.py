"""Where what a stack deploys is found in its cluster: for those who look at it, without importing Pulumi."""

from components.names import OLLAMA_PORT, POOL_LABEL

__all__ = ["DEVICE_PLUGIN_NAMESPACE", "OLLAMA_NAMESPACE", "OLLAMA_PORT", "OPERATOR_NAMESPACE", "POOL_LABEL"]

OLLAMA_NAMESPACE = "ollama"
"""Default of `OllamaPairArgs.namespace`, which no stack overrides."""
DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"
"""Default of `DevicePluginSharingArgs.namespace`; the release there has the same name."""
OPERATOR_NAMESPACE = "gpu-operator"
"""Where the GPU Operator runs, which partitions cards (MIG)."""
