"""What every stack is made of: the blocks, set up from a config, and the outputs."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_random as random

from components import (
    DevicePluginSharing,
    DevicePluginSharingArgs,
    GpuCluster,
    GpuClusterArgs,
    KarpenterGpuPool,
    KarpenterGpuPoolArgs,
    ModelClients,
    OllamaPair,
    OllamaPairArgs,
    ShareProof,
    ShareProofArgs,
    SpotGpuNodeGroup,
    SpotGpuNodeGroupArgs,
)
from components.device_plugin import fingerprint as plugin_fingerprint
from components.device_plugin_sharing import PoolSharing
from components.karpenter_gpu_pool import KarpenterPool
from components.ollama_pair import OllamaModel
from components.share_promise import fingerprint, promises
from components.share_proof import DEVICE_PLUGIN, GPU_OPERATOR
from sharing import host
from sharing.assessment import Assessment, Fit, assess
from sharing.karpenter import controller_replicas
from sharing.names import PROJECT, cluster_name, stack_tags
from sharing.setup import Pool, Setup
from sharing.system import system_types
from sharing.zones import demands, pool_demand
from stacks.caller import find_caller
from stacks.clients import warn_of_clients
from stacks.config import RefusedError, StackConfig


@dataclass(frozen=True)
class Plan:
    """A config that the rules have accepted, with what they found."""

    config: StackConfig
    setup: Setup
    assessment: Assessment

    def in_one_zone(self, pool: Pool) -> bool:
        """Whether the pool is bound to a zone, by a volume that lives there."""
        return any(tenant.cache == "volume" for tenant in self.setup.tenants_of(pool))

    @cached_property
    def aws_provider(self) -> aws.Provider:
        """The one AWS provider; without it eks.Cluster would bring a second, older one of its own."""
        config = self.config
        roles = [
            aws.ProviderAssumeRoleArgs(role_arn=one.role_arn, session_name=one.session_name, duration=one.duration)
            for one in config.assume_roles
        ]
        return aws.Provider(
            PROJECT,
            region=config.region,
            profile=config.profile,
            assume_roles=roles or None,
            allowed_account_ids=config.allowed_account_ids or None,
            default_tags=aws.ProviderDefaultTagsArgs(tags=config.default_tags.tags)
            if config.default_tags.tags
            else None,
        )

    @cached_property
    def caller(self) -> str:
        """The IAM role or user that runs the program; empty under stock mocks."""
        return find_caller(pulumi.InvokeOptions(provider=self.aws_provider), self.config.region)

    @cached_property
    def mode_taints(self) -> dict[str, pulumi.Output[str]]:
        """Value of the taint `tandem/mode` of each pool's nodes, by the pool's name: another whenever the shares or
        the mode's settings become others, also when that is taken back. Models that still wait for what was would come
        again otherwise, and hold the shares that are to be proved.
        """
        return {pool.name: self._mode_taint(pool) for pool in self.setup.pools}

    def _mode_taint(self, pool: Pool) -> pulumi.Output[str]:
        mode = pool.sharing.config_name
        promise = (
            fingerprint(promises(pool.sharing, pool.smallest.gpu, pool.smallest.gpus)) if self.config.proof else ""
        )
        keepers = {"mode": mode, "promise": promise}
        if pool.sharing.needs_mps_daemon:
            # A release that changes restarts the MPS daemon, and models that live on have lost their GPU.
            keepers["plugin"] = plugin_fingerprint(pool.name, pool.sharing)
        once = random.RandomId(f"{PROJECT}-{pool.name}-mode", byte_length=4, keepers=keepers)
        return once.hex.apply(lambda digits: f"{mode}-{digits}")

    def zones(self, into: GpuCluster, pool: Pool) -> pulumi.Output[list[str]]:
        """The zones of a pool's nodes."""
        volume_zone = self.volume_zone(into, pool) if self.in_one_zone(pool) else None
        return into.zones_of_pool(pool.name, pool_demand(pool), volume_zone)

    def volume_zone(self, into: GpuCluster, pool: Pool) -> pulumi.Output[str]:
        """The zone of the models' volumes: one that sells the pool's types, chosen once and kept in the state, since
        a volume does not move.
        """
        if pool.name not in self._volume_zones:
            first = into.zones_of_pool(pool.name, pool_demand(pool)).apply(lambda zones: zones[0])
            once = random.RandomId(
                f"{PROJECT}-{pool.name}-zone",
                byte_length=1,
                keepers={"zone": first},
                opts=pulumi.ResourceOptions(ignore_changes=["keepers"]),
            )
            self._volume_zones[pool.name] = once.keepers.apply(lambda kept: str((kept or {})["zone"]))
        return self._volume_zones[pool.name]

    @cached_property
    def _volume_zones(self) -> dict[str, pulumi.Output[str]]:
        return {}

    @cached_property
    def tags(self) -> dict[str, str]:
        """The one tag set. Controllers tag what they make, so the provider's default tags are in it."""
        return stack_tags(pulumi.get_stack(), {**self.config.default_tags.tags, **self.config.tags})


