"""The section `gpu-nodes` of a stack file: pools of GPU nodes.

The rules read them as they are. `StackConfig` turns a mapping into a list of one pool, named `gpu`.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag

from sharing.hardware.gpus import InstanceType, instance_types
from sharing.modes.base import Shares
from sharing.modes.modes import Sharing
from sharing.section import Fix, Section
from sharing.sections.provisioners import Provisioner

Capacity = Literal["spot", "on-demand"]
Replacement = Literal["create-first", "delete-first"]
SECTION = "gpu-nodes"
"""Key of the pools in a stack file, and the path of its only pool where it has no list of them."""
POOL = "gpu"
"""Name of the only pool of GPU nodes, if the file has no list of them."""
MOST_POOLS = 10
NODE_IMAGES_GIB = 45
"""Disk that a GPU node takes before any model file: the NVIDIA AMI (about 25 GiB) and the unpacked images."""
POD_CPU_MILLIS = 250
"""CPU that a model's pod requests; its RAM is `sharing.fit.host.host_need`."""
NODE_CPU_MILLIS = 500
"""CPU that kubelet and the DaemonSets of a GPU node request."""


class PoolSettings(Section):
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


class GpuPool(PoolSettings):
    """A pool of GPU nodes with its name and its sharing mode."""

    name: Annotated[str, Fix("Use up to 20 lower-case letters, digits and dashes, for example `name: fast`.")] = Field(
        pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", description="In a list of pools: the name that models refer to."
    )
    own_sharing: Annotated[Sharing | None, Fix("Write `sharing: {mode: timeslice}`, for example, or remove it.")] = (
        Field(
            alias="sharing",
            default=None,
            description="In a list of pools: the sharing mode of this one. Default: `sharing`.",
        )
    )

    _path: str = SECTION
    _stack_sharing: Sharing | None = None

    def placed(self, path: str, sharing: Sharing) -> Self:
        """The pool at that path of its stack file, whose sharing mode applies unless the pool has its own."""
        return self._with(path=path, stack_sharing=sharing)

    @cached_property
    def path(self) -> str:
        """Path in the stack file: `gpu-nodes`, or `gpu-nodes[0]` in a list of pools."""
        return self._path

    @cached_property
    def sharing(self) -> Sharing:
        """Its own sharing mode, or that of the stack."""
        sharing = self.own_sharing or self._stack_sharing
        assert sharing, "`StackConfig` places every pool"
        return sharing

    @property
    def sharing_path(self) -> str:
        """Path of its sharing in the stack file: `sharing`, or `gpu-nodes[0].sharing`."""
        return self.own_sharing_path if self.own_sharing else "sharing"

    @property
    def listed(self) -> bool:
        """Whether it is in a list of pools."""
        return self.path != SECTION

    @property
    def own_sharing_path(self) -> str:
        """Path for a sharing mode of this pool alone."""
        return f"{self.path}.sharing" if self.listed else "sharing"

    @cached_property
    def placed_types(self) -> tuple[tuple[str, InstanceType], ...]:
        """Its types that are in the catalogue, each with its path in the stack file."""
        places = ((f"{self.path}.instance-types[{index}]", name) for index, name in enumerate(self.instance_types))
        return tuple((path, instance_types()[name]) for path, name in places if name in instance_types())

    @property
    def placed_nvidia_types(self) -> Iterator[tuple[str, InstanceType]]:
        """The same without GPUs of other vendors, which a rule of their own refuses."""
        return ((path, kind) for path, kind in self.placed_types if kind.gpu.vendor == "nvidia")

    @cached_property
    def known_types(self) -> tuple[InstanceType, ...]:
        """All of them without their paths."""
        return tuple(kind for _, kind in self.placed_types)

    @cached_property
    def smallest(self) -> InstanceType:
        """The type with the fewest GPUs: a node has at least these."""
        return min(self.known_types, key=lambda kind: kind.gpus)

    @property
    def has_unequal_counts(self) -> bool:
        """Whether its types differ in their number of GPUs."""
        return len({kind.gpus for kind in self.known_types}) > 1

    def most_nodes(self, instance: InstanceType) -> int:
        """Nodes of that type that may run at once, without replacements. Karpenter's limit is in GPUs."""
        if self.provisioner == "node-group":
            return self.max
        return self.max * max(kind.gpus for kind in self.known_types) // instance.gpus

    @property
    def planned_nodes(self) -> int:
        """Nodes that are planned: the maximum for a parked pool (`desired: 0`) and for Karpenter."""
        return self.max if self.provisioner == "karpenter" else self.desired or self.max

    @cached_property
    def shares_per_node(self) -> int:
        """Shares of all kinds that one node has at least."""
        return self.smallest.gpus * sum(shares.per_gpu for shares in self.offers)

    @cached_property
    def offers(self) -> tuple[Shares, ...]:
        """Shares of each of its GPUs, by kind; empty if no type is known, or its GPU does not support the mode."""
        return self.sharing.offers(self.smallest.gpu) if self.known_types else ()

    @property
    def planned_gpus(self) -> int:
        """GPUs of the planned nodes."""
        return self.planned_nodes * self.smallest.gpus

    @property
    def total_shares(self) -> int:
        """Shares of all kinds on all planned nodes."""
        return self.planned_nodes * self.shares_per_node


def _form(nodes: object) -> str:
    return LIST if isinstance(nodes, list) else MAPPING


LIST, MAPPING = ("list", "mapping")
"""How `gpu-nodes` may be written: several pools, or one."""
if TYPE_CHECKING:
    Pools = list[GpuPool]
else:
    Pools = Annotated[
        Annotated[PoolSettings, Tag(MAPPING)]
        | Annotated[list[GpuPool], Field(min_length=1, max_length=MOST_POOLS), Tag(LIST)],
        Discriminator(_form),
    ]
"""As the file has them. `StackConfig` turns the mapping into a list of one."""
