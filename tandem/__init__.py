"""Two LLMs on one GPU on EKS: the components for your own program. The command `tandem` is in this package, too.

Everything is imported when it is first asked for, so that the command does not wait for Pulumi's SDKs.
"""

# No import before the first name is asked for: Ctrl-C is not heard yet while the command imports this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from components import (
        BucketCheckpoints,
        CostAlert,
        CostAlertArgs,
        DevicePluginSharing,
        DevicePluginSharingArgs,
        GpuCluster,
        GpuClusterArgs,
        KarpenterGpuPool,
        KarpenterGpuPoolArgs,
        KarpenterPool,
        ModelClients,
        MonitoredPool,
        Monitoring,
        MonitoringArgs,
        OllamaModel,
        OllamaPair,
        OllamaPairArgs,
        OpenWebUI,
        OpenWebUIArgs,
        ParkedNodeGroup,
        PoolSharing,
        ScaleToZero,
        ScaleToZeroArgs,
        Scaling,
        ScheduledParking,
        ScheduledParkingArgs,
        ShareProof,
        ShareProofArgs,
        SpillPool,
        SpotGpuNodeGroup,
        SpotGpuNodeGroupArgs,
        SpotJob,
        SpotJobArgs,
        VolumeCheckpoints,
    )
    from sharing.models.catalogue import KvType, Model
    from sharing.modes.layouts import Slices
    from sharing.modes.modes import Exclusive, Mig, Mps, TimeSlicing

__all__ = [
    "BucketCheckpoints",
    "CostAlert",
    "CostAlertArgs",
    "DevicePluginSharing",
    "DevicePluginSharingArgs",
    "Exclusive",
    "GpuCluster",
    "GpuClusterArgs",
    "KarpenterGpuPool",
    "KarpenterGpuPoolArgs",
    "KarpenterPool",
    "KvType",
    "Mig",
    "Model",
    "ModelClients",
    "MonitoredPool",
    "Monitoring",
    "MonitoringArgs",
    "Mps",
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
    "Slices",
    "SpillPool",
    "SpotGpuNodeGroup",
    "SpotGpuNodeGroupArgs",
    "SpotJob",
    "SpotJobArgs",
    "TimeSlicing",
    "VolumeCheckpoints",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sharing.models import catalogue as models
    from sharing.modes import layouts, modes

    home = next((module for module in (modes, models, layouts) if hasattr(module, name)), None)
    return getattr(home or import_module("components"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
