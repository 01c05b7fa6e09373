"""A stack as the rules see it: known types, integers, and no defaults left open."""

import datetime
from dataclasses import dataclass, replace
from functools import cached_property

from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.prices import Book
from sharing.models.catalogue import Served
from sharing.models.importance import Importance
from sharing.models.served import Cache
from sharing.modes.modes import Shares, Sharing
from sharing.schedule.week import Park
from sharing.stack.budget import AlertPeriod, AlertScope
from sharing.stack.cluster import Nat, Support
from sharing.stack.pools import NODE_IMAGES_GIB, ONE_POOL, Capacity, Provisioner, Replacement
from sharing.stack.scale_to_zero import ColdRequests


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One kind of GPU node. It has no slots, so that properties that the rules often need are computed once."""

    name: str
    path: str
    """Path in the stack file: `gpu-nodes`, or `gpu-nodes[0]` in a list of pools."""
    instance_types: tuple[str, ...]
    capacity: Capacity
    min: int
    desired: int
    max: int
    volume_gib: int
    sharing: Sharing
    sharing_path: str = "sharing"
    """Path of its sharing in the stack file: `sharing`, or `gpu-nodes[0].sharing`."""
    provisioner: Provisioner = "node-group"
    """The launcher of the nodes: an EKS managed node group, or Karpenter when pods wait."""
    on_demand_fallback: bool = False
    """Whether Karpenter may launch on-demand nodes when there is no spot capacity."""
    replacement: Replacement = "create-first"
    """Whether a replaced node group is deleted after the new one is created, or before."""
    check_offers: bool = True
    """Whether to refuse types that the region is known not to offer."""

    @property
    def listed(self) -> bool:
        """Whether it is in a list of pools."""
        return self.path != ONE_POOL

    @property
    def own_sharing_path(self) -> str:
        """Path for a sharing mode of this pool alone."""
        return f"{self.path}.sharing" if self.listed else self.sharing_path

    @cached_property
    def placed_types(self) -> tuple[tuple[str, InstanceType], ...]:
        """Its types that are in the catalogue, each with its path in the stack file."""
        places = ((f"{self.path}.instance-types[{index}]", name) for index, name in enumerate(self.instance_types))
        return tuple((path, instance_types()[name]) for path, name in places if name in instance_types())

    @cached_property
    def known_types(self) -> tuple[InstanceType, ...]:
        """The same without their paths."""
        return tuple(known for _, known in self.placed_types)

    @cached_property
    def smallest(self) -> InstanceType:
        """The type with the fewest GPUs: a node has at least these."""
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
        """Nodes that are planned: the maximum for a parked pool (`desired: 0`) and for Karpenter."""
        return self.max if self.provisioner == "karpenter" else self.desired or self.max

    @cached_property
    def shares_per_node(self) -> int:
        """Shares of all kinds that one node has at least."""
        return self.smallest.gpus * sum(shares.per_gpu for shares in self.offers)

    @cached_property
    def offers(self) -> tuple[Shares, ...]:
        """Shares of each of its GPUs, by kind; empty if the GPU does not support the sharing mode."""
        return self.sharing.offers(self.smallest.gpu)

    @property
    def planned_gpus(self) -> int:
        """GPUs of the planned nodes."""
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
    """Path in the stack file, e.g. `models[0]`."""
    pool: str
    cache: Cache
    importance: Importance | None = None
    """None if the stack file has none."""
    spill: tuple[str, ...] = ()
    """Names of other pools on which it may run, the first choice first."""

    @property
    def volume_gib(self) -> int:
        """Size of the model's own EBS volume; 0 if its files are on the node."""
        return 0 if self.cache == "node" else self.served.model.volume_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAlert:
    """An e-mail from AWS Budgets when costs pass a limit."""

    max_usd: float
    """Limit in USD per period."""
    period: AlertPeriod
    scope: AlertScope
    """Whose costs count: those of the account, or of resources with the stack's tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleToZero:
    """When models stop, and what happens to requests for those that have stopped."""

    idle_minutes: int
    """Minutes without requests after which a model stops."""
    cold_requests: ColdRequests
    """Whether a request for a stopped model waits for it, or gets status 503 while the model starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """An entire stack."""

    region: str
    kubernetes: str
    support: Support
    zones: int
    zone_names: tuple[str, ...] = ()
    """Empty to choose zones by the instance types that they offer."""
    nat: Nat
    public_access_cidrs: tuple[str, ...]
    system_types: tuple[str, ...]
    system_nodes: int
    pools: tuple[Pool, ...]
    tenants: tuple[Tenant, ...]
    max_usd_per_hour: float | None
    """The limit at any moment, also while nodes are replaced; None for no limit."""
    max_usd_per_month: float | None = None
    """The limit of a month with the schedule of `park`; None for no limit."""
    today: datetime.date
    park: Park | None = None
    """When the stack has no GPU nodes; None if it always has. Its pools have `max` nodes while it runs."""
    public_access_is_written: bool = True
    """Whether the stack file sets who may reach the Kubernetes API: an explicit value is consent."""
    nat_is_written: bool = True
    """Whether the stack file sets its NAT gateways: an explicit value accepts their price."""
    book: Book | None = None
    """Prices that were read from AWS; None to use the tables of `sharing/data`."""
    compared_modes: frozenset[str] = frozenset()
    """Sharing modes that a comparison shows next to this setup: advice does not suggest them again."""
    alert: CostAlert | None = None
    """The e-mail that AWS Budgets sends; None for no e-mail."""
    ui: bool = False
    """Whether the stack has a web interface, on its system nodes."""
    metrics: bool = False
    """Whether each model's pod has an exporter of metrics, and each GPU node one for its GPUs."""
    metrics_store: bool = False
    """Whether the stack has a metrics store with dashboards, on its system nodes."""
    scale_to_zero: ScaleToZero | None = None
    """How idle models stop; None if they run without requests."""

    @property
    def has_importance(self) -> bool:
        """Whether the stack file gives any model an importance."""
        return any(tenant.importance for tenant in self.tenants)

    def tenants_of(self, pool: Pool) -> list[Tenant]:
        return [tenant for tenant in self.tenants if tenant.pool == pool.name]

    def guests_of(self, pool: Pool) -> list[Tenant]:
        """The models of other pools that may run on this one."""
        return [tenant for tenant in self.tenants if pool.name in tenant.spill]

    def residents_of(self, pool: Pool) -> list[Tenant]:
        """All models that may meet on this pool."""
        return [*self.tenants_of(pool), *self.guests_of(pool)]

    def disk_gib(self, pool: Pool) -> int:
        """Disk that a node of the pool needs for its images and for models that keep their files on it."""
        on_node = [tenant.served.model.file_bytes for tenant in self.residents_of(pool) if tenant.cache == "node"]
        return NODE_IMAGES_GIB + -(-sum(on_node) // 2**30)

    def unproved(self, pool: Pool) -> str:
        """The reason why the shares of a pool cannot be checked; empty if they can."""
        if not self.nodes_of(pool):
            return "it has no node now; the first `pulumi up` with one checks them"
        if self.scale_to_zero:
            return "its models scale to zero, so it has a node only while they have requests"
        sizes = sorted({known.gpus for known in pool.known_types})
        if pool.provisioner == "node-group" and len(sizes) > 1:
            return f"its nodes may have {' or '.join(map(str, sizes))} GPUs, and it is unknown which type starts"
        return ""

    @property
    def awake(self) -> tuple[Pool, ...]:
        """The pools that are not parked."""
        return tuple(pool for pool in self.pools if pool.desired)

    def parked(self) -> "Setup":
        """The stack with every pool parked."""
        return replace(self, pools=tuple(replace(pool, min=0, desired=0) for pool in self.pools))

    def nodes_of(self, pool: Pool) -> int:
        """Nodes that run: `desired` of a node group, or as many as Karpenter launches; 0 when parked."""
        if pool.provisioner == "node-group" or pool.desired == 0:
            return pool.desired
        if not pool.offers:  # the GPU does not support the mode: the error of another rule
            return pool.max
        return min(pool.max, -(-len(self.tenants_of(pool)) // pool.shares_per_node))

    def spilled_nodes(self, pool: Pool) -> int:
        """Nodes that Karpenter may launch in addition, for models that have no share on their own pool."""
        if pool.provisioner == "node-group" or pool.desired == 0 or not pool.offers:
            return 0
        most = min(pool.max, -(-len(self.residents_of(pool)) // pool.shares_per_node))
        return most - self.nodes_of(pool)
