"""A stack file, `Pulumi.<stack>.yaml`: its sections with every default, and what the rules ask about the stack."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Self, cast

from pydantic import Field, PrivateAttr, model_validator

from sharing.aws.partitions import HOME_REGION
from sharing.aws.tags import MOST_OF_A_STACK
from sharing.hardware.prices import Book
from sharing.models.served import ServedModel
from sharing.modes.modes import Sharing, TimeSlicing
from sharing.names import model_id
from sharing.schedule.week import EXAMPLES
from sharing.section import Fix, Section, kebab
from sharing.sections.budget import Budget
from sharing.sections.cluster import CONTROL_PLANE_ZONES, ClusterSettings
from sharing.sections.monitoring import MonitoringSettings
from sharing.sections.network import LabelKey, LabelValue, NamespaceName
from sharing.sections.park import ParkSettings
from sharing.sections.pools import NODE_IMAGES_GIB, POOL, SECTION, GpuPool, Pools, PoolSettings
from sharing.sections.provider import AccountId, AssumedRole, DefaultTags
from sharing.sections.registry import Registry, ecr_region
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from sharing.sections.ui import UiSettings
from sharing.speed.measured import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the verdict on a stack depends on besides its file."""

    today: datetime.date = field(default_factory=datetime.date.today)
    book: Book | None = None
    compared_modes: frozenset[str] = frozenset()
    measured: tuple[Measurement, ...] = ()
    """Speeds that replace the forecasts."""


class ModelClients(Section):
    """Pods that may send requests to the models, besides those in the models' own namespace."""

    namespaces: Annotated[
        list[NamespaceName], Field(max_length=50), Fix("Write the name that `kubectl get namespaces` prints.")
    ] = Field(default=[], description="Namespaces whose pods may send requests to the models.")
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=20)] = Field(
        default={},
        examples=[{"llm-client": "yes"}],
        description="Labels of pods in any namespace that may send requests; a pod needs all of them.",
    )


