"""The shape of `Pulumi.<stack>.yaml`: one model per section, with every default."""

import datetime
from dataclasses import replace
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from sharing import versions
from sharing.aws.tags import MOST_OF_A_STACK
from sharing.models.catalogue import Served
from sharing.modes.modes import Sharing, TimeSlicing
from sharing.names import model_id
from sharing.schedule.cron import read_cron
from sharing.schedule.week import Park, judge_timezone
from sharing.stack.setup import (
    ONE_POOL,
    Capacity,
    CostAlert,
    Nat,
    Pool,
    Provisioner,
    Replacement,
    ScaleToZero,
    Setup,
    Support,
    Tenant,
)
from stacks.stack_file.budget_shape import Budget
from stacks.stack_file.model_settings import ModelSettings
from stacks.stack_file.monitoring_shape import MonitoringSettings
from stacks.stack_file.network_shape import Cidr, LabelKey, LabelValue, NamespaceName, VpcCidr
from stacks.stack_file.provider_shape import AccountId, AssumedRole, DefaultTags
from stacks.stack_file.scale_to_zero_shape import ScaleToZeroSettings
from stacks.stack_file.section import Section, kebab
from stacks.stack_file.ui_shape import UiSettings

POOL = "gpu"
"""Name of the only pool of GPU nodes, if the file has no list of them."""
MOST_POOLS = 10
FEWEST_ZONES = 2
"""EKS needs at least two zones for its control plane."""


class GpuNodes(Section):
    """A pool of GPU nodes: one kind of GPU and one sharing mode."""

    provisioner: Provisioner = Field(
        default="node-group",
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
    max: int = Field(
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
        description="Karpenter with `capacity: spot`: launch on-demand nodes, at two to three times the price, when "
        "there is no spot capacity.",
    )
    replacement: Replacement = Field(
        default="create-first",
        description="How nodes are replaced: `create-first` needs quota for both groups, `delete-first` stops the "
        "models first.",
    )
    check_offers: bool = Field(
        default=True,
        description="Refuse types that the region is known not to offer. `false` leaves this to AWS.",
    )


class GpuPool(GpuNodes):
    """One of several pools of GPU nodes."""

    name: str = Field(
        pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", description="In a list of pools: the name that models refer to."
    )
    sharing: Sharing | None = Field(
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


class SystemNodes(Section):
    """Nodes without a GPU, for DNS, storage driver and node feature discovery."""

    instance_types: Annotated[list[str], Field(min_length=1, max_length=20)] = Field(
        default=["t3.medium"], description="EC2 types of one architecture."
    )
    count: int = Field(
        default=2, ge=1, le=20, description="Number of system nodes. Use two to survive the loss of a zone."
    )


class ClusterSettings(Section):
    """Network and control plane."""

    kubernetes: str = Field(default=versions.KUBERNETES, description="Kubernetes version.")
    support: Support = Field(
        default="standard",
        description="EKS support tier. With `extended`, a version past standard support costs six times as much.",
    )
    zones: int = Field(
        default=FEWEST_ZONES,
        ge=FEWEST_ZONES,
        le=6,
        description="Number of Availability Zones, chosen among those that offer the stack's instance types.",
    )
    zone_names: Annotated[list[str], Field(max_length=6)] = Field(
        default=[], description="Names of at least two zones to use instead, e.g. `[us-east-1a, us-east-1d]`."
    )
    cidr: VpcCidr = Field(default="10.0.0.0/16", description="CIDR block of the VPC.")
    nat: Nat = Field(
        default="single",
        description="NAT gateways: `single`, `per-zone`, or `none` (cheapest: nodes in public subnets, no ingress).",
    )
    public_access_cidrs: Annotated[list[Cidr], Field(max_length=40)] = Field(
        default=["0.0.0.0/0"],
        description="CIDR blocks that may reach the public Kubernetes API. `[]` disables public access.",
    )
    admins: Annotated[list[str], Field(max_length=50)] = Field(
        default=[],
        description="ARNs of IAM roles and users that may run `up` and `destroy`, besides the one that ran `up` last.",
    )
    logs: bool = Field(default=False, description="Control-plane logs in CloudWatch, kept for 7 days.")
    system_nodes: SystemNodes = Field(default=SystemNodes(), description="Nodes without a GPU.")


class ParkSettings(Section):
    """When the stack has no GPU nodes. Cron text has five fields: minute, hour, day of month, month, weekday."""

    schedule: str = Field(description="When the stack parks: its GPU nodes stop. Cron text, e.g. `0 20 * * MON-FRI`.")
    wake: str = Field(description="When the stack wakes: it gets `max` GPU nodes again. Cron text.")
    timezone: str = Field(default="UTC", description="Time zone of both, e.g. `Europe/Paris`.")

    def park(self) -> Park | None:
        """The schedules; None for those that `stack_file.parking` refuses."""
        if judge_timezone(self.timezone):
            return None
        try:
            return Park(schedule=read_cron(self.schedule), wake=read_cron(self.wake), timezone=self.timezone)
        except ValueError:
            return None


class ModelClients(Section):
    """Pods that may send requests to the models, besides those in the models' own namespace."""

    namespaces: Annotated[list[NamespaceName], Field(max_length=50)] = Field(
        default=[], description="Namespaces whose pods may send requests to the models."
    )
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=20)] = Field(
        default={}, description="Labels of pods in any namespace that may send requests; a pod needs all of them."
    )