def accept(config: StackConfig) -> Plan:
    """Asks the rules once more, before anything is registered; raises `RefusedError`, passes warnings on to Pulumi."""
    setup = config.setup(datetime.date.today())
    assessment = assess(setup)
    if assessment.problems:
        raise RefusedError(assessment.problems, f"Pulumi.{pulumi.get_stack()}.yaml")
    for warning in (*assessment.warnings, *warn_of_clients(config.models_clients)):
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
            zones=plan.setup.zones,
            zone_names=plan.setup.zone_names,
            demands=demands(plan.setup)[1:],
            cidr=settings.cidr,
            nat=settings.nat,
            public_access_cidrs=settings.public_access_cidrs,
            profile=plan.config.profile,
            role_arn=plan.config.assume_roles[-1].role_arn if plan.config.assume_roles else None,
            admins=[*settings.admins, *({plan.caller} - {"", *settings.admins})],
            logs=settings.logs,
            system_types=settings.system_nodes.instance_types,
            system_arch=system_types()[settings.system_nodes.instance_types[0]].arch,
            system_nodes=settings.system_nodes.count,
            tags=plan.tags,
        ),
        pulumi.ResourceOptions(providers=[plan.aws_provider]),
    )


def gpu_nodes(plan: Plan, into: GpuCluster) -> dict[str, pulumi.Resource]:
    """What brings the GPU nodes, by the pool's name: a group for each pool that is one, Karpenter for the others."""
    fixed = [pool for pool in plan.setup.pools if pool.provisioner == "node-group"]
    coming = [pool for pool in plan.setup.pools if pool.provisioner == "karpenter"]
    found: dict[str, pulumi.Resource] = {pool.name: _node_group(plan, into, pool) for pool in fixed}
    if coming:
        found |= dict.fromkeys((pool.name for pool in coming), _karpenter(plan, into, coming))
    return found


def _node_group(plan: Plan, into: GpuCluster, pool: Pool) -> SpotGpuNodeGroup:
    """The nodes of a pool: in the zones that sell its types, or in the one of the models' volumes."""
    zones = plan.zones(into, pool)
    return SpotGpuNodeGroup(
        f"{PROJECT}-{pool.name}",
        SpotGpuNodeGroupArgs(
            cluster_name=into.cluster_name,
            subnet_ids=into.subnets_in(zones),
            zones=zones,
            sharing=pool.sharing,
            mode_taint=plan.mode_taints[pool.name],
            instance_types=pool.instance_types,
            capacity=pool.capacity,
            kubernetes=plan.config.cluster.kubernetes,
            pool=pool.name,
            min=pool.min,
            desired=pool.desired,
            max=pool.max,
            volume_gib=pool.volume_gib,
            replacement=pool.replacement,
            tags=plan.tags,
        ),
        # Not the Kubernetes provider: role and launch template would wait for the control plane with it.
        pulumi.ResourceOptions(providers=[plan.aws_provider]),
    )


def _karpenter(plan: Plan, into: GpuCluster, pools: Sequence[Pool]) -> KarpenterGpuPool:
    """The GPU nodes that come when models wait, and the one controller that brings them."""
    return KarpenterGpuPool(
        f"{PROJECT}-karpenter",
        KarpenterGpuPoolArgs(
            cluster_name=into.cluster_name,
            # All zones: Karpenter knows which of them sell what. The zones of each pool are asked for the error alone.
            node_subnet_ids=pulumi.Output.all(into.node_subnet_ids, *(plan.zones(into, pool) for pool in pools)).apply(
                lambda known: list(known[0])
            ),
            security_group_id=into.security_group_id,
            pools=[
                KarpenterPool(
                    name=pool.name,
                    sharing=pool.sharing,
                    mode_taint=plan.mode_taints[pool.name],
                    instance_types=pool.instance_types,
                    capacity=pool.capacity,
                    on_demand_fallback=pool.on_demand_fallback,
                    max_nodes=pool.max,
                    volume_gib=pool.volume_gib,
                    zone=plan.volume_zone(into, pool) if plan.in_one_zone(pool) else None,
                )
                for pool in pools
            ],
            controller_replicas=controller_replicas(plan.setup.system_nodes),
            controller_needs=[into.system_nodes, into.pod_identity_agent, into.dns, into.storage_driver],
            tags=plan.tags,
        ),
        _inside(plan, into),
    )


def device_plugin(plan: Plan, into: GpuCluster, nodes: Mapping[str, pulumi.Resource]) -> DevicePluginSharing:
    """The device plugin of every pool. Feature discovery, and the GPU Operator, have parts that run on system nodes."""
    pools = [
        PoolSharing(
            sharing=pool.sharing,
            gpu=pool.smallest.gpu,
            pool=pool.name,
            mode_taint=plan.mode_taints[pool.name],
            nodes=nodes[pool.name],
        )
        for pool in plan.setup.pools
    ]
    return DevicePluginSharing(
        f"{PROJECT}-sharing",
        DevicePluginSharingArgs(pools=pools),
        _inside(plan, into, into.system_nodes),
    )


