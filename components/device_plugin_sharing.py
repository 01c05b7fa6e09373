"""DevicePluginSharing: the NVIDIA device plugin, told every way of sharing that the card allows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components import versions
from components.names import GPU_TAINT, TOKEN
from sharing.gpus import Gpu
from sharing.modes import Exclusive, Sharing, plugin_configs

RELEASE = "nvidia-device-plugin"
TIMEOUT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class PoolSharing:
    """How one pool of nodes is shared."""

    sharing: Sharing
    """The mode, e.g. `TimeSlicing(replicas=2)`."""
    gpu: Gpu
    """The card of the nodes, e.g. `gpus()["t4"]`."""


@dataclass(frozen=True, kw_only=True)
class DevicePluginSharingArgs:
    """Inputs of DevicePluginSharing."""

    sharing: Sharing
    """The mode, e.g. `TimeSlicing(replicas=2)`."""
    gpu: Gpu
    """The card of the nodes, e.g. `gpus()["t4"]`: it decides which modes are installed."""
    also: Sequence[PoolSharing] = ()
    """Other pools of the same cluster: each node takes what its own label says."""
    namespace: str = "nvidia-device-plugin"
    """Namespace of the plugin's release."""
    gone_with: pulumi.Resource | None = None
    """The cluster, when it is of the same program: the release is not uninstalled when the cluster goes anyway."""


class DevicePluginSharing(pulumi.ComponentResource):
    """Installs the NVIDIA device plugin so that nodes offer `resource_name`, in the mode that their label says."""

    resource_name: pulumi.Output[str]
    """Extended resource that a pod must request, e.g. `nvidia.com/gpu`."""

    def __init__(self, name: str, args: DevicePluginSharingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("DevicePluginSharing"), name, None, opts)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            # The plugin's pods are privileged: stricter defaults of a cluster would refuse them.
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=args.namespace, labels={"pod-security.kubernetes.io/enforce": "privileged"}
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        k8s.helm.v3.Release(
            f"{name}-release",
            name=RELEASE,
            namespace=namespace.metadata.name,
            chart="nvidia-device-plugin",
            version=versions.DEVICE_PLUGIN_CHART,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=versions.DEVICE_PLUGIN_REPOSITORY),
            values=values((PoolSharing(sharing=args.sharing, gpu=args.gpu), *args.also)),
            atomic=True,
            timeout=TIMEOUT_SECONDS,
            opts=pulumi.ResourceOptions(parent=self, deleted_with=args.gone_with),
        )
        self.resource_name = pulumi.Output.from_input(args.sharing.resource_name)
        self.register_outputs({"resourceName": self.resource_name})


def values(pools: Sequence[PoolSharing]) -> dict[str, Any]:
    """Values of the chart. No chart value `migStrategy` and the like: as environment it would beat every config."""
    configs = plugin_configs((pool.sharing, pool.gpu) for pool in pools)
    return {
        "config": {
            # For a node without the label.
            "default": Exclusive().config_name,
            # The chart wants text, and JSON is YAML.
            "map": {name: json.dumps(config) for name, config in configs.items()},
        },
        # Feature discovery sets the label on which the MPS daemon is scheduled.
        "gfd": {"enabled": True},
        "nfd": {
            # Its Job needs a node without a taint when everything is being destroyed, and hangs without one.
            "postDeleteCleanup": False,
            # The chart tolerates only the taint value `present`.
            "worker": {"tolerations": [{"key": GPU_TAINT, "operator": "Exists"}]},
        },
    }
