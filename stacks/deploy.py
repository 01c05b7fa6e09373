"""Deploys a plan: cluster, nodes, sharing, share check and models, the same for every sharing mode."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_aws as aws
import pulumi_random as random

from components import (
    DevicePluginSharing,
    DevicePluginSharingArgs,
    ExistingCluster,
    ExistingClusterArgs,
    ExistingVpc,
    GpuCluster,
    GpuClusterArgs,
    OllamaPair,
    OllamaPairArgs,
    ShareProof,
    ShareProofArgs,
    SpotGpuNodeGroup,
    SpotGpuNodeGroupArgs,
)
from components.device_plugin_sharing import PoolSharing
from components.device_plugin_sharing.plugin_chart import fingerprint as plugin_fingerprint
from components.ollama_pair.placement import JudgedPools
from components.share_proof import DEVICE_PLUGIN, GPU_OPERATOR
from components.share_proof.expectation import expectations, fingerprint
from sharing.fit.karpenter import count_controllers
from sharing.fit.shares import limits_on_one_gpu
from sharing.hardware.system_instances import system_types
from sharing.names import PROJECT, cluster_name, filled, stack_tags
from sharing.sections.cluster import ClusterSettings
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.sections.zones import pool_demand
from stacks.asleep_pools import find_parking
from stacks.base import Base, Serving
from stacks.caller import find_caller
from stacks.clients import find_clients, find_scrapers
from stacks.existing_cluster import DISCOVERY_VALUES, look_into_cluster
from stacks.existing_vpc import check_vpc
from stacks.features import deploy_features
from stacks.features.scale_to_zero import add_scaling, deploy_keda, find_endpoints
from stacks.models import describe_model
from stacks.outputs import describe
from stacks.stack_file.judge import Plan
from stacks.volume_zones import choose_volume_zone

# Optional parts of a stack are imported where it uses them, here and in `stacks.features`.
if TYPE_CHECKING:
    from components import KarpenterGpuPool, ScaleToZero

ASLEEP = "it is parked; the first `pulumi up` after the wake checks them"


def deploy(plan: Plan) -> None:
    """Registers the entire stack and exports its outputs."""
    for warning in plan.verdict.warnings:
        pulumi.log.warn(str(warning))
    base = create_base(plan)
    nodes = create_gpu_nodes(base)
    sharing = share_gpus(base, nodes)
    proofs = prove_shares(base, [sharing])
    zero = deploy_keda(plan, base.inside(*base.parts("system_nodes")))
    models = serve_models(base, zero, [sharing, *proofs.values()])
    outputs = deploy_features(Serving(base=base, nodes=nodes, models=models))
    export(base, sharing, proofs, find_endpoints(models, zero), outputs)


def create_base(plan: Plan) -> Base:
    """The provider, the cluster, and the values of pools that are kept in the state.

    Reads a cluster and a network that exist from AWS first, and which pools are asleep; refuses those that do not suit.
    """
    # Controllers tag their resources, so the stack's tags include the default tags of the provider.
    tags = stack_tags(plan.stack, plan.config.merged_tags())
    provider = create_provider(plan.config)
    there = look_into_cluster(plan, provider)
    check_vpc(plan, pulumi.InvokeOptions(provider=provider))
    parking = find_parking(plan, provider)
    cluster = find_cluster(plan, provider) or create_cluster(plan, provider, tags)
    # Models that run while their shares are checked would hold them.
    is_proved = plan.config.proof and not plan.config.scale_to_zero.enabled
    with_volumes = [
        pool for pool in plan.config.pools if any(served.cache == "volume" for served in plan.config.models_of(pool))
    ]
    return Base(
        plan=plan,
        provider=provider,
        cluster=cluster,
        discovery=there is None or not there.has_discovery,
        untainted_zones=there.installed.untainted_zones if there else (),
        tags=tags,
        mode_taints={
            pool.name: choose_mode_taint(
                pool, proof=is_proved and pool.name not in parking.asleep, registry=plan.config.registry
            )
            for pool in plan.config.pools
        },
        volume_zones={pool.name: choose_volume_zone(cluster, pool) for pool in with_volumes},
        parking=parking,
    )


def create_provider(config: StackConfig) -> aws.Provider:
    """The only AWS provider; without it, eks.Cluster would create a second, older one."""
    roles = [
        aws.ProviderAssumeRoleArgs(role_arn=one.role_arn, session_name=one.session_name, duration=one.duration)
        for one in config.assume_roles
    ]
    # Every resource that allows empty values has them among its own tags.
    tags = filled(config.default_tags.tags)
    return aws.Provider(
        PROJECT,
        region=config.region,
        profile=config.profile,
        assume_roles=roles or None,
        allowed_account_ids=config.allowed_account_ids or None,
        default_tags=aws.ProviderDefaultTagsArgs(tags=tags) if tags else None,
    )


def choose_mode_taint(pool: GpuPool, *, proof: bool, registry: str | None) -> pulumi.Output[str]:
    """A value for the taint that changes with the shares and the mode's settings, even when a change is reverted.

    Otherwise, models that still wait for the old shares would start and occupy the shares that must be checked. So it
    also changes for a pool that has just been woken, whose shares were not checked while it was asleep.
    """
    mode = pool.sharing.config_name
    expected = fingerprint(expectations(pool.sharing, pool.smallest.gpu, pool.smallest.gpus)) if proof else ""
    keepers = {"mode": mode, "promise": expected}
    if pool.sharing.needs_mps_daemon:
        # A changed release restarts the MPS daemon, and models that keep running lose their GPU.
        keepers["plugin"] = plugin_fingerprint(pool.name, pool.sharing, registry)
    once = random.RandomId(f"{PROJECT}-{pool.name}-mode", byte_length=4, keepers=keepers)
    return once.hex.apply(lambda digits: f"{mode}-{digits}")


def find_cluster(plan: Plan, provider: aws.Provider) -> ExistingCluster | None:
    """The cluster that already exists; None if the stack creates one."""
    config, existing = plan.config, plan.config.cluster.existing
    if existing is None:
        return None
    return ExistingCluster(
        PROJECT,
        ExistingClusterArgs(
            cluster_name=existing.name,
            node_subnet_ids=existing.node_subnets,
            demands=[*map(pool_demand, config.pools)],
            profile=config.profile,
            role_arn=find_role(config),
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )


def find_role(config: StackConfig) -> str | None:
    """The role that the provider assumes, if there is one."""
    return config.assume_roles[0].role_arn if config.assume_roles else None


def create_cluster(plan: Plan, provider: aws.Provider, tags: Mapping[str, str]) -> GpuCluster:
    """The cluster in the configured region, with the caller as its administrator."""
    settings = plan.config.cluster
    caller = find_caller(pulumi.InvokeOptions(provider=provider), plan.config.region)
    return GpuCluster(
        PROJECT,
        GpuClusterArgs(
            cluster_name=cluster_name(plan.stack),
            kubernetes=settings.kubernetes,
            support=settings.support,
            zones=settings.zone_count,
            zone_names=settings.zone_names,
            demands=[*map(pool_demand, plan.config.pools)],
            cidr=settings.cidr,
            nat=settings.nat,
            vpc=find_vpc(settings),
            public_access_cidrs=settings.public_access_cidrs,
            profile=plan.config.profile,
            role_arn=find_role(plan.config),
            admins=[*settings.admins, *({caller} - {"", *settings.admins})],
            logs=settings.logs,
            system_types=settings.system_nodes.instance_types,
            system_arch=system_types()[settings.system_nodes.instance_types[0]].arch,
            system_nodes=settings.system_nodes.count,
            system_zones=plan.config.system_zones,
            tags=tags,
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )


def find_vpc(settings: ClusterSettings) -> ExistingVpc | None:
    """The VPC of the stack file, if there is one."""
    if (vpc := settings.vpc) is None:
        return None
    return ExistingVpc(
        id=vpc.id,
        subnet_ids=vpc.subnets,
        node_subnet_ids=vpc.node_subnets,
        security_group_ids=vpc.security_groups,
    )


def create_gpu_nodes(base: Base) -> dict[str, pulumi.Resource]:
    """The provisioner of the GPU nodes, by pool: a node group, or Karpenter."""
    fixed = [pool for pool in base.plan.config.pools if pool.provisioner == "node-group"]
    found: dict[str, pulumi.Resource] = {pool.name: _node_group(base, pool) for pool in fixed}
    if coming := base.plan.config.karpenter_pools:
        found |= dict.fromkeys((pool.name for pool in coming), _karpenter(base, coming))
    return found


def _node_group(base: Base, pool: GpuPool) -> SpotGpuNodeGroup:
    """The nodes of a pool, in the zones that offer its types, or in the zone of the models' volumes."""
    zones = base.zones(pool)
    return SpotGpuNodeGroup(
        f"{PROJECT}-{pool.name}",
        SpotGpuNodeGroupArgs(
            cluster_name=base.cluster.cluster_name,
            subnet_ids=base.cluster.subnets_in(zones),
            security_group_ids=[base.cluster.security_group_id, *more] if (more := base.security_groups) else (),
            zones=zones,
            sharing=pool.sharing,
            mode_taint=base.mode_taints[pool.name],
            instance_types=pool.instance_types,
            capacity=pool.capacity,
            kubernetes=base.plan.config.cluster.kubernetes,
            pool=pool.name,
            min=pool.min,
            desired=0 if pool.name in base.parking.asleep else pool.desired,
            max=pool.max,
            volume_gib=pool.volume_gib,
            # Sizes in the state are old: the schedules have changed them since.
            autoscaled=base.parking.unchanged,
            replacement=pool.replacement,
            tags=base.tags,
        ),
        # Not the Kubernetes provider: role and launch template would wait for the control plane with it.
        pulumi.ResourceOptions(providers=[base.provider]),
    )


