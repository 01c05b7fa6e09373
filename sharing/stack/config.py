"""The shape of `Pulumi.<stack>.yaml`: one model per section, with every default."""

import datetime
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from sharing.aws.tags import MOST_OF_A_STACK
from sharing.models.catalogue import Served
from sharing.models.served import ModelSettings
from sharing.modes.modes import Sharing, TimeSlicing
from sharing.names import model_id
from sharing.schedule.week import EXAMPLES
from sharing.section import Fix, Section, kebab
from sharing.stack.budget import Budget
from sharing.stack.cluster import ClusterSettings
from sharing.stack.monitoring import MonitoringSettings
from sharing.stack.network import LabelKey, LabelValue, NamespaceName
from sharing.stack.park import ParkSettings
from sharing.stack.pools import ONE_POOL, POOL, GpuNodes, GpuPool, Pools
from sharing.stack.provider import AccountId, AssumedRole, DefaultTags
from sharing.stack.scale_to_zero import ScaleToZeroSettings
from sharing.stack.setup import CostAlert, Pool, ScaleToZero, Setup, Tenant
from sharing.stack.ui import UiSettings


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
    gpu_nodes: Pools = Field(
        default=GpuNodes(),
        examples=[{"instance-types": ["g4dn.xlarge"]}, [{"name": "fast", "instance-types": ["g6.xlarge"]}]],
        description="GPU nodes: one pool, or a list, where each has a `name` and may have its own `sharing`.",
    )
    models: Annotated[list[ModelSettings], Field(min_length=1, max_length=64)] = Field(
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

    @property
    def mode(self) -> str:
        """The sharing mode of the stack, or of its first pool if `sharing` is absent."""
        return self._sharing_of(next(iter(self.pools().values()))).mode

    def _sharing_of(self, nodes: GpuNodes) -> Sharing:
        # The default replaces a missing one, which `judge` reports.
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