def share_proofs(plan: Plan, into: GpuCluster, needs: Sequence[pulumi.Resource]) -> dict[str, ShareProof]:
    """A proof for each pool, by the pool's name; what is not proved, and why, is told."""
    proofs = {}
    for pool in plan.setup.pools if plan.config.proof else ():
        if unproved := plan.setup.unproved(pool):
            pulumi.log.info(f"The shares of pool {pool.name} are not proved: {unproved}.")
            continue
        proofs[pool.name] = ShareProof(
            f"{PROJECT}-{pool.name}-proof",
            ShareProofArgs(
                sharing=pool.sharing,
                gpu=pool.smallest.gpu,
                gpus_per_node=pool.smallest.gpus,
                # Of a pool that may bring nodes of several sizes, the smallest: that is what shares are counted by.
                instance_types=[known.name for known in pool.known_types if known.gpus == pool.smallest.gpus],
                pool=pool.name,
                mode_taint=plan.mode_taints[pool.name],
                namespace=f"share-proof-{pool.name}",
                plugin=GPU_OPERATOR if pool.sharing.needs_mig_manager else DEVICE_PLUGIN,
            ),
            _inside(plan, into, *needs),
        )
    return proofs


def ollama_pair(plan: Plan, into: GpuCluster, on: Sequence[pulumi.Resource]) -> OllamaPair:
    """The models. They wait for the nodes, which costs no time and makes them go first on destroy, while the node
    that holds their volume lives; for the proofs of their shares, which they would hold otherwise; and for the storage
    driver where they keep files on volumes.

    And for the device plugin: on a switch of mode the node advertises the old shares until its plugin has changed. Not
    for DNS, since a model is pulled again until that works.
    """
    volumes = any(plan.in_one_zone(pool) for pool in plan.setup.pools)
    needs = [*on, into.storage_driver] if volumes else on
    return OllamaPair(
        f"{PROJECT}-ollama",
        OllamaPairArgs(
            models=[_model(fit, plan, into) for fit in plan.assessment.fits],
            clients=ModelClients(
                namespaces=plan.config.models_clients.namespaces, labels=plan.config.models_clients.labels
            ),
            tags=plan.tags,
        ),
        _inside(plan, into, *needs),
    )


def _model(fit: Fit, plan: Plan, into: GpuCluster) -> OllamaModel:
    tenant = fit.tenant
    return OllamaModel(
        served=tenant.served,
        cache=tenant.cache,
        volume_gib=tenant.volume_gib,
        pool=fit.pool.name,
        ready_labels=fit.pool.sharing.ready_labels,
        mode_taint=plan.mode_taints[fit.pool.name],
        resource_name=fit.verdict.shares.resource,
        page_cache_mib=host.page_cache_mib(plan.setup, fit.pool),
        running=fit.pool.desired > 0,
        zone=plan.volume_zone(into, fit.pool) if tenant.cache == "volume" else None,
    )


def export(
    plan: Plan, made: GpuCluster, sharing: DevicePluginSharing, proofs: Mapping[str, ShareProof], pair: OllamaPair
) -> None:
    """The stack's outputs. What differs from pool to pool stands under `pools`, and of the only one also on top."""
    outputs: dict[str, Any] = {
        **(_only_pool(plan.setup.pools[0], sharing) if len(plan.setup.pools) == 1 else {}),
        "pools": {pool.name: _pool(pool) for pool in plan.setup.pools},
        "verified_shares": {name: proof.verified_shares for name, proof in proofs.items()},
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


def _only_pool(pool: Pool, sharing: DevicePluginSharing) -> dict[str, Any]:
    return {"mode": pool.sharing.mode, "resource_names": sharing.resource_names, "shares": _shares(pool)}


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "mode": pool.sharing.mode,
        "config": pool.sharing.config_name,
        "cut": pool.sharing.cut(pool.smallest.gpu),
        "gpu": pool.smallest.gpu.name,
        "instance_types": list(pool.instance_types),
        "capacity": pool.capacity,
        "provisioner": pool.provisioner,
        "shares": _shares(pool),
        "nodes": pool.desired,
    }


def _shares(pool: Pool) -> list[dict[str, Any]]:
    return [
        {
            "resource": shares.resource,
            "total": pool.planned_gpus * shares.per_gpu,
            "per_gpu": shares.per_gpu,
            "memory_mib": shares.memory_mib,
            "enforced": shares.enforced,
        }
        for shares in pool.offers
    ]


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


def _inside(plan: Plan, made: GpuCluster, *needs: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(providers=[plan.aws_provider, made.kubernetes_provider], depends_on=[*needs])
