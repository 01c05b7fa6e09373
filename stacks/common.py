"""What every stack is made of: the blocks, set up from a config, and the outputs."""

import datetime
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pulumi
import pulumi_aws as aws

from components import (
    DevicePluginSharing,
    DevicePluginSharingArgs,
    GpuCluster,
    GpuClusterArgs,
    OllamaPair,
    OllamaPairArgs,
    SpotGpuNodeGroup,
    SpotGpuNodeGroupArgs,
)
from components.names import PROJECT, stack_tags
from components.ollama_pair import OllamaModel
from sharing import tables
from sharing.assessment import Assessment, assess
from sharing.setup import Pool, Setup, Tenant
from stacks.config import RefusedError, StackConfig
from stacks.naming import cluster_name


@dataclass(frozen=True)
class Plan:
    """A config that the rules have accepted, with what they found."""

    config: StackConfig
    setup: Setup
    assessment: Assessment

    @property
    def pool(self) -> Pool:
        """The pool of GPU nodes."""
        return self.setup.pools[0]

    @property
    def tenants(self) -> list[Tenant]:
        """The models on it."""
        return self.setup.tenants_of(self.pool)

    @property
    def in_one_zone(self) -> bool:
        """Whether the pool is bound to a zone, by a volume that lives there."""
        return any(tenant.cache == "volume" for tenant in self.tenants)

    @cached_property
    def aws_provider(self) -> aws.Provider:
        """The one AWS provider; without it eks.Cluster would bring a second, older one of its own."""
        return aws.Provider(PROJECT, region=self.config.region)

    @cached_property
    def tags(self) -> dict[str, str]:
        """The one tag set."""
        return stack_tags(pulumi.get_stack(), self.config.tags)


def accept(config: StackConfig) -> Plan:
    """Asks the rules once more, before anything is registered; raises `RefusedError`, passes warnings on to Pulumi."""
    setup = config.setup(datetime.date.today())
    assessment = assess(setup)
    if assessment.problems:
        raise RefusedError(assessment.problems, f"Pulumi.{pulumi.get_stack()}.yaml")
    for warning in assessment.warnings:
        pulumi.log.warn(str(warning))
    return Plan(config, setup, assessment)


def cluster(plan: Plan) -> GpuCluster:
    """The cluster, in the config's region."""
    settings = plan.config.cluster
    return GpuCluster(
        PROJECT,
        GpuClusterArgs(
            cluster_name=cluster_name(pulumi.get_stack()),
            kubernetes=settings.kubernetes,
            support=settings.support,
            zones=settings.zones,
            cidr=settings.cidr,
            nat=settings.nat,
            public_access_cidrs=settings.public_access_cidrs,
            logs=settings.logs,
            system_types=settings.system_nodes.instance_types,
            system_arch=_system_arch(settings.system_nodes.instance_types[0]),
            system_nodes=settings.system_nodes.count,
            tags=plan.tags,
        ),
        pulumi.ResourceOptions(providers=[plan.aws_provider]),
    )


def gpu_nodes(plan: Plan, into: GpuCluster) -> SpotGpuNodeGroup:
    """The GPU nodes, in one zone where a model's volume holds them there."""
    pool = plan.pool
    subnets = into.node_subnet_ids.apply(lambda ids: ids[:1]) if plan.in_one_zone else into.node_subnet_ids
    return SpotGpuNodeGroup(
        f"{PROJECT}-{pool.name}",
        SpotGpuNodeGroupArgs(
            cluster_name=into.cluster_name,
            subnet_ids=subnets,
            sharing=pool.sharing,
            instance_types=pool.instance_types,
            capacity=pool.capacity,
            kubernetes=plan.config.cluster.kubernetes,
            pool=pool.name,
            min=pool.min,
            desired=pool.desired,
            max=pool.max,
            volume_gib=pool.volume_gib,
            tags=plan.tags,
        ),
        # Not the Kubernetes provider: role and launch template would wait for the control plane with it.
        pulumi.ResourceOptions(providers=[plan.aws_provider]),
    )


def device_plugin(plan: Plan, into: GpuCluster) -> DevicePluginSharing:
    """The device plugin; its feature discovery has parts that run on system nodes."""
    return DevicePluginSharing(
        f"{PROJECT}-sharing",
        DevicePluginSharingArgs(sharing=plan.pool.sharing, gpu=plan.pool.smallest.gpu, gone_with=into.control_plane),
        _inside(plan, into, into.system_nodes),
    )


def ollama_pair(plan: Plan, into: GpuCluster, on: SpotGpuNodeGroup) -> OllamaPair:
    """The models. They wait for the nodes, which costs no time and makes them go first on destroy, while the node
    that holds their volume lives; and for the storage driver where they keep files on volumes.

    Not for the device plugin, since pods are pending until the node offers shares; not for DNS, since a model is
    pulled again until that works.
    """
    needs: list[pulumi.Resource] = [on, into.storage_driver] if plan.in_one_zone else [on]
    return OllamaPair(
        f"{PROJECT}-ollama",
        OllamaPairArgs(
            models=[
                OllamaModel(served=tenant.served, cache=tenant.cache, volume_gib=tenant.volume_gib)
                for tenant in plan.tenants
            ],
            sharing=plan.pool.sharing,
            pool=plan.pool.name,
            running=plan.pool.desired > 0,
            zone=into.zone_names.apply(lambda names: names[0]) if plan.in_one_zone else None,
            tags=plan.tags,
        ),
        _inside(plan, into, *needs),
    )


def export(plan: Plan, made: GpuCluster, sharing: DevicePluginSharing, pair: OllamaPair) -> None:
    """The stack's outputs."""
    shares = plan.pool.sharing.shares(plan.pool.smallest.gpu)
    outputs: dict[str, Any] = {
        "mode": plan.pool.sharing.mode,
        "resource_name": sharing.resource_name,
        "shares": {
            "total": plan.pool.total_shares,
            "per_gpu": shares.per_gpu,
            "memory_mib": shares.memory_mib,
            "enforced": shares.enforced,
        },
        "endpoints": pair.urls,
        "cluster_name": made.cluster_name,
        "kubeconfig": made.kubeconfig,
        "cost": _cost(plan),
        "fit": {
            fit.tenant.served.id: _fit(fit.verdict.need.total, fit.verdict.share_mib) for fit in plan.assessment.fits
        },
    }
    for key, value in outputs.items():
        pulumi.export(key, value)


def _cost(plan: Plan) -> dict[str, Any]:
    bill = plan.assessment.cost
    assert bill is not None, "an accepted setup has a bill"
    return {
        "usd_per_hour": round(bill.usd_per_hour, 4),
        "dedicated_usd_per_hour": round(bill.dedicated_usd_per_hour, 4),
        "price_date": bill.price_date,
    }


def _fit(needs_mib: float, share_mib: int | None) -> dict[str, Any]:
    return {"needs_mib": round(needs_mib), "share_mib": share_mib}


def _system_arch(instance_type: str) -> str:
    rows = tables.read("system_instances").rows
    return next(row["arch"] for row in rows if row["instance_type"] == instance_type)


def _inside(plan: Plan, made: GpuCluster, *needs: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(providers=[plan.aws_provider, made.kubernetes_provider], depends_on=[*needs])
