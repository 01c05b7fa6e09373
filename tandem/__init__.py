"""Two LLMs on one GPU on EKS: the components for your own program. The command `tandem` is in this package, too.

Everything is imported when it is first asked for, so that the command does not wait for Pulumi's SDKs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components import (
        DevicePluginSharing,
        DevicePluginSharingArgs,
        GpuCluster,
        GpuClusterArgs,
        KarpenterGpuPool,
        KarpenterGpuPoolArgs,
        ModelClients,
        OllamaModel,
        OllamaPair,
        OllamaPairArgs,
        PoolSharing,
        ShareProof,
        ShareProofArgs,
        SpotGpuNodeGroup,
        SpotGpuNodeGroupArgs,
    )
    from sharing.modes import Exclusive, Mig, Mps, TimeSlicing

__all__ = [
    "DevicePluginSharing",
    "DevicePluginSharingArgs",
    "Exclusive",
    "GpuCluster",
    "GpuClusterArgs",
    "KarpenterGpuPool",
    "KarpenterGpuPoolArgs",
    "Mig",
    "ModelClients",
    "Mps",
    "OllamaModel",
    "OllamaPair",
    "OllamaPairArgs",
    "PoolSharing",
    "ShareProof",
    "ShareProofArgs",
    "SpotGpuNodeGroup",
    "SpotGpuNodeGroupArgs",
    "TimeSlicing",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modes = import_module("sharing.modes")
    return getattr(modes, name, None) or getattr(import_module("components"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
