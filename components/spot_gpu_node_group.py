"""SpotGpuNodeGroup: a managed node group of GPU nodes, on spot or on-demand capacity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws

from components.arguments import (
    Given,
    Options,
    check_arguments,
    check_filled,
    check_least,
    check_tags,
    read_arguments,
)
from components.mps_daemon import user_data
from components.node_group import NodeShape, managed_node_group
from components.planned_pools import PlannedPool, plan_pool
from sharing import versions
from sharing.aws.tags import NODE
from sharing.hardware.gpus import alike
from sharing.hardware.prices import Market
from sharing.modes.modes import Sharing
from sharing.names import GPU_PRESENT_LABEL, GPU_TAINT, GPU_TAINT_VALUE, MODE_TAINT, POOL_LABEL, TAG_ZONES, TOKEN
from sharing.sections.pools import NODE_IMAGES_GIB, Capacity, Replacement

# An update never runs more nodes than configured, because it removes one before it adds one. EKS's default strategy
# first adds up to two per zone, which a GPU quota rarely allows.
# https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html#managed-node-update-upgrade
ONE_BY_ONE = aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL")


@check_arguments
@dataclass(frozen=True, kw_only=True)
class SpotGpuNodeGroupArgs:
    """Inputs of SpotGpuNodeGroup.

    Raises `ValueError` for a value of the wrong type, a number out of range, instance types that are unknown or have
    different GPUs, a sharing mode that the GPU does not support, and tags that AWS refuses.
    """

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster that the nodes join. Pass an output of the cluster, so that the nodes are deleted before
    it.
    """
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    """IDs of the subnets in which nodes can run. EKS rejects the group if a subnet's zone lacks one of its types."""
    zones: pulumi.Input[Sequence[str]] = ()
    """Zones of these subnets. They are stored in a tag, so that `GpuCluster.zones_of_pool` keeps the group there."""
    sharing: Sharing
    """The sharing mode, e.g. `TimeSlicing(replicas=2)`. It becomes a taint of the nodes, and with slices or limits per
    model also a label.
    """
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`. Defaults to the name of the mode's configuration, e.g. `timeslice-2`. A
    new value evicts pods that only tolerate the old one.
    """
    instance_types: Sequence[str] = ("g4dn.xlarge",)
    """EC2 instance types, all with the same GPU. With several, spot capacity is more likely."""
    capacity: Capacity = "spot"
    """`spot` or `on-demand`."""
    kubernetes: str = versions.KUBERNETES
    """Kubernetes version of the nodes, e.g. `"1.36"`. It must not be newer than the control plane's."""
    pool: str = "gpu"
    """The pool's name: the value of the nodes' label `tandem/pool`, which models select."""
    min: int = 0
    """Minimum number of nodes."""
    desired: int = 1
    """Current number of nodes."""
    max: int = 1
    """Maximum number of nodes."""
    volume_gib: int = 100
    """Size of the root volume in GiB. It holds the AMI, unpacked images and model files."""
    replacement: Replacement = "create-first"
    """`create-first`: the old group runs until the new one is ready. `delete-first`: needs no quota for both at once.
    """
    security_group_ids: Sequence[pulumi.Input[str]] = ()
    """IDs of all security groups of the nodes, e.g. `[cluster.security_group_id, "sg-1"]`: EKS adds none to yours. If
    empty, it adds the one that it created for the cluster.
    """
    autoscaled: bool = False
    """True if an autoscaler manages the group. Then `desired` only applies at creation."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on the group, its instances, volumes and network interfaces."""

    def __post_init__(self) -> None:
        check_tags(self, NODE)
        check_filled(self, "subnet_ids")
        check_least(self, min=0, max=1, volume_gib=NODE_IMAGES_GIB)
        if not self.min <= self.desired <= self.max:
            rule = f"is {self.desired}, but min is {self.min} and max is {self.max}"
            raise ValueError(f"SpotGpuNodeGroupArgs.desired {rule}. Pass the three in ascending order.")
        types = alike(self.instance_types, "SpotGpuNodeGroupArgs.")
        market = Market(is_spot=self.capacity == "spot")
        if problems := self.sharing.check(types[0].gpu, market=market, gpus=max(kind.gpus for kind in types)):
            raise ValueError(f"SpotGpuNodeGroupArgs.{problems[0]}")

    @property
    def planned_pools(self) -> Sequence[PlannedPool]:
        """The pool as the rules in `sharing` read it."""
        same = {
            name: getattr(self, name) for name in ("capacity", "min", "desired", "max", "volume_gib", "replacement")
        }
        pool = plan_pool(self.pool, self.sharing, self.instance_types, **same)
        return [PlannedPool(pool=pool, mode_taint=self.mode_taint or self.sharing.config_name)]


class SpotGpuNodeGroup(pulumi.ComponentResource):
    """A managed node group of GPU nodes, on spot or on-demand capacity.

    Taints reserve its nodes for pods that tolerate GPU nodes and this sharing mode.

    ```python
    from tandem import SpotGpuNodeGroup, SpotGpuNodeGroupArgs, TimeSlicing

    args = SpotGpuNodeGroupArgs(
        cluster_name="demo", subnet_ids=["subnet-1"], sharing=TimeSlicing(replicas=2), instance_types=["g4dn.xlarge"]
    )
    nodes = SpotGpuNodeGroup("gpu", args)
    ```
    """

    node_group_name: pulumi.Output[str]
    """Name of the node group. It resolves once the nodes have joined the cluster."""
    node_group: aws.eks.NodeGroup
    """The underlying `aws.eks.NodeGroup`."""

    def __init__(self, name: str, args: Given[SpotGpuNodeGroupArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(SpotGpuNodeGroupArgs, args, more)
        super().__init__(TOKEN.format("SpotGpuNodeGroup"), name, None, opts)
        kind = alike(args.instance_types)[0]
        self.node_group = managed_node_group(
            f"{name}-group",
            cluster_name=args.cluster_name,
            subnet_ids=args.subnet_ids,
            shape=NodeShape(
                ami_type=versions.GPU_AMI_TYPES[kind.arch],
                kubernetes=args.kubernetes,
                instance_types=args.instance_types,
                capacity_type="SPOT" if args.capacity == "spot" else "ON_DEMAND",
                volume_gib=args.volume_gib,
                min=args.min,
                desired=args.desired,
                max=args.max,
                labels={POOL_LABEL: args.pool, GPU_PRESENT_LABEL: "true", **args.sharing.node_labels(kind.gpu)},
                taints=[
                    aws.eks.NodeGroupTaintArgs(key=GPU_TAINT, value=GPU_TAINT_VALUE, effect="NO_SCHEDULE"),
                    # EKS sets taint and label in one call (UpdateNodegroupConfig), so no node has only one of them.
                    aws.eks.NodeGroupTaintArgs(
                        key=MODE_TAINT, value=args.mode_taint or args.sharing.config_name, effect="NO_EXECUTE"
                    ),
                ],
                user_data=user_data() if args.sharing.needs_node_daemon else None,
                security_group_ids=args.security_group_ids,
            ),
            tags=dict(args.tags),
            group_tags={TAG_ZONES: pulumi.Output.from_input(args.zones).apply(" ".join)} if args.zones else None,
            # GPUs are partitioned before the first pod starts, never under running pods, and user data runs once. So a
            # new layout needs new nodes, and so does an MPS daemon.
            replaced_with=args.sharing.cut(kind.gpu),
            update_config=ONE_BY_ONE,
            delete_first=args.replacement == "delete-first",
            autoscaled=args.autoscaled,
            child=pulumi.ResourceOptions(parent=self),
        )
        self.planned_pools = args.planned_pools
        self.node_group_name = self.node_group.node_group_name
        self.register_outputs({"nodeGroupName": self.node_group_name})