def _karpenter(base: Base, pools: Sequence[GpuPool]) -> "KarpenterGpuPool":
    """Karpenter's GPU nodes, which start when models wait, and its controller."""
    from components import KarpenterGpuPool, KarpenterGpuPoolArgs, KarpenterPool

    return KarpenterGpuPool(
        f"{PROJECT}-karpenter",
        KarpenterGpuPoolArgs(
            cluster_name=base.cluster.cluster_name,
            # All zones, because Karpenter knows their offers. Zones of each pool are looked up only to report errors.
            node_subnet_ids=pulumi.Output.all(
                base.cluster.node_subnet_ids, *(base.zones(pool) for pool in pools)
            ).apply(lambda known: list(known[0])),
            security_group_id=base.cluster.security_group_id,
            more_security_group_ids=base.security_groups,
            pools=[
                KarpenterPool(
                    name=pool.name,
                    sharing=pool.sharing,
                    mode_taint=base.mode_taints[pool.name],
                    instance_types=pool.instance_types,
                    capacity=pool.capacity,
                    on_demand_fallback=pool.on_demand_fallback,
                    max_nodes=pool.max,
                    volume_gib=pool.volume_gib,
                    zone=base.volume_zones.get(pool.name),
                )
                for pool in pools
            ],
            controller_replicas=count_controllers(base.plan.config.cluster.system_nodes.count),
            controller_depends_on=[*base.parts("system_nodes", "pod_identity_agent", "dns", "storage_driver")],
            tags=base.tags,
        ),
        base.inside(),
    )


