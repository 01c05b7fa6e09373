"""Building blocks: the ComponentResources. They know AWS and Kubernetes, and never read Pulumi configuration.

Each name is imported when it is first asked for, so that a stack does not wait for parts that it lacks.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.cost_alert import CostAlert, CostAlertArgs
    from components.device_plugin_sharing import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing
    from components.gpu_cluster import GpuCluster, GpuClusterArgs
    from components.karpenter_gpu_pool import KarpenterGpuPool, KarpenterGpuPoolArgs, KarpenterPool
    from components.monitoring import Monitoring, MonitoringArgs
    from components.monitoring.dashboard import MonitoredPool
    from components.network_policies import ModelClients
    from components.ollama_pair import OllamaModel, OllamaPair, OllamaPairArgs, SpillPool
    from components.open_webui import OpenWebUI, OpenWebUIArgs
    from components.scale_to_zero import ScaleToZero, ScaleToZeroArgs
    from components.scaling import Scaling
    from components.scheduled_parking import ParkedNodeGroup, ScheduledParking, ScheduledParkingArgs
    from components.share_proof import ShareProof, ShareProofArgs
    from components.spot_gpu_node_group import SpotGpuNodeGroup, SpotGpuNodeGroupArgs
    from components.spot_job import BucketCheckpoints, SpotJob, SpotJobArgs, VolumeCheckpoints

__all__ = [
    "BucketCheckpoints",
    "CostAlert",
    "CostAlertArgs",
    "DevicePluginSharing",
    "DevicePluginSharingArgs",
    "GpuCluster",
    "GpuClusterArgs",
    "KarpenterGpuPool",
    "KarpenterGpuPoolArgs",
    "KarpenterPool",
    "ModelClients",
    "MonitoredPool",
    "Monitoring",
    "MonitoringArgs",
    "OllamaModel",
    "OllamaPair",
    "OllamaPairArgs",
    "OpenWebUI",
    "OpenWebUIArgs",
    "ParkedNodeGroup",
    "PoolSharing",
    "ScaleToZero",
    "ScaleToZeroArgs",
    "Scaling",
    "ScheduledParking",
    "ScheduledParkingArgs",
    "ShareProof",
    "ShareProofArgs",
    "SpillPool",
    "SpotGpuNodeGroup",
    "SpotGpuNodeGroupArgs",
    "SpotJob",
    "SpotJobArgs",
    "VolumeCheckpoints",
]

_NAMES = {
    "cost_alert": ("CostAlert", "CostAlertArgs"),
    "device_plugin_sharing": ("DevicePluginSharing", "DevicePluginSharingArgs", "PoolSharing"),
    "gpu_cluster": ("GpuCluster", "GpuClusterArgs"),
    "karpenter_gpu_pool": ("KarpenterGpuPool", "KarpenterGpuPoolArgs", "KarpenterPool"),
    "monitoring": ("Monitoring", "MonitoringArgs"),
    "monitoring.dashboard": ("MonitoredPool",),
    "network_policies": ("ModelClients",),
    "ollama_pair": ("OllamaModel", "OllamaPair", "OllamaPairArgs", "SpillPool"),
    "open_webui": ("OpenWebUI", "OpenWebUIArgs"),
    "scale_to_zero": ("ScaleToZero", "ScaleToZeroArgs"),
    "scaling": ("Scaling",),
    "scheduled_parking": ("ParkedNodeGroup", "ScheduledParking", "ScheduledParkingArgs"),
    "share_proof": ("ShareProof", "ShareProofArgs"),
    "spot_gpu_node_group": ("SpotGpuNodeGroup", "SpotGpuNodeGroupArgs"),
    "spot_job": ("BucketCheckpoints", "SpotJob", "SpotJobArgs", "VolumeCheckpoints"),
}
"""The imports above by module, for Python, which skips them."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
