"""DevicePluginSharing: installs the device plugin, so that each pool's nodes advertise shares of their GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, check_arguments, check_filled, check_least, read_arguments
from components.charts import Chart, check_charts, merge_values, release_chart
from components.containers import create_namespace
from components.device_plugin_sharing import discovery_chart, operator_chart, plugin_chart
from components.planned_pools import GpuNodes, PlannedPool, plan_pool
from sharing.hardware.gpus import Gpu, alike, find_gpu, smallest_types
from sharing.modes.modes import Sharing
from sharing.names import TOKEN, plugin_release

CHARTS = [chart.CHART.name for chart in (plugin_chart, operator_chart, discovery_chart)]


@check_arguments
@dataclass(frozen=True, kw_only=True)
class PoolSharing:
    """How the GPUs of one pool of nodes are shared.

    Raises `ValueError` for a value of the wrong type, an unknown GPU, and a sharing mode that the GPU does not support.
    """

    sharing: Sharing
    """The sharing mode, e.g. `TimeSlicing(replicas=2)`."""
    gpu: Gpu | str
    """The nodes' GPU: a catalogue name, e.g. `"t4"`, or a `Gpu`."""
    pool: str = "gpu"
    """The pool's name: the value of the label `tandem/pool` on its nodes."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the taint `tandem/mode` on the nodes. Whenever it changes, the plugin's pods are recreated. That repeats
    an update whose reply was lost, even if you switch back to the previous mode.
    """
    instance_types: Sequence[str] = ()
    """EC2 instance types of the nodes, by which `OllamaPairArgs.runs_on` judges their RAM. Defaults to the smallest
    type with that GPU, or to those of `nodes`.
    """
    max_nodes: int = 1
    """Maximum number of nodes, by which `OllamaPairArgs.runs_on` counts shares, unless `nodes` says it."""
    nodes: pulumi.Resource | None = None
    """The node group or NodePool, if the same program creates it. When you switch modes, its new taint first evicts the
    models. Without this order, the new plugin would take the GPU from running models.
    """

    def __post_init__(self) -> None:
        check_least(self, max_nodes=1)
        gpu = find_gpu(self.gpu)
        if problems := self.sharing.check(gpu):
            raise ValueError(f"PoolSharing.{problems[0]}")
        for kind in alike(self.instance_types, "PoolSharing.") if self.instance_types else ():
            if kind.gpu != gpu:
                raise ValueError(
                    f"PoolSharing.instance_types has {kind.name} with {kind.gpu.title}, but `gpu` is {gpu.name}. "
                    f'Pass gpu="{kind.gpu.name}", or other types.'
                )

    @property
    def planned_pools(self) -> Sequence[PlannedPool]:
        """The pool as the rules in `sharing` read it."""
        theirs: Sequence[PlannedPool] = self.nodes.planned_pools if isinstance(self.nodes, GpuNodes) else ()
        for planned in theirs:
            if planned.pool.name == self.pool:
                pool = planned.pool.changed(own_sharing=self.sharing)
                return [replace(planned, pool=pool, mode_taint=self.mode_taint or planned.mode_taint)]
        types = self.instance_types or smallest_types(find_gpu(self.gpu))
        pool = plan_pool(self.pool, self.sharing, types, desired=self.max_nodes, max=self.max_nodes, volume_gib=0)
        return [PlannedPool(pool=pool, mode_taint=self.mode_taint)]