def share_gpus(base: Base, nodes: Mapping[str, pulumi.Resource]) -> DevicePluginSharing:
    """The device plugin of every pool. Feature discovery, and the GPU Operator, have parts that run on system nodes."""
    pools = [
        PoolSharing(
            sharing=pool.sharing,
            gpu=pool.smallest.gpu,
            pool=pool.name,
            mode_taint=base.mode_taints[pool.name],
            nodes=nodes[pool.name],
        )
        for pool in base.plan.config.pools
    ]
    return DevicePluginSharing(
        f"{PROJECT}-sharing",
        DevicePluginSharingArgs(
            pools=pools,
            discovery=base.discovery,
            values=DISCOVERY_VALUES if base.plan.config.cluster.existing else {},
        ),
        base.inside(*base.parts("system_nodes")),
    )


def prove_shares(base: Base, needs: Sequence[pulumi.Resource]) -> dict[str, ShareProof]:
    """A share check for each pool, by the pool's name; logs the reason for each pool without one."""
    proofs = {}
    for pool in base.plan.config.pools if base.plan.config.proof else ():
        unproved = ASLEEP if pool.name in base.parking.asleep else base.plan.config.unproved(pool)
        if unproved:
            pulumi.log.info(f"The shares of pool {pool.name} are not checked: {unproved}.")
            continue
        proofs[pool.name] = ShareProof(
            f"{PROJECT}-{pool.name}-proof",
            ShareProofArgs(
                sharing=pool.sharing,
                gpu=pool.smallest.gpu,
                gpus_per_node=pool.smallest.gpus,
                # For a pool with nodes of several sizes, the smallest one: shares are counted by it.
                instance_types=[known.name for known in pool.known_types if known.gpus == pool.smallest.gpus],
                pool=pool.name,
                mode_taint=base.mode_taints[pool.name],
                namespace=f"share-proof-{pool.name}",
                limits_mib=limits_on_one_gpu(base.plan.config, pool),
                plugin=GPU_OPERATOR if pool.sharing.needs_mig_manager else DEVICE_PLUGIN,
            ),
            base.inside(*needs),
        )
    return proofs