class StackConfig(Section):
    """An entire stack file: its `tandem:` keys and its `aws:` keys."""

    region: str = Field(
        alias="aws:region", pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$", examples=["us-east-1"], description="AWS region."
    )
    profile: Annotated[str | None, Fix("Write a name that `aws configure list-profiles` prints.")] = Field(
        alias="aws:profile",
        default=None,
        pattern=r"^[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        description="Profile of your AWS configuration. Default: the usual credentials.",
    )
    assume_roles: Annotated[list[AssumedRole], Field(max_length=1)] = Field(
        alias="aws:assumeRoles",
        default=[],
        examples=[[{"roleArn": "arn:aws:iam::111122223333:role/ci"}]],
        description="The role to assume, with `roleArn`. At most one; to chain roles, use a profile with "
        "`source_profile`.",
    )
    allowed_account_ids: Annotated[list[AccountId], Field(max_length=20)] = Field(
        alias="aws:allowedAccountIds",
        default=[],
        examples=[["111122223333"]],
        description="AWS accounts that the stack may use. Default: any.",
    )
    default_tags: DefaultTags = Field(
        alias="aws:defaultTags",
        default=DefaultTags(),
        examples=[{"tags": {"team": "ml"}}],
        description="Default tags as `tags: {…}`; `tandem:tags` take precedence.",
    )
    sharing: Sharing | None = Field(
        default=None,
        examples=[{"mode": "timeslice"}],
        description="Sharing mode of the GPUs. Required unless each pool in a list has its own `sharing`.",
    )
    pools: Pools = Field(
        alias="gpu-nodes",
        default=cast(Any, PoolSettings()),
        examples=[{"instance-types": ["g4dn.xlarge"]}, [{"name": "fast", "instance-types": ["g6.xlarge"]}]],
        description="GPU nodes: one pool, or a list, where each has a `name` and may have its own `sharing`.",
    )
    models: Annotated[list[ServedModel], Field(min_length=1, max_length=64)] = Field(
        examples=[[{"name": "llama2:7b"}]], description="Models to serve."
    )
    models_clients: ModelClients = Field(
        default=ModelClients(),
        examples=[{"namespaces": ["chat"]}],
        description="Pods outside the models' own namespace that may send requests: all pods of `namespaces`, and pods "
        "with all `labels`.",
    )
    ui: UiSettings = Field(
        default=UiSettings(),
        examples=[{"enabled": True, "admin-email": "ops@example.com"}],
        description="A web page to chat with the models: Open WebUI, on the system nodes.",
    )
    monitoring: MonitoringSettings = Field(
        default=MonitoringSettings(),
        examples=[{"store": "builtin"}],
        description="Metrics of the models and the GPUs: a store, or monitors for yours.",
    )
    proof: bool = Field(
        default=True,
        examples=[True, False],
        description="Check the shares before the models first start, and after changes of `sharing` or GPU.",
    )
    cluster: ClusterSettings = Field(
        default=ClusterSettings(), examples=[{"nat": "none"}], description="Network and control plane."
    )
    registry: Registry | None = Field(
        default=None,
        examples=["registry.example.com/tandem"],
        description="Registry with copies of all images and charts, which `tandem images` lists: a host and a path. "
        "Default: the public ones.",
    )
    park: ParkSettings | None = Field(
        default=None,
        examples=[{**EXAMPLES, "timezone": "Europe/Paris"}],
        description="Times without GPU nodes, e.g. `{schedule: 0 20 * * MON-FRI, wake: 0 8 * * MON-FRI, timezone: "
        "Europe/Paris}`. Default: none.",
    )
    scale_to_zero: ScaleToZeroSettings = Field(
        default=ScaleToZeroSettings(),
        examples=[{"enabled": True}],
        description="Models that stop without requests, and start with the next one: KEDA, on the system nodes.",
    )
    tags: dict[str, str] = Field(
        default={},
        examples=[{"team": "ml"}],
        description=f"Extra tags for all resources that support tags: at most {MOST_OF_A_STACK}, with those of "
        "`aws:defaultTags`.",
    )
    budget: Budget = Field(
        default=Budget(), examples=[{"max-usd-per-hour": 0.5}], description="Limits for the cost of the stack."
    )

    _circumstances: Circumstances = PrivateAttr(default_factory=Circumstances)

    @classmethod
    def of(cls, pools: Mapping[str, GpuPool], models: Sequence[ServedModel]) -> Self:
        """A stack of no file, whose values nobody judges here: pools by the path that messages name, and models. The
        other settings have the defaults of a stack file, in the region whose prices are always known.
        """
        config = cls.model_construct(region=HOME_REGION, pools=[*pools.values()], models=[*models])
        completed: Self = config._complete()  # type: ignore[operator]  # pydantic leaves it a method
        placed = [pool.placed(path, pool.sharing) for path, pool in zip(pools, completed.pools, strict=True)]
        return completed.changed(pools=placed)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Fills in what the file leaves open: names, ids, pools of models, and the counts that `park` sets."""
        pools = [self._placed(path, nodes) for path, nodes in self._by_path().items()]
        only = pools[0].name if len(pools) == 1 else ""
        models = [
            served.placed(index, id, served.given_pool or only)
            for index, (id, served) in enumerate(zip(self.ids(), self.models, strict=True))
        ]
        return self.changed(pools=pools, models=models)

    def _by_path(self) -> dict[str, PoolSettings]:
        """The pools by their path: `gpu-nodes`, or `gpu-nodes[0]` and so on."""
        if isinstance(self.pools, PoolSettings):
            return {SECTION: self.pools}
        return {f"{SECTION}[{index}]": pool for index, pool in enumerate(self.pools)}

    def _placed(self, path: str, nodes: PoolSettings) -> GpuPool:
        pool = (
            nodes
            if isinstance(nodes, GpuPool)
            else GpuPool.model_construct(nodes.model_fields_set, name=POOL, **dict(nodes))
        )
        if self.park:
            # The schedule sets both: they are not in the file.
            pool = pool.changed(min=0, desired=nodes.max)
        # The default replaces a missing one, which is an error of form.
        return pool.placed(path, self.sharing or TimeSlicing())

    def ids(self) -> list[str]:
        """The id of each model, in order, all different: `llama2-7b`, then `llama2-7b-2`."""
        given = {served.given_id for served in self.models if served.given_id}
        ids: list[str] = []
        for served in self.models:
            base = served.given_id or model_id(served.name)
            taken = {*ids, *given}
            numbered = (f"{base}-{number}" for number in range(2, 1000))
            ids.append(base if served.given_id or base not in taken else next(id for id in numbered if id not in taken))
        return ids

    def under(self, circumstances: Circumstances) -> Self:
        """The same stack, judged under these circumstances."""
        return self._with(circumstances=circumstances)

    @cached_property
    def circumstances(self) -> Circumstances:
        """What the verdict depends on besides the file."""
        return self._circumstances

    @property
    def today(self) -> datetime.date:
        """The day on which the stack is judged."""
        return self.circumstances.today

    @property
    def book(self) -> Book | None:
        """Prices that were read from AWS; None to use the tables of `sharing/data`."""
        return self.circumstances.book

    @property
    def compared_modes(self) -> frozenset[str]:
        """Sharing modes that a comparison shows next to this stack: advice does not suggest them again."""
        return self.circumstances.compared_modes

    @property
    def images_avoid_nat(self) -> bool:
        """Whether images come from ECR of the stack's region: its layers are in S3, and the stack's own network has a
        gateway endpoint for it. Whether yours has one is unknown.

        Amazon ECR User Guide, "Amazon ECR interface VPC endpoints": layers are in S3. Of other registries, the way to
        them is unknown.
        """
        return self.cluster.owns_network and ecr_region(self.registry or "") == self.region

    def given_tags(self) -> dict[str, dict[str, str]]:
        """The tags in the file by their path. Those that come last take precedence."""
        return {"aws:defaultTags.tags": self.default_tags.tags, "tags": self.tags}

    def merged_tags(self) -> dict[str, str]:
        """All tags in the file."""
        return {**self.default_tags.tags, **self.tags}

    @property
    def has_importance(self) -> bool:
        """Whether the stack file gives any model an importance."""
        return any(served.importance for served in self.models)

    def models_of(self, pool: GpuPool) -> list[ServedModel]:
        return [served for served in self.models if served.pool == pool.name]

    def guests_of(self, pool: GpuPool) -> list[ServedModel]:
        """The models of other pools that may run on this one."""
        return [served for served in self.models if pool.name in served.spill]

    def residents_of(self, pool: GpuPool) -> list[ServedModel]:
        """All models that may meet on this pool."""
        return [*self.models_of(pool), *self.guests_of(pool)]

    def disk_gib(self, pool: GpuPool) -> int:
        """Disk that a node of the pool needs for its images and for models that keep their files on it."""
        on_node = [served.model.file_bytes for served in self.residents_of(pool) if served.cache == "node"]
        return NODE_IMAGES_GIB + -(-sum(on_node) // 2**30)

    def unproved(self, pool: GpuPool) -> str:
        """The reason why the shares of a pool cannot be checked; empty if they can."""
        if not self.nodes_of(pool):
            return "it has no node now; the first `pulumi up` with one checks them"
        if self.scale_to_zero.enabled:
            return "its models scale to zero, so it has a node only while they have requests"
        sizes = sorted({kind.gpus for kind in pool.known_types})
        if pool.provisioner == "node-group" and len(sizes) > 1:
            return f"its nodes may have {' or '.join(map(str, sizes))} GPUs, and it is unknown which type starts"
        return ""

    @property
    def active_pools(self) -> tuple[GpuPool, ...]:
        """The pools with `desired` above 0. A schedule may have stopped their nodes all the same (`park`)."""
        return tuple(pool for pool in self.pools if pool.desired)

    @property
    def karpenter_pools(self) -> tuple[GpuPool, ...]:
        """The pools whose nodes Karpenter launches."""
        return tuple(pool for pool in self.pools if pool.provisioner == "karpenter")

    def with_pool(self, pool: GpuPool) -> Self:
        """The stack with `pool` in place of its pool of that name."""
        return self.changed(pools=[pool if each.name == pool.name else each for each in self.pools])

    def without_limits(self) -> Self:
        """The stack without limits of its cost."""
        return self.changed(budget=self.budget.changed(max_usd_per_hour=None, max_usd_per_month=None))

    def without_gpu_nodes(self) -> Self:
        """The stack with `desired: 0` in every pool."""
        return self.changed(pools=[pool.changed(desired=0) for pool in self.pools])

    @property
    def system_zones(self) -> int:
        """Zones of the system nodes. A single one stays in the zone of the page's volume, or could not mount it."""
        return 1 if self.ui.kept_gib and self.cluster.own_system_nodes == 1 else CONTROL_PLANE_ZONES

    def nodes_of(self, pool: GpuPool) -> int:
        """Nodes that run: `desired` of a node group, or as many as Karpenter launches; 0 when parked."""
        if pool.provisioner == "node-group" or pool.desired == 0:
            return pool.desired
        if not pool.offers:  # the GPU does not support the mode: the error of another rule
            return pool.max
        return min(pool.max, -(-len(self.models_of(pool)) // pool.shares_per_node))

    def spilled_nodes(self, pool: GpuPool) -> int:
        """Nodes that Karpenter may launch in addition, for models that have no share on their own pool."""
        if pool.provisioner == "node-group" or pool.desired == 0 or not pool.offers:
            return 0
        most = min(pool.max, -(-len(self.residents_of(pool)) // pool.shares_per_node))
        return most - self.nodes_of(pool)


SECTIONS = tuple(
    key
    for name, field in StackConfig.model_fields.items()
    if not (key := field.alias or kebab(name)).startswith("aws:")
)
"""The `tandem:` keys."""
