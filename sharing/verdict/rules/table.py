"""Which hardware, versions and settings work together: one table of rules, each with a reason and a fix."""

import datetime
from collections.abc import Iterator
from dataclasses import replace

from sharing import versions
from sharing.cost.bill import in_extended_support
from sharing.hardware import offerings
from sharing.hardware.gpus import instance_types
from sharing.hardware.prices import Market
from sharing.hardware.system_instances import system_types
from sharing.models.catalogue import KvType
from sharing.models.served import judge_context
from sharing.modes.base import DEFAULT_REPLICAS, PER_MODEL
from sharing.modes.modes import MPS_MOST_REPLICAS, Mps
from sharing.printable import counted
from sharing.problems import ASIDE, LIMIT, OBJECT, Problem, did_you_mean
from sharing.sections import zones
from sharing.sections.changes import written
from sharing.sections.cluster import support_ends
from sharing.sections.config import StackConfig
from sharing.sections.pools import NODE_IMAGES_GIB, GpuPool
from sharing.verdict.features import FEATURES
from sharing.verdict.rules import hosts, karpenter, mig, registry, spill
from sharing.verdict.rules.offers import not_offered, region_left_to_aws, unknown_offers, unknown_region
from sharing.verdict.rules.rule import Rule

NEAR_END = datetime.timedelta(days=90)
"""How long before the end of standard support a warning begins: time for one upgrade."""
AMI_OF_NEW_GPUS = "in EKS AMIs since 20260917"
"""They hold two drivers and pick one by instance type. Source: awslabs/amazon-eks-ami#2768, 2026-09-21."""
NOT_LOADED = {"mllama": "Choose another vision model, e.g. gemma3:12b."}
"""Architectures of the catalogue that the pinned engine cannot load, and the fix.

Source: ollama v0.32.15 `integration/reg_release_test.go`: "re-enable when llama.cpp supports mllama".
"""


def problems(config: StackConfig) -> list[Problem]:
    """The errors of `config`, in the order of the table."""
    return [*dict.fromkeys(refusals(config))]


def refusals(config: StackConfig) -> Iterator[Problem]:
    """The same errors, one at a time, for callers that stop early. Pools with the same sharing may repeat an error."""
    return _broken(config, refuses=True)


def warnings(config: StackConfig) -> list[Problem]:
    """The warnings about `config`."""
    return [*dict.fromkeys(_broken(config, refuses=False))]


def first_broken(config: StackConfig) -> Rule | None:
    """The first rule that refuses `config`: the one that `problems` begins with."""
    return next((rule for rule in RULES if rule.refuses and any(rule.check(config))), None)


def _broken(config: StackConfig, *, refuses: bool) -> Iterator[Problem]:
    for rule in RULES:
        if rule.refuses is refuses:
            yield from rule.check(config)


