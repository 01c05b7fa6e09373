"""Blocks: one ComponentResource per file. They know AWS and Kubernetes and never read Pulumi config.

The classes are imported when first asked for, so that `components.versions` costs no Pulumi.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.device_plugin_sharing import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing
    from components.gpu_cluster import GpuCluster, GpuClusterArgs
    from components.karpenter_gpu_pool import KarpenterGpuPool, KarpenterGpuPoolArgs
    from components.network_policies import ModelClients
    from components.ollama_pair import OllamaPair, OllamaPairArgs
    from components.share_proof import ShareProof, ShareProofArgs
    from components.spot_gpu_node_group import SpotGpuNodeGroup, SpotGpuNodeGroupArgs

_HOMES = {
    "DevicePluginSharing": "device_plugin_sharing",
    "DevicePluginSharingArgs": "device_plugin_sharing",
    "GpuCluster": "gpu_cluster",
    "GpuClusterArgs": "gpu_cluster",
    "KarpenterGpuPool": "karpenter_gpu_pool",
    "KarpenterGpuPoolArgs": "karpenter_gpu_pool",
    "ModelClients": "network_policies",
    "OllamaPair": "ollama_pair",
    "OllamaPairArgs": "ollama_pair",
    "PoolSharing": "device_plugin_sharing",
    "ShareProof": "share_proof",
    "ShareProofArgs": "share_proof",
    "SpotGpuNodeGroup": "spot_gpu_node_group",
    "SpotGpuNodeGroupArgs": "spot_gpu_node_group",
}

__all__ = [
    "DevicePluginSharing",
    "DevicePluginSharingArgs",
    "GpuCluster",
    "GpuClusterArgs",
    "KarpenterGpuPool",
    "KarpenterGpuPoolArgs",
    "ModelClients",
    "OllamaPair",
    "OllamaPairArgs",
    "PoolSharing",
    "ShareProof",
    "ShareProofArgs",
    "SpotGpuNodeGroup",
    "SpotGpuNodeGroupArgs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