def serve_models(base: Base, zero: "ScaleToZero | None", on: Sequence[pulumi.Resource]) -> OllamaPair:
    """The models. They depend on:

    - the nodes, so that `destroy` deletes the models first, while the node with their volume exists;
    - the share checks, because models would occupy the shares to be checked;
    - the storage driver, if they keep files on volumes;
    - the device plugin, because a node advertises the old shares until its plugin has changed;
    - KEDA, by the address of its scaler, if they scale to zero.

    They do not depend on DNS, because a failed pull is retried.
    """
    needs = [*on, *base.parts("storage_driver")] if base.volume_zones else on
    return OllamaPair(
        f"{PROJECT}-ollama",
        OllamaPairArgs(
            models=[
                add_scaling(
                    describe_model(fit, base.plan, base.volume_zones, base.parking.asleep),
                    base.plan,
                    zero,
                )
                for fit in base.plan.verdict.fits
            ],
            runs_on=JudgedPools(
                config=base.plan.config,
                fits=base.plan.verdict.fits,
                mode_taints=base.mode_taints,
                asleep=base.parking.asleep,
            ),
            clients=find_clients(base.plan),
            scrapers=find_scrapers(base.plan),
            tags=base.tags,
        ),
        base.inside(*needs),
    )


def export(
    base: Base,
    sharing: DevicePluginSharing,
    proofs: Mapping[str, ShareProof],
    endpoints: pulumi.Output[dict[str, str]],
    of_features: Mapping[str, Any],
) -> None:
    """Exports the fields of `stacks.outputs.StackOutputs`."""
    reported = {
        **describe(base.plan),
        "verified_shares": {name: proof.verified_shares for name, proof in proofs.items()},
        "endpoints": endpoints,
        "cluster_name": base.cluster.cluster_name,
        "kubeconfig": base.cluster.kubeconfig,
        **of_features,
    }
    if len(base.plan.config.pools) == 1:
        reported["resource_names"] = sharing.resource_names
    for name, value in reported.items():
        pulumi.export(name, value)
