"""Building blocks: the ComponentResources. They know AWS and Kubernetes, and never read Pulumi configuration.

Each name is imported when it is first asked for, so that a stack does not wait for parts that it lacks.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.cost_alert import CostAlert as CostAlert
    from components.cost_alert import CostAlertArgs as CostAlertArgs
    from components.device_plugin_sharing import DevicePluginSharing as DevicePluginSharing
    from components.device_plugin_sharing import DevicePluginSharingArgs as DevicePluginSharingArgs
    from components.device_plugin_sharing import PoolSharing as PoolSharing
    from components.existing_cluster import ExistingCluster as ExistingCluster
    from components.existing_cluster import ExistingClusterArgs as ExistingClusterArgs
    from components.gpu_cluster import ExistingVpc as ExistingVpc
    from components.gpu_cluster import GpuCluster as GpuCluster
    from components.gpu_cluster import GpuClusterArgs as GpuClusterArgs
    from components.karpenter_gpu_pool import KarpenterGpuPool as KarpenterGpuPool
    from components.karpenter_gpu_pool import KarpenterGpuPoolArgs as KarpenterGpuPoolArgs
    from components.karpenter_gpu_pool import KarpenterPool as KarpenterPool
    from components.monitoring import Monitoring as Monitoring
    from components.monitoring import MonitoringArgs as MonitoringArgs
    from components.monitoring.dashboard import MonitoredPool as MonitoredPool
    from components.network_policies import ModelClients as ModelClients
    from components.ollama_pair import OllamaModel as OllamaModel
    from components.ollama_pair import OllamaPair as OllamaPair
    from components.ollama_pair import OllamaPairArgs as OllamaPairArgs
    from components.open_webui import OpenWebUI as OpenWebUI
    from components.open_webui import OpenWebUIArgs as OpenWebUIArgs
    from components.registries import pull_from as pull_from
    from components.scale_to_zero import ScaleToZero as ScaleToZero
    from components.scale_to_zero import ScaleToZeroArgs as ScaleToZeroArgs
    from components.scaling import Scaling as Scaling
    from components.scheduled_parking import ParkedNodeGroup as ParkedNodeGroup
    from components.scheduled_parking import ScheduledParking as ScheduledParking
    from components.scheduled_parking import ScheduledParkingArgs as ScheduledParkingArgs
    from components.share_proof import ShareProof as ShareProof
    from components.share_proof import ShareProofArgs as ShareProofArgs
    from components.spot_gpu_node_group import SpotGpuNodeGroup as SpotGpuNodeGroup
    from components.spot_gpu_node_group import SpotGpuNodeGroupArgs as SpotGpuNodeGroupArgs
    from components.spot_job import BucketCheckpoints as BucketCheckpoints
    from components.spot_job import SpotJob as SpotJob
    from components.spot_job import SpotJobArgs as SpotJobArgs
    from components.spot_job import VolumeCheckpoints as VolumeCheckpoints

PUBLIC = {
    "cost_alert": ("CostAlert", "CostAlertArgs"),
    "device_plugin_sharing": ("DevicePluginSharing", "DevicePluginSharingArgs", "PoolSharing"),
    "existing_cluster": ("ExistingCluster", "ExistingClusterArgs"),
    "gpu_cluster": ("ExistingVpc", "GpuCluster", "GpuClusterArgs"),
    "karpenter_gpu_pool": ("KarpenterGpuPool", "KarpenterGpuPoolArgs", "KarpenterPool"),
    "monitoring": ("Monitoring", "MonitoringArgs"),
    "monitoring.dashboard": ("MonitoredPool",),
    "network_policies": ("ModelClients",),
    "ollama_pair": ("OllamaModel", "OllamaPair", "OllamaPairArgs"),
    "open_webui": ("OpenWebUI", "OpenWebUIArgs"),
    "registries": ("pull_from",),
    "scale_to_zero": ("ScaleToZero", "ScaleToZeroArgs"),
    "scaling": ("Scaling",),
    "scheduled_parking": ("ParkedNodeGroup", "ScheduledParking", "ScheduledParkingArgs"),
    "share_proof": ("ShareProof", "ShareProofArgs"),
    "spot_gpu_node_group": ("SpotGpuNodeGroup", "SpotGpuNodeGroupArgs"),
    "spot_job": ("BucketCheckpoints", "SpotJob", "SpotJobArgs", "VolumeCheckpoints"),
}
"""The public names by module, from which `__all__` and `tandem` take them. The imports above are for types alone."""


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    home = next((module for module, names in PUBLIC.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(public for names in PUBLIC.values() for public in names)
