"""SpotGpuNodeGroup: GPU nodes of one kind, on spot or on-demand capacity, ready to be shared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components.arguments import check_arguments, check_least
from components.node_group import NodeShape, managed_node_group
from sharing import versions
from sharing.gpus import alike
from sharing.modes import Sharing
from sharing.names import GPU_PRESENT_LABEL, GPU_TAINT, GPU_TAINT_VALUE, MODE_TAINT, POOL_LABEL, TAG_ZONES, TOKEN
from sharing.setup import NODE_IMAGES_GIB, Capacity, Replacement

# An update never runs more nodes than are configured: it takes one away before it adds one. The default strategy adds
# up to two for each zone, which a GPU quota seldom allows.
# https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html#managed-node-update-upgrade
ONE_BY_ONE = aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL")


@dataclass(frozen=True, kw_only=True)
class SpotGpuNodeGroupArgs:
    """Inputs of SpotGpuNodeGroup.

    Raises `ValueError` for a value that no field takes, instance types that are unknown or have different GPUs, and a
    sharing mode that the GPU does not support.
    """

    cluster_name: pulumi.Input[str]
    """EKS cluster that the nodes join. An Output of the cluster, so that the nodes go before it does."""
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    """Subnets that the nodes may run in. EKS refuses the group if the zone of one does not sell one of its types."""
    zones: pulumi.Input[Sequence[str]] = ()
    """Zones of these subnets: a tag of the group, by which `GpuCluster.zones_of_pool` leaves it there."""
    sharing: Sharing
    """How the cards are shared, e.g. `TimeSlicing(replicas=2)`: a label on the nodes."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`, the mode's name when absent. Whoever tolerates another is evicted."""
    instance_types: Sequence[str] = ("g4dn.xlarge",)
    """EC2 types, all with the same GPU; several make spot capacity likelier."""
    capacity: Capacity = "spot"
    """`spot` or `on-demand`."""
    kubernetes: str = versions.KUBERNETES
    """Kubernetes version of the kubelets; not newer than the control plane's."""
    pool: str = "gpu"
    """Value of the node label `tandem/pool`, by which models find these nodes."""
    min: int = 0
    """Fewest nodes."""
    desired: int = 1
    """Nodes wanted now."""
    max: int = 1
    """Most nodes."""
    volume_gib: int = 100
    """Root volume in GiB: AMI, unpacked images, model files."""
    replacement: Replacement = "create-first"
    """`create-first`: the old group serves until the new one does. `delete-first`: it never needs quota for both."""
    autoscaled: bool = False
    """True when an autoscaler owns the group: then `desired` counts at creation only."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on group, instances, volumes and network interfaces."""

    def __post_init__(self) -> None:
        check_arguments(self)
        check_least(self, min=0, max=1, volume_gib=NODE_IMAGES_GIB)
        if not self.min <= self.desired <= self.max:
            rule = f"must lie between min and max (got {self.min}, {self.desired}, {self.max})"
            raise ValueError(f"SpotGpuNodeGroupArgs.desired {rule}. Pass the three in ascending order.")
        if problems := self.sharing.check(alike(self.instance_types)[0].gpu):
            raise ValueError(f"SpotGpuNodeGroupArgs.{problems[0]}")


class SpotGpuNodeGroup(pulumi.ComponentResource):
    """A managed node group of GPU nodes, on spot or on-demand capacity.

    Its taints keep away all pods but those made for GPUs and this sharing mode.

    ```python
    from tandem import SpotGpuNodeGroup, SpotGpuNodeGroupArgs, TimeSlicing

    args = SpotGpuNodeGroupArgs(
        cluster_name="demo", subnet_ids=["subnet-1"], sharing=TimeSlicing(replicas=2), instance_types=["g4dn.xlarge"]
    )
    nodes = SpotGpuNodeGroup("gpu", args)
    ```
    """

    node_group_name: pulumi.Output[str]
    """Name of the group, once its nodes have joined."""
    node_group: aws.eks.NodeGroup
    """The group itself."""

    def __init__(self, name: str, args: SpotGpuNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
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
                    # With the label in one call of EKS (UpdateNodegroupConfig): neither is ever there alone.
                    aws.eks.NodeGroupTaintArgs(
                        key=MODE_TAINT, value=args.mode_taint or args.sharing.config_name, effect="NO_EXECUTE"
                    ),
                ],
            ),
            tags=dict(args.tags),
            group_tags={TAG_ZONES: pulumi.Output.from_input(args.zones).apply(" ".join)} if args.zones else None,
            # A card is cut before the first pod comes, and not under running ones.
            replaced_with=args.sharing.cut(kind.gpu),
            update_config=ONE_BY_ONE,
            delete_first=args.replacement == "delete-first",
            autoscaled=args.autoscaled,
            child=pulumi.ResourceOptions(parent=self),
        )
        self.node_group_name = self.node_group.node_group_name
        self.register_outputs({"nodeGroupName": self.node_group_name})
