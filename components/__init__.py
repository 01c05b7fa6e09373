"""Building blocks: the ComponentResources. They know AWS and Kubernetes, and never read Pulumi configuration."""

from components.cost_alert import CostAlert, CostAlertArgs
from components.device_plugin_sharing import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing
from components.gpu_cluster import GpuCluster, GpuClusterArgs
from components.karpenter_gpu_pool import KarpenterGpuPool, KarpenterGpuPoolArgs, KarpenterPool
from components.monitoring import Monitoring, MonitoringArgs
from components.monitoring.dashboard import MonitoredPool
from components.network_policies import ModelClients
from components.ollama_pair import OllamaModel, OllamaPair, OllamaPairArgs, SpillPool
from components.open_webui import OpenWebUI, OpenWebUIArgs
from components.scale_to_zero import ScaleToZero, ScaleToZeroArgs, Scaling
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