def _known_types(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for index, name in enumerate(pool.instance_types):
            path = f"{pool.path}.instance-types[{index}]"
            if name in system_types():
                yield Problem(path, name, "has no GPU", _example(pool, config))
            elif name not in instance_types():
                fix = did_you_mean(name, instance_types())
                yield Problem(path, f"'{name}'", "unknown GPU instance type", fix, OBJECT)


def _nvidia_only(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for path, kind in pool.placed_types:
            if kind.gpu.vendor != "nvidia":
                rule = f"must have an NVIDIA GPU; {kind.name} has {kind.gpu.vendor.upper()}'s {kind.gpu.title}"
                yield Problem(path, "", rule, _example(pool, config))


def _one_gpu_per_pool(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for path, kind in pool.placed_types:
            first = pool.known_types[0]
            if kind.gpu != first.gpu or kind.arch != first.arch:
                rule = f"must have the same GPU as {first.name} ({first.gpu.title})"
                fix = f"Keep types with {first.gpu.title} here."
                yield Problem(path, f"{kind.name} ({kind.gpu.title})", rule, fix, LIMIT)


def _gpu_supports_mode(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        is_spot = pool.capacity == "spot" and not pool.on_demand_fallback
        market = Market(region=config.region, is_spot=is_spot, book=config.book)
        nvidia = [kind for kind in pool.known_types if kind.gpu.vendor == "nvidia"]
        for gpu in dict.fromkeys(kind.gpu for kind in nvidia):
            most = max(kind.gpus for kind in nvidia if kind.gpu == gpu)
            yield from pool.sharing.check(gpu, pool.sharing_path, market, most)


def _share_has_limits(config: StackConfig) -> Iterator[Problem]:
    pools = {pool.name: pool for pool in config.pools}
    for served in config.models:
        pool = pools.get(served.pool)
        if served.share is not None and pool and not pool.sharing.needs_node_daemon:
            clients = min(max(pool.sharing.replicas or DEFAULT_REPLICAS, DEFAULT_REPLICAS), MPS_MOST_REPLICAS)
            settings = f"{pool.own_sharing_path}: {written(Mps(replicas=clients, limits=PER_MODEL))}"
            sharing = f"{pool.sharing_path} has `mode: {pool.sharing.mode}`"
            if pool.sharing.needs_mps:
                sharing = f"those of {pool.sharing_path} are equal"
                settings = f"{pool.sharing_path}.limits: {PER_MODEL}"
            fix = f"Write `{settings}`, or remove `share`."
            yield Problem(f"{served.path}.share", "", f"needs limits per model, and {sharing}", fix)


def _driver_supports_gpu(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for path, kind in pool.placed_types:
            gpu, driver = kind.gpu, versions.NVIDIA_DRIVER
            if gpu.min_driver > driver or 0 < gpu.max_driver < driver:
                older, newer = f"{gpu.max_driver} or older", f"{gpu.min_driver} or newer ({AMI_OF_NEW_GPUS})"
                bound = newer if gpu.min_driver > driver else older
                rule = f"needs NVIDIA driver {bound} for its {gpu.title}; the pinned AMI has {driver}"
                yield Problem(path, kind.name, rule, f"Use another GPU: {_others(pool, config)}.")


def _arm64_parts(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for path, kind in pool.placed_types:
            for part in versions.PARTS:
                if kind.arch not in part.architectures:
                    rule = f"{kind.name} is {kind.arch}, and {part.name} {part.version} has no {kind.arch} build"
                    fix = "Use g4dn.xlarge, which has the same GPU and is amd64."
                    yield Problem(path, "", rule, fix)


def _system_types(config: StackConfig) -> Iterator[Problem]:
    catalogue, path = system_types(), "cluster.system-nodes.instance-types"
    for index, name in enumerate(config.cluster.system_nodes.instance_types):
        if name in instance_types():
            fix = "Write t3.medium, for example; GPU types belong under `gpu-nodes`."
            yield Problem(f"{path}[{index}]", name, "has a GPU, which system nodes do not need", fix)
        elif name not in catalogue:
            yield Problem(
                f"{path}[{index}]", f"'{name}'", "unknown instance type", did_you_mean(name, catalogue), OBJECT
            )
    if len({catalogue[name].arch for name in config.cluster.system_nodes.instance_types if name in catalogue}) > 1:
        types = ", ".join(config.cluster.system_nodes.instance_types)
        yield Problem(path, types, "have different architectures", "Keep the amd64 or the arm64 types.")


def _kubernetes_version(config: StackConfig) -> Iterator[Problem]:
    path, version = "cluster.kubernetes", config.cluster.kubernetes
    ends, newest = support_ends(version), _newer_kubernetes(config)
    if ends and config.today >= ends[1]:
        yield Problem(path, version, f"is unsupported: EKS ended all support on {ends[1]}", newest)
    elif version not in versions.AMI_KUBERNETES:
        pinned = sorted(versions.AMI_KUBERNETES, key=_numbers)
        yield Problem(path, version, f"must be one of {', '.join(pinned)}", newest, LIMIT)
    elif config.cluster.existing:
        return  # Its owner has chosen how EKS supports it.
    elif ends and config.today >= ends[0] and config.cluster.support == "standard":
        rule = f"lacks standard support since {ends[0]}, so EKS would upgrade it automatically"
        yield Problem(path, version, rule, f"{newest} Or pay $0.60 per hour with `support: extended`.")


def _shares_for_all(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        tenants = config.models_of(pool)
        if not pool.offers or len(tenants) <= pool.total_shares:
            continue
        nodes = -(-len(tenants) // pool.shares_per_node)
        where = f" on {pool.name}" if pool.listed else ""
        counts = f"{len(tenants)} models{where} for {counted(pool.total_shares, 'share')}"
        most = f"`{pool.path}.max: {max(nodes, pool.max)}`"
        is_counted = pool.desired and pool.provisioner == "node-group" and not config.park
        fix = f"Write {f'`{pool.path}.desired: {nodes}` with ' if is_counted else ''}{most}"
        if more := mig.more_shares(pool, len(tenants), config.compared_modes):
            fix += f"; or {more}"
        yield Problem("models", counts, "every model needs a share", f"{fix}.", ASIDE)


def _engine_loads_models(config: StackConfig) -> Iterator[Problem]:
    for served in config.models:
        model = served.model
        if model.architecture in NOT_LOADED:
            rule = f"has the architecture `{model.architecture}`, which the pinned Ollama cannot load"
            yield Problem(f"{served.path}.name", model.name, rule, NOT_LOADED[model.architecture])


def _engine_quantizes_cache(config: StackConfig) -> Iterator[Problem]:
    for served in config.models:
        model, kind = served.model, served.kv_type
        if kind is not KvType.F16 and not model.can_quantize_kv:
            rule = f"is not possible: Ollama cannot quantize the KV cache for the attention heads of {model.name}"
            grouped = replace(model, heads=32 * model.kv_heads)
            more = ", or add `heads`" if not model.heads and grouped.can_quantize_kv else ""
            yield Problem(f"{served.path}.kv-type", kind.value, rule, f"Write `kv-type: f16`{more}.")


def _disk_holds_models(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        wanted = config.disk_gib(pool)
        if pool.volume_gib < wanted:
            rule = f"is too small: images ({NODE_IMAGES_GIB} GiB) and model files need {wanted} GiB"
            yield Problem(
                f"{pool.path}.volume-gib", str(pool.volume_gib), rule, f"Write `volume-gib: {wanted}` or more."
            )


def _kubernetes_near_end(config: StackConfig) -> Iterator[Problem]:
    ends = support_ends(config.cluster.kubernetes)
    if ends and config.today < ends[0] <= config.today + NEAR_END and not config.cluster.existing:
        rule = f"has standard support only until {ends[0]}"
        yield Problem("cluster.kubernetes", config.cluster.kubernetes, rule, _newer_kubernetes(config))


def _newer_kubernetes(config: StackConfig) -> str:
    newest = max(versions.AMI_KUBERNETES, key=_numbers)
    if newest == config.cluster.kubernetes:
        return "Install a newer release of tandem: this one has no newer version."
    return f'Write `kubernetes: "{newest}"`.'


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _extended_price(config: StackConfig) -> Iterator[Problem]:
    if config.cluster.support == "extended" and in_extended_support(config.cluster.kubernetes, config.today):
        rule = "makes the control plane six times as expensive"
        yield Problem("cluster.support", "extended", rule, "Upgrade Kubernetes and remove `support: extended`.")


def _unused_settings(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for key, value in pool.sharing.without_effect().items():
            rule = f"has no effect with `mode: {pool.sharing.mode}`"
            fix = "Remove it, or keep it for a later switch to a mode that uses it."
            shown = f"{len(value)} entries" if isinstance(value, list) else str(value)
            yield Problem(f"{pool.sharing_path}.{key}", shown, rule, fix)


def _mps_unverified(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        if isinstance(pool.sharing, Mps):
            rule = "is not officially supported by Ollama (ollama#9765)"
            path = f"{pool.sharing_path}.mode"
            yield Problem(path, "mps", rule, "Check the pod logs after `up`, or use `timeslice`.")


def _part_of_gpu(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        for path, kind in pool.placed_types:
            if kind.gpu.is_slice and any(shares.sharers > 1 for shares in pool.offers):
                rule = f"has only part of a GPU, on which {pool.sharing.mode} is unverified"
                fix = "Use `mode: exclusive`, or g6.xlarge for an entire L4."
                yield Problem(path, kind.name, rule, fix)


def _ollama_limits(config: StackConfig) -> Iterator[Problem]:
    for served in config.models:
        yield from judge_context(served, served.path)
        if served.effective_context > served.context:
            rule = f"is less than the {served.effective_context:,} tokens that Ollama gives a vision model"
            fix = f"Write `context: {served.effective_context}`."
            yield Problem(f"{served.path}.context", str(served.context), rule, fix)
        if served.effective_slots < served.slots:
            kind = "the embedding model " if served.model.encoder else ""
            rule = f"has no effect: Ollama serves {kind}{served.model.name} one request at a time"
            yield Problem(f"{served.path}.slots", str(served.slots), rule, "Write `slots: 1`.")


def _parked(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        if pool.desired == 0:
            rule = "parks the pool: no GPU cost, no models available"
            yield Problem(f"{pool.path}.desired", "0", rule, "To resume, write `desired: 1` and run `pulumi up`.")


def _unused_pool(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        if not config.residents_of(pool):
            fix = "Name it in `models[].pool`, or remove it."
            yield Problem(pool.path, "", f"no model runs on the pool {pool.name}", fix)


def _volume_binds_zone(config: StackConfig) -> Iterator[Problem]:
    for pool in config.pools:
        tenants = [served for served in config.models_of(pool) if served.cache == "volume"]
        if tenants:
            rule = f"limits the pool {pool.name} to one zone, which is that of the volume"
            yield Problem(f"{tenants[0].path}.cache", "volume", rule, "Write `cache: node` to allow any zone.")


def _nat_traffic(config: StackConfig) -> Iterator[Problem]:
    if config.cluster.nat_gateways and "nat" not in config.cluster.model_fields_set:
        rule = "downloads of images and model files through the NAT gateway are billed per GB"
        fix = "Write `nat: none` for nodes with public addresses, or `nat: single` to accept it."
        yield Problem("cluster.nat", "", rule, fix)


def _open_endpoint(config: StackConfig) -> Iterator[Problem]:
    path = "cluster.public-access-cidrs"
    if config.cluster.existing:
        return
    if "public_access_cidrs" not in config.cluster.model_fields_set:
        rule = "is missing, so the Kubernetes API is reachable from the internet; IAM still applies"
        yield Problem(path, "", rule, 'Write your own address, e.g. ["203.0.113.7/32"], or ["0.0.0.0/0"] to accept it.')
    elif not config.cluster.public_access_cidrs:
        rule = "limits the Kubernetes API to the VPC, and `pulumi up` must reach it"
        fix = (
            "Run `pulumi up` through a bastion, a VPN or CI inside the VPC, or write your address, e.g. 203.0.113.7/32."
        )
        yield Problem(path, "[]", rule, fix)


def _example(pool: GpuPool, config: StackConfig) -> str:
    """The cheapest type that supports the mode of `pool`."""
    return f"Write {offerings.examples(_candidates(pool), config.region, config.book, most=1)}, for example."


def _others(pool: GpuPool, config: StackConfig) -> str:
    """Types whose GPU every pinned driver supports."""
    newer = (name for name in _candidates(pool) if name != "g4dn.xlarge")
    return offerings.examples(newer, config.region, config.book) or "other regions offer some"


def _candidates(pool: GpuPool) -> tuple[str, ...]:
    """Types to start with, the cheapest first."""
    if pool.sharing.needs_mig_manager:
        return "g7e.2xlarge", "p5.4xlarge", "p4d.24xlarge"
    return "g4dn.xlarge", "g6.xlarge", "g6e.xlarge", "g5.xlarge"


RULES: tuple[Rule, ...] = (
    Rule("GPU types are known", True, _known_types),
    Rule("GPUs are NVIDIA's", True, _nvidia_only),
    Rule("the region is known", True, unknown_region),
    Rule("the region of the registry is known", True, registry.unknown_region),
    Rule("the region offers the types", True, not_offered),
    Rule("a pool has one kind of GPU", True, _one_gpu_per_pool),
    Rule("the GPU supports the mode", True, _gpu_supports_mode),
    Rule("a share has limits of its own", True, _share_has_limits),
    Rule("the driver supports the GPU", True, _driver_supports_gpu),
    Rule("the driver can partition the GPU", True, mig.driver_partitions),
    Rule("every part has a build for the architecture", True, _arm64_parts),
    Rule("system types are known", True, _system_types),
    Rule("the Kubernetes version is supported", True, _kubernetes_version),
    Rule("every model has a share", True, _shares_for_all),
    Rule("the engine loads the models", True, _engine_loads_models),
    Rule("the engine quantizes the caches", True, _engine_quantizes_cache),
    Rule("the node's disk holds the models", True, _disk_holds_models),
    Rule("the node's CPU and RAM hold the models", True, hosts.cpu_and_ram),
    Rule("the node takes enough pods", True, hosts.pods_on_gpu_nodes),
    Rule("system nodes hold their pods", True, hosts.system_nodes),
    *(rule for feature in FEATURES for rule in feature.rules if rule.refuses),
    Rule("models can move to the pools of `spill`", True, spill.find_obstacles),
    Rule("models fit the pools of `spill`", True, spill.find_misfits),
    Rule("the provisioner partitions the GPU", True, karpenter.no_partitions),
    Rule("the region has the zones", True, zones.too_many),
    Rule("the zones belong to the region", True, zones.misnamed),
    Rule("pools with MIG have one configuration", True, mig.one_configuration),
    Rule("an unknown region is left to AWS", False, region_left_to_aws),
    Rule("the offers of the region are known", False, unknown_offers),
    Rule("standard support does not end soon", False, _kubernetes_near_end),
    Rule("extended support is expensive", False, _extended_price),
    Rule("every setting has an effect", False, _unused_settings),
    Rule("MPS with Ollama is unverified", False, _mps_unverified),
    Rule("MIG with Ollama is unverified", False, mig.ollama_on_slices),
    Rule("MIG needs no reboot", False, mig.reboots),
    Rule("slices are not shared again", False, mig.turns),
    Rule("no slice is idle", False, mig.idle_slices),
    Rule("sharing part of a GPU is unverified", False, _part_of_gpu),
    Rule("models get their settings", False, _ollama_limits),
    Rule("a prompt cache saves time", False, hosts.wasted_caches),
    Rule("the pool is awake", False, _parked),
    Rule("every pool has a model", False, _unused_pool),
    Rule("a volume binds the pool to a zone", False, _volume_binds_zone),
    Rule("Karpenter's nodes are counted by the models", False, karpenter.settings_without_effect),
    Rule("Karpenter falls back to on-demand", False, karpenter.on_demand_instead),
    Rule("Karpenter's types have one number of GPUs", False, karpenter.unequal_counts),
    Rule("Karpenter has two controllers", False, karpenter.lonely_controller),
    Rule("NAT traffic is billed", False, _nat_traffic),
    Rule("the API endpoint is not public", False, _open_endpoint),
    Rule("nodes reach the registry", False, registry.on_this_machine),
    *(rule for feature in FEATURES for rule in feature.rules if not rule.refuses),
)
