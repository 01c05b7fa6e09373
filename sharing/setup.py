"""What a stack file asks for, in the words of the rules: known types, whole numbers, nothing left to default."""

import datetime
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sharing.gpus import InstanceType, instance_types
from sharing.models import Served
from sharing.modes import Shares, Sharing
from sharing.prices import Book

Capacity = Literal["spot", "on-demand"]
Provisioner = Literal["node-group", "karpenter"]
Replacement = Literal["create-first", "delete-first"]
Nat = Literal["none", "single", "per-zone"]
Support = Literal["standard", "extended"]
Cache = Literal["node", "volume"]

ONE_POOL = "gpu-nodes"
"""Where the only pool stands in a stack file that has no list of them."""
SYSTEM_VOLUME_GIB = 20
"""Root volume of a system node: EKS's own default, enough for the add-ons."""
NODE_IMAGES_GIB = 45
"""Disk that a GPU node takes before any model file: the NVIDIA AMI (about 25 GiB) and the unpacked images."""
POD_CPU_MILLIS = 250
"""CPU that a model's pod requests; its RAM is `sharing.host.host_need`."""
NODE_CPU_MILLIS = 500
"""CPU that kubelet and the DaemonSets of a GPU node request."""
ZONES_WITHOUT_EKS = ("use1-az3", "usw1-az2", "cac1-az3")
"""Ids of zones in which EKS has no control plane (EKS user guide, network requirements)."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One kind of GPU node. It has no slots because what the rules ask of it again and again is worked out once."""

    name: str
    path: str
    """Where it stands in the stack file: `gpu-nodes`, or `gpu-nodes[0]` in a list of pools."""
    instance_types: tuple[str, ...]
    capacity: Capacity
    min: int
    desired: int
    max: int
    volume_gib: int
    sharing: Sharing
    sharing_path: str = "sharing"
    """Where its sharing stands in the stack file: the stack's, or `gpu-nodes[0].sharing`."""
    provisioner: Provisioner = "node-group"
    """What brings the nodes: an EKS managed node group, or Karpenter when pods wait."""
    on_demand_fallback: bool = False
    """Whether Karpenter may buy on-demand when there is no spot capacity."""
    replacement: Replacement = "create-first"
    """Whether a node group that is replaced goes after the new one has come, or before."""
    check_offers: bool = True
    """Whether a type is refused that the region is known not to offer."""

    @property
    def listed(self) -> bool:
        """Whether it stands in a list of pools."""
        return self.path != ONE_POOL

    @property
    def own_sharing_path(self) -> str:
        """Where to write a sharing that is this pool's alone."""
        return f"{self.path}.sharing" if self.listed else self.sharing_path

    @cached_property
    def placed_types(self) -> tuple[tuple[str, InstanceType], ...]:
        """Its types, as far as the catalogue knows them, each with its place in the stack file."""
        places = ((f"{self.path}.instance-types[{index}]", name) for index, name in enumerate(self.instance_types))
        return tuple((path, instance_types()[name]) for path, name in places if name in instance_types())

    @cached_property
    def known_types(self) -> tuple[InstanceType, ...]:
        """The same without their places."""
        return tuple(known for _, known in self.placed_types)

    @cached_property
    def smallest(self) -> InstanceType:
        """The type with the fewest cards: what is surely there, whichever type comes up."""
        return min(self.known_types, key=lambda known: known.gpus)

    @property
    def has_unequal_counts(self) -> bool:
        """Whether its types differ in their number of GPUs."""
        return len({known.gpus for known in self.known_types}) > 1

    def most_nodes(self, instance: InstanceType) -> int:
        """Nodes of that type that may run at once, without replacements. Karpenter's limit is in GPUs."""
        if self.provisioner == "node-group":
            return self.max
        return self.max * max(known.gpus for known in self.known_types) // instance.gpus

    @property
    def planned_nodes(self) -> int:
        """Nodes that the promise is made for: a parked pool (`desired: 0`) and Karpenter's are judged by what they may
        become.
        """
        return self.max if self.provisioner == "karpenter" else self.desired or self.max

    @cached_property
    def shares_per_node(self) -> int:
        """Shares of all kinds that one node surely has."""
        return self.smallest.gpus * sum(shares.per_gpu for shares in self.offers)

    @cached_property
    def offers(self) -> tuple[Shares, ...]:
        """What each of its cards gives, by kind; nothing where its sharing is none of the card."""
        return self.sharing.offers(self.smallest.gpu)

    @property
    def planned_gpus(self) -> int:
        """Cards of those nodes."""
        return self.planned_nodes * self.smallest.gpus

    @property
    def total_shares(self) -> int:
        """Shares of all kinds on all planned nodes."""
        return self.planned_nodes * self.shares_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A model on a pool."""

    served: Served
    path: str
    """Where it stands in the stack file, e.g. `models[0]`."""
    pool: str
    cache: Cache

    @property
    def volume_gib(self) -> int:
        """Size of the model's own EBS volume, 0 when its files lie on the node."""
        return 0 if self.cache == "node" else self.served.model.volume_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A whole stack."""

    region: str
    kubernetes: str
    support: Support
    zones: int
    zone_names: tuple[str, ...] = ()
    """Empty: the zones are chosen by what they sell."""
    nat: Nat
    public_access_cidrs: tuple[str, ...]
    system_types: tuple[str, ...]
    system_nodes: int
    pools: tuple[Pool, ...]
    tenants: tuple[Tenant, ...]
    max_usd_per_hour: float | None
    today: datetime.date
    public_access_is_written: bool = True
    """Whether the stack file says who may reach the Kubernetes API: a written value is consent."""
    nat_is_written: bool = True
    """Whether the stack file says which NAT gateways it has: a written value accepts their price."""
    book: Book | None = None
    """Prices that were read from AWS; None: the tables of `sharing/data` hold."""

    def tenants_of(self, pool: Pool) -> list[Tenant]:
        return [tenant for tenant in self.tenants if tenant.pool == pool.name]

    def disk_gib(self, pool: Pool) -> int:
        """Disk that a node of the pool needs for its images and for models that keep their files on it."""
        on_node = [tenant.served.model.file_bytes for tenant in self.tenants_of(pool) if tenant.cache == "node"]
        return NODE_IMAGES_GIB + -(-sum(on_node) // 2**30)

    def unproved(self, pool: Pool) -> str:
        """Why nobody can prove the shares of a pool, in words; empty when they can be proved."""
        if not self.nodes_of(pool):
            return "it has no node now; the first `pulumi up` with one proves them"
        sizes = sorted({known.gpus for known in pool.known_types})
        if pool.provisioner == "node-group" and len(sizes) > 1:
            return f"a node of it may have {' or '.join(map(str, sizes))} GPUs, and which one comes is not known"
        return ""

    @property
    def awake(self) -> tuple[Pool, ...]:
        """The pools that are not parked."""
        return tuple(pool for pool in self.pools if pool.desired)

    def nodes_of(self, pool: Pool) -> int:
        """Nodes that run: as many as the group is told, or as Karpenter brings for the models; 0 when parked."""
        if pool.provisioner == "node-group" or pool.desired == 0:
            return pool.desired
        if not pool.offers:  # its sharing is none of the card: another rule says so
            return pool.max
        return min(pool.max, -(-len(self.tenants_of(pool)) // pool.shares_per_node))
