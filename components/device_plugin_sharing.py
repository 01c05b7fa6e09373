"""DevicePluginSharing: the NVIDIA device plugin, told every way of sharing that the cards allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import pulumi
import pulumi_kubernetes as k8s

from components import device_plugin, gpu_operator
from components.names import TOKEN
from sharing.gpus import Gpu
from sharing.modes import Sharing

TIMEOUT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class PoolSharing:
    """How the cards of one pool of nodes are shared."""

    sharing: Sharing
    """The mode, e.g. `TimeSlicing(replicas=2)`."""
    gpu: Gpu
    """The card of the nodes, e.g. `gpus()["t4"]`: it decides which modes are installed."""


@dataclass(frozen=True, kw_only=True)
class DevicePluginSharingArgs(PoolSharing):
    """Inputs of DevicePluginSharing."""

    also: Sequence[PoolSharing] = ()
    """Other pools of the same cluster: each node takes what its own label says."""
    namespace: str | None = None
    """Namespace of the release; named after the chart when absent."""
    gone_with: pulumi.Resource | None = None
    """The cluster, when it is of the same program: the release is not uninstalled when the cluster goes anyway."""

    @property
    def pools(self) -> tuple[tuple[Sharing, Gpu], ...]:
        """All pools of the cluster."""
        return tuple((pool.sharing, pool.gpu) for pool in (self, *self.also))


class DevicePluginSharing(pulumi.ComponentResource):
    """Installs the NVIDIA device plugin so that nodes offer `resource_names`, in the mode that their label says.

    Alone where every card stays whole, else within the GPU Operator, whose MIG manager cuts the cards first. A release
    of the operator is uninstalled by a Job that needs a node without a taint: its system nodes must outlive it.
    """

    resource_names: pulumi.Output[Sequence[str]]
    """Extended resources that pods may request, e.g. `nvidia.com/gpu`; several for MIG slices of different profiles."""

    def __init__(self, name: str, args: DevicePluginSharingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("DevicePluginSharing"), name, None, opts)
        cuts = any(sharing.needs_mig_manager for sharing, _ in args.pools)
        chart = gpu_operator.CHART if cuts else device_plugin.CHART
        values = gpu_operator.values(args.pools) if cuts else device_plugin.values(args.pools)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            # The plugin's pods are privileged: stricter defaults of a cluster would refuse them.
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=args.namespace or chart.name, labels={"pod-security.kubernetes.io/enforce": "privileged"}
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        k8s.helm.v3.Release(
            f"{name}-release",
            name=chart.name,
            namespace=namespace.metadata.name,
            chart=chart.name,
            version=chart.version,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=chart.repository),
            values=values,
            atomic=True,
            timeout=TIMEOUT_SECONDS,
            opts=pulumi.ResourceOptions(
                parent=self,
                deleted_with=args.gone_with,
                # One resource for either chart: whoever changes over gets the old plugin away before the new one
                # comes. Two at a time would both register with the kubelet.
                delete_before_replace=True,
            ),
        )
        self.resource_names = pulumi.Output.from_input(_resources(args.pools))
        self.register_outputs({"resourceNames": self.resource_names})


def _resources(pools: Sequence[tuple[Sharing, Gpu]]) -> list[str]:
    offers = chain.from_iterable(sharing.offers(gpu) for sharing, gpu in pools)
    return list(dict.fromkeys(shares.resource for shares in offers))