class StackConfig(Section):
    """An entire stack file: its `tandem:` keys and its `aws:` keys."""

    region: str = Field(alias="aws:region", pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$", description="AWS region.")
    profile: str | None = Field(
        alias="aws:profile",
        default=None,
        pattern=r"^[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        description="Profile of your AWS configuration. Default: the usual credentials.",
    )
    assume_roles: Annotated[list[AssumedRole], Field(max_length=1)] = Field(
        alias="aws:assumeRoles",
        default=[],
        description="The role to assume, with `roleArn`. At most one; to chain roles, use a profile with "
        "`source_profile`.",
    )
    allowed_account_ids: Annotated[list[AccountId], Field(max_length=20)] = Field(
        alias="aws:allowedAccountIds", default=[], description="AWS accounts that the stack may use. Default: any."
    )
    default_tags: DefaultTags = Field(
        alias="aws:defaultTags",
        default=DefaultTags(),
        description="Default tags as `tags: {…}`; `tandem:tags` take precedence.",
    )
    sharing: Sharing | None = Field(
        default=None, description="Sharing mode of the GPUs. Required unless each pool in a list has its own `sharing`."
    )
    gpu_nodes: Pools = Field(
        default=GpuNodes(),
        description="GPU nodes: one pool, or a list, where each has a `name` and may have its own `sharing`.",
    )
    models: Annotated[list[ModelSettings], Field(min_length=1, max_length=64)] = Field(description="Models to serve.")
    models_clients: ModelClients = Field(
        default=ModelClients(),
        description="Pods outside the models' own namespace that may send requests: all pods of `namespaces`, and pods "
        "with all `labels`.",
    )
    ui: UiSettings = Field(
        default=UiSettings(), description="A web page to chat with the models: Open WebUI, on the system nodes."
    )
    monitoring: MonitoringSettings = Field(
        default=MonitoringSettings(), description="Metrics of the models and the GPUs: a store, or monitors for yours."
    )
    proof: bool = Field(
        default=True,
        description="Check the shares before the models first start, and after changes of `sharing` or GPU.",
    )
    cluster: ClusterSettings = Field(default=ClusterSettings(), description="Network and control plane.")
    park: ParkSettings | None = Field(
        default=None,
        description="Times without GPU nodes, e.g. `{schedule: 0 20 * * MON-FRI, wake: 0 8 * * MON-FRI, timezone: "
        "Europe/Paris}`. Default: none.",
    )
    scale_to_zero: ScaleToZeroSettings = Field(
        default=ScaleToZeroSettings(),
        description="Models that stop without requests, and start with the next one: KEDA, on the system nodes.",
    )
    tags: dict[str, str] = Field(
        default={},
        description=f"Extra tags for all resources that support tags: at most {MOST_OF_A_STACK}, with those of "
        "`aws:defaultTags`.",
    )
    budget: Budget = Field(default=Budget(), description="Limits for the cost of the stack.")

    def given_tags(self) -> dict[str, dict[str, str]]:
        """The tags in the file by their path. Those that come last take precedence."""
        return {"aws:defaultTags.tags": self.default_tags.tags, "tags": self.tags}

    def merged_tags(self) -> dict[str, str]:
        """All tags in the file."""
        return {**self.default_tags.tags, **self.tags}

    def ids(self) -> list[str]:
        """The id of each model, in order, all different: `llama2-7b`, then `llama2-7b-2`."""
        given = {settings.id for settings in self.models if settings.id}
        found: list[str] = []
        for settings in self.models:
            base = settings.id or model_id(settings.name)
            taken = {*found, *given}
            numbered = (f"{base}-{number}" for number in range(2, 1000))
            found.append(base if settings.id or base not in taken else next(id for id in numbered if id not in taken))
        return found

    def served(self) -> list[Served]:
        """The models with their settings; all must be known."""
        return [served for _, served in self.known_models()]

    def known_models(self) -> list[tuple[int, Served]]:
        """The known models, each with its index in the file."""
        found = []
        for index, (id, settings) in enumerate(zip(self.ids(), self.models, strict=True)):
            if model := settings.model():
                served = Served(
                    id=id,
                    model=model,
                    context=settings.context,
                    slots=settings.slots,
                    kv_type=settings.kv_type,
                    num_batch=settings.batch or 0,
                    prompt_cache_mib=settings.prompt_cache_mib,
                )
                if "context" not in settings.model_fields_set:
                    served = replace(served, context=served.effective_context)
                found.append((index, served))
        return found

    def pools(self) -> dict[str, GpuNodes]:
        """The pools of GPU nodes by their path: `gpu-nodes`, or `gpu-nodes[0]` and so on."""
        if isinstance(self.gpu_nodes, GpuNodes):
            return {ONE_POOL: self.gpu_nodes}
        return {f"{ONE_POOL}[{index}]": pool for index, pool in enumerate(self.gpu_nodes)}

    def lacks_sharing(self) -> bool:
        """Whether a pool has no sharing mode, neither its own nor that of the stack."""
        return self.sharing is None and any(_own_sharing(nodes) is None for nodes in self.pools().values())

    @property
    def mode(self) -> str:
        """The sharing mode of the stack, or of its first pool if `sharing` is absent."""
        return self._sharing_of(next(iter(self.pools().values()))).mode

    def _sharing_of(self, nodes: GpuNodes) -> Sharing:
        # The default replaces a missing one, which `find_contradictions` reports.
        return _own_sharing(nodes) or self.sharing or TimeSlicing()

    def _pool(self, path: str, nodes: GpuNodes) -> Pool:
        return Pool(
            name=pool_name(nodes),
            path=path,
            instance_types=tuple(nodes.instance_types),
            capacity=nodes.capacity,
            # The schedule of `park` sets both: they are not in the file.
            min=0 if self.park else nodes.min,
            desired=nodes.max if self.park else nodes.desired,
            max=nodes.max,
            volume_gib=nodes.volume_gib,
            sharing=self._sharing_of(nodes),
            sharing_path=f"{path}.sharing" if _own_sharing(nodes) else "sharing",
            provisioner=nodes.provisioner,
            on_demand_fallback=nodes.on_demand_fallback,
            replacement=nodes.replacement,
            check_offers=nodes.check_offers,
        )

    def setup(self, today: datetime.date) -> Setup:
        """Input of the rules, without unknown models, which `find_contradictions` reports."""
        pools = tuple(self._pool(path, nodes) for path, nodes in self.pools().items())
        only = pools[0].name if len(pools) == 1 else ""
        tenants = [
            Tenant(
                served=served,
                path=f"models[{index}]",
                pool=self.models[index].pool or only,
                cache=self.models[index].cache,
                importance=self.models[index].importance,
                spill=tuple(self.models[index].spill),
            )
            for index, served in self.known_models()
        ]
        return Setup(
            region=self.region,
            kubernetes=self.cluster.kubernetes,
            support=self.cluster.support,
            zones=len(self.cluster.zone_names) or self.cluster.zones,
            zone_names=tuple(self.cluster.zone_names),
            nat=self.cluster.nat,
            public_access_cidrs=tuple(self.cluster.public_access_cidrs),
            nat_is_written="nat" in self.cluster.model_fields_set,
            public_access_is_written="public_access_cidrs" in self.cluster.model_fields_set,
            system_types=tuple(self.cluster.system_nodes.instance_types),
            system_nodes=self.cluster.system_nodes.count,
            pools=pools,
            tenants=tuple(tenants),
            max_usd_per_hour=self.budget.max_usd_per_hour,
            max_usd_per_month=self.budget.max_usd_per_month,
            park=self.park.park() if self.park else None,
            alert=self.cost_alert(),
            ui=self.ui.enabled,
            metrics=self.monitoring.has_metrics,
            metrics_store=self.monitoring.store == "builtin",
            scale_to_zero=self._scaling(),
            today=today,
        )

    def _scaling(self) -> ScaleToZero | None:
        settings = self.scale_to_zero
        if not settings.enabled:
            return None
        return ScaleToZero(idle_minutes=settings.idle_minutes, cold_requests=settings.cold_requests)

    def cost_alert(self) -> CostAlert | None:
        """The e-mail from AWS Budgets, without its addresses."""
        alert = self.budget.alert
        return CostAlert(max_usd=alert.max_usd, period=alert.period, scope=alert.scope) if alert else None


def _own_sharing(nodes: GpuNodes) -> Sharing | None:
    return nodes.sharing if isinstance(nodes, GpuPool) else None


def pool_name(nodes: GpuNodes) -> str:
    """The name of these nodes that models refer to."""
    return nodes.name if isinstance(nodes, GpuPool) else POOL


SECTIONS = tuple(
    kebab(name) for name, field in StackConfig.model_fields.items() if not (field.alias or "").startswith("aws:")
)
"""The `tandem:` keys."""
