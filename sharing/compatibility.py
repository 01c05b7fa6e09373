"""Which hardware, versions and settings go together: one table of rules; why not, and what to write instead."""

import datetime
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from sharing import host_rules, karpenter, offerings, tables, versions, zones
from sharing.cost import in_extended_support
from sharing.gpus import instance_types
from sharing.mig_rules import (
    driver_cuts,
    idle_slices,
    more_shares,
    ollama_on_slices,
    one_configuration,
    reboots,
    turns,
)
from sharing.models import KvType
from sharing.modes import Mps
from sharing.offering_rules import not_offered, unknown_offers
from sharing.problems import Problem, did_you_mean
from sharing.setting_paths import rests_on, touches
from sharing.setup import NODE_IMAGES_GIB, Pool, Setup
from sharing.system_instances import system_types

NEAR_END = datetime.timedelta(days=90)
"""How long before the end of standard support a warning begins: time for one upgrade in peace."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what is looked at, and whether breaking it stops the plan or only warns."""

    name: str
    refuses: bool
    check: Callable[[Setup], Iterator[Problem]]
    reads: tuple[str, ...] = ()
    """Settings that the verdict rests on besides the one it names: where one is unreadable, the rule keeps silent.

    In the words of a file with one pool; for a pool of several they mean its own (`rests_on`).
    """


AMI_OF_NEW_GPUS = "EKS's AMIs from 20260917 on have it"
"""They hold two drivers and pick one by instance type. Source: awslabs/amazon-eks-ami#2768, 2026-09-21."""
NOT_LOADED = {"mllama": "Choose another model that reads pictures, e.g. gemma3:12b."}
"""Architectures of the catalogue that the pinned engine cannot load, and what to do.

Source: ollama v0.32.15 `integration/reg_release_test.go`: "re-enable when llama.cpp supports mllama".
"""


def problems(setup: Setup, unreadable: Collection[str] = ()) -> list[Problem]:
    """Every rule that refuses `setup`, in the order of the table; what rests on an unreadable setting is left out."""
    return [*dict.fromkeys(refusals(setup, unreadable))]


def refusals(setup: Setup, unreadable: Collection[str] = ()) -> Iterator[Problem]:
    """The same one at a time, for a caller who stops at the first; pools may repeat what they say of one sharing."""
    return _broken(setup, unreadable, refuses=True)


def warnings(setup: Setup, unreadable: Collection[str] = ()) -> list[Problem]:
    """What is allowed but doubtful in `setup`."""
    return [*dict.fromkeys(_broken(setup, unreadable, refuses=False))]


def first_broken(setup: Setup) -> Rule | None:
    """The first rule that refuses `setup`: the one that `problems` begins with."""
    return next((rule for rule in RULES if rule.refuses and any(rule.check(setup))), None)


def _broken(setup: Setup, unreadable: Collection[str], *, refuses: bool) -> Iterator[Problem]:
    for rule in RULES:
        if rule.refuses is refuses:
            yield from _readable(rule, setup, unreadable) if unreadable else rule.check(setup)


def _readable(rule: Rule, setup: Setup, unreadable: Collection[str]) -> Iterator[Problem]:
    """What the rule says of the pools whose settings it can read."""
    readable = [pool for pool in setup.pools if not touches(rests_on(rule.reads, pool), unreadable)]
    told = rule.check(replace(setup, pools=tuple(readable))) if readable else ()
    return (problem for problem in told if not touches((problem.path,), unreadable))


