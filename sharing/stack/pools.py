"""The section `gpu-nodes` of a stack file: pools of GPU nodes."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from sharing.modes.modes import Sharing
from sharing.section import Fix, Section

Capacity = Literal["spot", "on-demand"]
Provisioner = Literal["node-group", "karpenter"]
Replacement = Literal["create-first", "delete-first"]
ONE_POOL = "gpu-nodes"
"""Path of the only pool in a stack file that has no list of them."""
POOL = "gpu"
"""Name of the only pool of GPU nodes, if the file has no list of them."""
MOST_POOLS = 10
NODE_IMAGES_GIB = 45
"""Disk that a GPU node takes before any model file: the NVIDIA AMI (about 25 GiB) and the unpacked images."""
POD_CPU_MILLIS = 250
"""CPU that a model's pod requests; its RAM is `sharing.fit.host.host_need`."""
NODE_CPU_MILLIS = 500
"""CPU that kubelet and the DaemonSets of a GPU node request."""


class GpuNodes(Section):
    """A pool of GPU nodes: one kind of GPU and one sharing mode."""

    provisioner: Provisioner = Field(
        default="node-group",
        examples=["node-group", "karpenter"],
        description="What launches the nodes: an EKS managed node group, or `karpenter` when pods wait.",
    )
    instance_types: Annotated[list[str], Field(min_length=1, max_length=20)] = Field(
        default=["g4dn.xlarge"],
        description="EC2 types with the same GPU. Several types make spot capacity more likely.",
    )
    capacity: Capacity = Field(
        default="spot", description="`spot` is cheaper, but AWS can reclaim it at two minutes' notice."
    )
    min: int = Field(default=0, ge=0, le=100, description="Minimum number of nodes.")
    desired: int = Field(
        default=1,
        ge=0,
        le=100,
        description="Number of nodes; 0 parks the pool: nothing runs on a GPU. With `park`, the schedule sets it.",
    )
    max: Annotated[int, Fix("Write `max: 1`; `desired: 0` parks the pool.")] = Field(
        default=1,
        ge=1,
        le=100,
        description="Maximum number of nodes. With `park`, also their number while the stack runs.",
    )
    volume_gib: int = Field(
        default=100,
        ge=50,
        le=16384,
        description="Root volume in GiB, for the NVIDIA AMI, unpacked images and model files.",
    )
    on_demand_fallback: bool = Field(
        default=False,
        examples=[True, False],
        description="Karpenter with `capacity: spot`: launch on-demand nodes, at two to three times the price, when "
        "there is no spot capacity.",
    )
    replacement: Replacement = Field(
        default="create-first",
        examples=["create-first", "delete-first"],
        description="How nodes are replaced: `create-first` needs quota for both groups, `delete-first` stops the "
        "models first.",
    )
    check_offers: bool = Field(
        default=True,
        examples=[True, False],
        description="Refuse types that the region is known not to offer. `false` leaves this to AWS.",
    )


class GpuPool(GpuNodes):
    """One of several pools of GPU nodes."""

    name: Annotated[str, Fix("Use up to 20 lower-case letters, digits and dashes, for example `name: fast`.")] = Field(
        pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", description="In a list of pools: the name that models refer to."
    )
    sharing: Annotated[Sharing | None, Fix("Write `sharing: {mode: timeslice}`, for example, or remove it.")] = Field(
        default=None, description="In a list of pools: the sharing mode of this one. Default: `sharing`."
    )


def _form(nodes: object) -> str:
    return LIST if isinstance(nodes, list) else MAPPING


LIST, MAPPING = ("list", "mapping")
"""How `gpu-nodes` may be written: several pools, or one."""
Pools = Annotated[
    Annotated[GpuNodes, Tag(MAPPING)] | Annotated[list[GpuPool], Field(min_length=1, max_length=MOST_POOLS), Tag(LIST)],
    Discriminator(_form),
]