@check_arguments
@dataclass(frozen=True, kw_only=True)
class DevicePluginSharingArgs:
    """Inputs of DevicePluginSharing.

    Raises `ValueError` for a value of the wrong type, an empty list of pools, two pools with the same name, and values
    for an unknown chart. `DevicePluginSharing` raises it for MIG pools with different device plugin configurations.
    """

    pools: Sequence[PoolSharing]
    """The GPU pools of the cluster, e.g. `[PoolSharing(sharing=TimeSlicing(replicas=2), gpu="t4")]`."""
    discovery: bool = True
    """Whether to install node feature discovery. Pass False if the cluster has it already: two of them overwrite each
    other's node labels.
    """
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Extra Helm values by chart, merged last: `nvidia-device-plugin`, `gpu-operator` or `node-feature-discovery`."""

    def __post_init__(self) -> None:
        check_filled(self, "pools")
        names = [pool.pool for pool in self.pools]
        if len(set(names)) != len(names):
            raise ValueError(f"DevicePluginSharingArgs.pools has duplicate names: {names}. Pass each its own `pool`.")
        check_charts(self, CHARTS)


class DevicePluginSharing(pulumi.ComponentResource):
    """Installs the NVIDIA device plugin, so that the nodes of each pool advertise `resource_names`. Use one per
    cluster.

    Each pool without MIG gets its own release of the plugin, with one configuration. All pools with MIG share the GPU
    Operator, whose MIG manager partitions the GPUs first. The two never manage the same node: nodes without MIG carry
    the label `nvidia.com/gpu.deploy.operands: "false"`.

    The GPU Operator is uninstalled by a Job that needs an untainted node, so the system nodes must outlive it.

    ```python
    from tandem import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing, TimeSlicing

    pools = [PoolSharing(sharing=TimeSlicing(replicas=2), gpu="t4")]
    sharing = DevicePluginSharing("sharing", DevicePluginSharingArgs(pools=pools))
    ```
    """

    resource_names: pulumi.Output[Sequence[str]]
    """Extended resources that pods can request, e.g. `["nvidia.com/gpu"]`. MIG with mixed profiles has several."""

    def __init__(
        self, name: str, args: Given[DevicePluginSharingArgs] = None, opts: Options = None, **more: Any
    ) -> None:
        args = read_arguments(DevicePluginSharingArgs, args, more)
        super().__init__(TOKEN.format("DevicePluginSharing"), name, None, opts)
        self._name, self._values = name, args.values
        self.planned_pools = [planned for pool in args.pools for planned in pool.planned_pools]
        whole = [pool for pool in args.pools if not pool.sharing.needs_mig_manager]
        partitioned = [pool for pool in args.pools if pool.sharing.needs_mig_manager]

        discovery = [self._discovery()] if args.discovery else []
        if whole:
            namespace = self._namespace("namespace", plugin_chart.CHART.name)
            for pool in whole:
                values = plugin_chart.values(pool.pool, pool.sharing, pool.mode_taint)
                named = plugin_release(pool.pool)
                needs = [*discovery, *_nodes([pool])]
                self._release(f"{pool.pool}-plugin", plugin_chart.CHART, values, namespace, needs, named)
        if partitioned:
            values = operator_chart.values([(pool.sharing, find_gpu(pool.gpu)) for pool in partitioned])
            namespace = self._namespace("operator-namespace", operator_chart.CHART.name)
            self._release("operator", operator_chart.CHART, values, namespace, [*discovery, *_nodes(partitioned)])

        self.resource_names = pulumi.Output.from_input(_resources(args.pools))
        self.register_outputs({"resourceNames": self.resource_names})

    def _discovery(self) -> k8s.helm.v3.Release:
        chart = discovery_chart.CHART
        return self._release(
            "discovery", chart, discovery_chart.values(), self._namespace("discovery-namespace", chart.name)
        )

    def _namespace(self, part: str, name: str) -> pulumi.Output[str]:
        # These pods are privileged or mount host paths. A cluster with stricter defaults would reject them.
        return create_namespace(f"{self._name}-{part}", name, "privileged", pulumi.ResourceOptions(parent=self))

    def _release(
        self,
        part: str,
        chart: Chart,
        values: dict[str, Any],
        namespace: pulumi.Input[str],
        needs: Sequence[pulumi.Resource] = (),
        named: str | None = None,
    ) -> k8s.helm.v3.Release:
        """Registers a release, named after its chart unless `named` is given.

        The plugin and the operator need feature discovery, because they label nodes through its custom resources.
        """
        merged = merge_values(values, self._values.get(chart.name, {}))
        return release_chart(
            f"{self._name}-{part}",
            chart,
            merged,
            named=named or chart.name,
            namespace=namespace,
            parent=self,
            needs=needs,
        )


def _nodes(pools: Sequence[PoolSharing]) -> list[pulumi.Resource]:
    return [pool.nodes for pool in pools if pool.nodes is not None]


def _resources(pools: Sequence[PoolSharing]) -> list[str]:
    offers = chain.from_iterable(pool.sharing.offers(find_gpu(pool.gpu)) for pool in pools)
    return list(dict.fromkeys(shares.resource for shares in offers))