def _known_types(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for index, name in enumerate(pool.instance_types):
            path = f"{pool.path}.instance-types[{index}]"
            if name in system_types():
                yield Problem(path, name, "must have a GPU", _example(pool, setup))
            elif name not in instance_types():
                yield Problem(path, f"'{name}'", "unknown GPU instance type", did_you_mean(name, instance_types()))


def _nvidia_only(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for path, known in pool.placed_types:
            if known.gpu.vendor != "nvidia":
                rule = f"must have an NVIDIA GPU; {known.name} has {known.gpu.vendor.upper()}'s {known.gpu.title}"
                yield Problem(path, "", rule, _example(pool, setup))


def _one_gpu_per_pool(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for path, known in pool.placed_types:
            first = pool.known_types[0]
            if known.gpu != first.gpu or known.arch != first.arch:
                rule = f"must have the same GPU as {first.name} ({first.gpu.title}), for shares of one size"
                fix = f"Keep types with {first.gpu.title} here."
                yield Problem(path, f"{known.name} with {known.gpu.title}", rule, fix)


def _mode_on_card(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for gpu in dict.fromkeys(known.gpu for known in pool.known_types if known.gpu.vendor == "nvidia"):
            yield from pool.sharing.check(gpu, pool.sharing_path, setup.region)


def _driver_knows_card(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for path, known in pool.placed_types:
            gpu, driver = known.gpu, versions.NVIDIA_DRIVER
            if gpu.min_driver > driver or 0 < gpu.max_driver < driver:
                older, newer = f"{gpu.max_driver} or older", f"{gpu.min_driver} or newer ({AMI_OF_NEW_GPUS})"
                bound = newer if gpu.min_driver > driver else older
                rule = f"{gpu.title} needs NVIDIA driver {bound}; the pinned AMI has {driver}"
                yield Problem(path, known.name, rule, f"Take another GPU: {_others(pool, setup)}.")


def _arm64_parts(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for path, known in pool.placed_types:
            for part in versions.PARTS:
                if known.arch not in part.architectures:
                    rule = f"{part.name} {part.version} has no {known.arch} build, and {known.name} is {known.arch}"
                    fix = "Write g4dn.xlarge: the same GPU, amd64."
                    yield Problem(path, "", rule, fix)


def _system_types(setup: Setup) -> Iterator[Problem]:
    known, path = system_types(), "cluster.system-nodes.instance-types"
    for index, name in enumerate(setup.system_types):
        if name in instance_types():
            fix = "Write t3.medium, for example; GPU nodes stand under `gpu-nodes`."
            yield Problem(f"{path}[{index}]", name, "system nodes must have no GPU", fix)
        elif name not in known:
            yield Problem(f"{path}[{index}]", f"'{name}'", "unknown type for system nodes", did_you_mean(name, known))
    if len({known[name].arch for name in setup.system_types if name in known}) > 1:
        found = ", ".join(setup.system_types)
        yield Problem(path, found, "must all have one architecture", "Keep the amd64 or the arm64 types.")


def _kubernetes_version(setup: Setup) -> Iterator[Problem]:
    path, version = "cluster.kubernetes", setup.kubernetes
    rows = {row["version"]: row for row in tables.read("kubernetes_versions").rows}
    pinned, newest = sorted(versions.AMI_KUBERNETES, key=_numbers), _newer_kubernetes(setup)
    if version in rows and setup.today >= datetime.date.fromisoformat(rows[version]["extended_until"]):
        yield Problem(path, version, f"EKS ended all support for it on {rows[version]['extended_until']}", newest)
    elif version not in versions.AMI_KUBERNETES:
        yield Problem(path, version, f"must be a version with pinned add-ons: {', '.join(pinned)}", newest)
    elif in_extended_support(version, setup.today) and setup.support == "standard":
        rule = f"its standard support ended on {rows[version]['standard_until']}, so EKS would upgrade it by itself"
        yield Problem(path, version, rule, f"{newest} Or pay $0.60 an hour with `support: extended`.")


def _shares_for_all(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        tenants = setup.tenants_of(pool)
        if not pool.known_types or not pool.offers or len(tenants) <= pool.total_shares:
            continue
        nodes = -(-len(tenants) // pool.shares_per_node)
        where = f" on {pool.name}" if pool.listed else ""
        found = f"{len(tenants)} models{where}, {pool.total_shares} share{'s' if pool.total_shares != 1 else ''}"
        most = f"`{pool.path}.max: {max(nodes, pool.max)}`"
        told = pool.desired and pool.provisioner == "node-group"
        fix = f"Write {f'`{pool.path}.desired: {nodes}` with ' if told else ''}{most}"
        if more := more_shares(pool, len(tenants)):
            fix += f"; or {more}"
        yield Problem("models", found, "every model needs a share", f"{fix}.")


def _engine_loads_models(setup: Setup) -> Iterator[Problem]:
    for tenant in setup.tenants:
        model = tenant.served.model
        if model.architecture in NOT_LOADED:
            rule = f"is of the architecture `{model.architecture}`, which the pinned Ollama does not load"
            yield Problem(f"{tenant.path}.name", model.name, rule, NOT_LOADED[model.architecture])


def _engine_quantises_cache(setup: Setup) -> Iterator[Problem]:
    for tenant in setup.tenants:
        model, kind = tenant.served.model, tenant.served.kv_type
        if kind is not KvType.F16 and not model.can_quantise_kv:
            rule = f"the engine has no quantised KV cache for attention heads like those of {model.name}"
            grouped = replace(model, heads=32 * model.kv_heads)
            more = ", or add `heads`" if not model.heads and grouped.can_quantise_kv else ""
            yield Problem(f"{tenant.path}.kv-type", kind.value, rule, f"Write `kv-type: f16`{more}.")


def _disk_holds_models(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        wanted = setup.disk_gib(pool)
        if pool.volume_gib < wanted:
            rule = f"images ({NODE_IMAGES_GIB} GiB) and model files need {wanted} GiB of disk"
            yield Problem(
                f"{pool.path}.volume-gib", str(pool.volume_gib), rule, f"Write `volume-gib: {wanted}` or more."
            )


def _kubernetes_near_end(setup: Setup) -> Iterator[Problem]:
    rows = {row["version"]: row for row in tables.read("kubernetes_versions").rows}
    if row := rows.get(setup.kubernetes):
        end = datetime.date.fromisoformat(row["standard_until"])
        if setup.today < end <= setup.today + NEAR_END:
            rule = f"standard support ends on {end}"
            yield Problem("cluster.kubernetes", setup.kubernetes, rule, _newer_kubernetes(setup))


def _newer_kubernetes(setup: Setup) -> str:
    newest = max(versions.AMI_KUBERNETES, key=_numbers)
    if newest == setup.kubernetes:
        return "It is the newest that is pinned: take a newer release of tandem."
    return f'Write `kubernetes: "{newest}"`.'


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _extended_price(setup: Setup) -> Iterator[Problem]:
    if setup.support == "extended" and in_extended_support(setup.kubernetes, setup.today):
        rule = "extended support makes the control plane six times as dear"
        yield Problem("cluster.support", "extended", rule, "Upgrade, and remove `support: extended`.")


def _left_over_settings(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for key, value in pool.sharing.without_effect().items():
            rule = f"has no effect with `mode: {pool.sharing.mode}`"
            fix = "It can stay, for switching to a mode that reads it."
            found = f"{len(value)} entries" if isinstance(value, list) else str(value)
            yield Problem(f"{pool.sharing_path}.{key}", found, rule, fix)


def _mps_unverified(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        if isinstance(pool.sharing, Mps):
            rule = "Ollama under MPS is not confirmed by its authors (ollama#9765)"
            path = f"{pool.sharing_path}.mode"
            yield Problem(path, "mps", rule, "After `up`, look at each pod's log; timeslice is the safe way.")


def _slice_of_card(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        for path, known in pool.placed_types:
            if known.gpu.is_slice and any(shares.sharers > 1 for shares in pool.offers):
                rule = f"has a part of a GPU; {pool.sharing.mode} on such a part is not verified"
                fix = "Write `mode: exclusive`, or g6.xlarge for a whole L4."
                yield Problem(path, known.name, rule, fix)


def _what_ollama_gives(setup: Setup) -> Iterator[Problem]:
    for tenant in setup.tenants:
        served = tenant.served
        if served.effective_context != served.context:
            rule = f"{served.model.name} was made for {served.effective_context} tokens and gets no more"
            if served.effective_context > served.context:
                rule = f"{served.model.name} reads pictures, so Ollama gives it {served.effective_context} tokens"
            fix = f"Write `context: {served.effective_context}`."
            yield Problem(f"{tenant.path}.context", str(served.context), rule, fix)
        if served.effective_slots < served.slots:
            kind = "the embedding model " if served.model.encoder else ""
            rule = f"Ollama serves {kind}{served.model.name} one request at a time"
            yield Problem(f"{tenant.path}.slots", str(served.slots), rule, "Write `slots: 1`.")


def _parked(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        if pool.desired == 0:
            rule = "the pool is parked: no GPU is paid, no model answers"
            yield Problem(f"{pool.path}.desired", "0", rule, "Write `desired: 1` and run `pulumi up` to wake it.")


def _unused_pool(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        if not setup.tenants_of(pool):
            fix = "Name it in `models[].pool`, or take it out."
            yield Problem(pool.path, "", f"no model runs on the pool {pool.name}", fix)


def _volume_binds_zone(setup: Setup) -> Iterator[Problem]:
    for pool in setup.pools:
        tenants = [tenant for tenant in setup.tenants_of(pool) if tenant.cache == "volume"]
        if tenants:
            rule = f"a volume lives in one zone: the pool {pool.name} runs in one zone only"
            yield Problem(f"{tenants[0].path}.cache", "volume", rule, "`cache: node` runs in any zone.")


def _nat_traffic(setup: Setup) -> Iterator[Problem]:
    if setup.nat != "none" and not setup.nat_is_written:
        rule = "every GB of images and model files through the NAT gateway costs money"
        fix = "Write `nat: none` for nodes with public addresses, or `nat: single` to accept it."
        yield Problem("cluster.nat", "", rule, fix)


def _open_endpoint(setup: Setup) -> Iterator[Problem]:
    path = "cluster.public-access-cidrs"
    if not setup.public_access_is_written:
        rule = "is missing: the Kubernetes API answers the whole internet, and IAM alone guards it"
        yield Problem(path, "", rule, 'Write your own address as ["a.b.c.d/32"], or ["0.0.0.0/0"] to agree.')
    elif not setup.public_access_cidrs:
        rule = "the Kubernetes API answers inside the VPC only, and `pulumi up` must reach it"
        fix = "Run `pulumi up` through a bastion, a VPN or CI inside the VPC, or write your own address as a.b.c.d/32."
        yield Problem(path, "[]", rule, fix)


def _unknown_region(setup: Setup) -> Iterator[Problem]:
    names = [row["region"] for row in tables.read("regions").rows]
    if setup.region not in names:
        rule = f"no AWS region known on {tables.read('regions').date}"
        yield Problem("aws:region", f"'{setup.region}'", rule, did_you_mean(setup.region, names), judged=False)


def _example(pool: Pool, setup: Setup) -> str:
    """The cheapest type that the mode of `pool` goes with."""
    return f"Write {offerings.examples(_candidates(pool), setup.region, setup.book, most=1)}, for example."


def _others(pool: Pool, setup: Setup) -> str:
    """Types whose GPU every pinned driver knows."""
    newer = (name for name in _candidates(pool) if name != "g4dn.xlarge")
    return offerings.examples(newer, setup.region, setup.book) or "AWS offers others in other regions"


def _candidates(pool: Pool) -> tuple[str, ...]:
    """Types to start with, the cheapest first."""
    if pool.sharing.needs_mig_manager:
        return "g7e.2xlarge", "p5.4xlarge", "p4d.24xlarge"
    return "g4dn.xlarge", "g6.xlarge", "g6e.xlarge", "g5.xlarge"


TYPES = "gpu-nodes.instance-types"
OFFERS = "gpu-nodes.check-offers"
NODES = ("gpu-nodes.min", "gpu-nodes.desired", "gpu-nodes.max")

RULES: tuple[Rule, ...] = (
    Rule("GPU types are known", True, _known_types),
    Rule("GPUs are NVIDIA's", True, _nvidia_only),
    Rule("the region offers the types", True, not_offered, ("aws:region", "sharing", OFFERS)),
    Rule("a pool has one kind of GPU", True, _one_gpu_per_pool, (TYPES,)),
    Rule("the card allows the mode", True, _mode_on_card, (TYPES, "sharing")),
    Rule("the driver knows the card", True, _driver_knows_card),
    Rule("the driver can cut the card", True, driver_cuts),
    Rule("every part has a build for the architecture", True, _arm64_parts),
    Rule("system types are known", True, _system_types),
    Rule("the Kubernetes version is supported", True, _kubernetes_version, ("cluster.support",)),
    Rule("every model has a share", True, _shares_for_all, ("models", "sharing", TYPES, *NODES)),
    Rule("the engine loads the models", True, _engine_loads_models, ("models",)),
    Rule("the engine quantises the caches", True, _engine_quantises_cache, ("models",)),
    Rule("the node's disk holds the models", True, _disk_holds_models, ("models", "sharing", TYPES)),
    Rule("the node's CPU and RAM hold the models", True, host_rules.cpu_and_ram, ("models", "sharing", TYPES, *NODES)),
    Rule("the node takes as many pods", True, host_rules.pods_on_gpu_nodes, ("models", "sharing", TYPES, *NODES)),
    Rule("system nodes hold their pods", True, host_rules.system_nodes, ("sharing.mode", "gpu-nodes.provisioner")),
    Rule("Karpenter cuts no cards", True, karpenter.no_partitions, ("sharing",)),
    Rule("the region has the zones", True, zones.too_many, ("aws:region",)),
    Rule("zones are the region's", True, zones.misnamed, ("aws:region",)),
    Rule("pools with MIG have one configuration", True, one_configuration, ("sharing",)),
    Rule("the region is known", False, _unknown_region),
    Rule("it is known what the region offers", False, unknown_offers, ("aws:region", OFFERS)),
    Rule("standard support does not end soon", False, _kubernetes_near_end),
    Rule("extended support is dear", False, _extended_price, ("cluster.kubernetes",)),
    Rule("no setting is without effect", False, _left_over_settings, ("sharing.mode",)),
    Rule("MPS with Ollama is unverified", False, _mps_unverified, ("sharing.mode",)),
    Rule("MIG with Ollama is unverified", False, ollama_on_slices),
    Rule("MIG needs no reboot", False, reboots, (TYPES,)),
    Rule("slices are not shared again", False, turns, ("sharing.mode",)),
    Rule("no slice is idle", False, idle_slices, ("models", "sharing", TYPES, *NODES)),
    Rule("sharing a part of a GPU is unverified", False, _slice_of_card, ("sharing",)),
    Rule("models get what is asked for", False, _what_ollama_gives, ("models",)),
    Rule("the pool is awake", False, _parked),
    Rule("every pool has a model", False, _unused_pool, ("models",)),
    Rule("a volume binds the pool to a zone", False, _volume_binds_zone),
    Rule("Karpenter's nodes are counted by the models", False, karpenter.settings_without_effect),
    Rule("Karpenter falls back to on-demand", False, karpenter.on_demand_instead, (TYPES,)),
    Rule("Karpenter's types have one number of GPUs", False, karpenter.unequal_counts),
    Rule("Karpenter has two controllers", False, karpenter.lonely_controller),
    Rule("NAT traffic is paid", False, _nat_traffic),
    Rule("the API endpoint is not open to all", False, _open_endpoint),
)
