"""Every row of the rules, broken and kept; and that each way out leads out."""

import datetime
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing import compatibility, versions
from sharing.compatibility import RULES, problems, warnings
from sharing.gpus import instance_types
from sharing.layouts import Slices
from sharing.models import KvType, Served
from sharing.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.problems import Problem
from sharing.setting_paths import touches
from sharing.setup import Pool, Setup
from sharing.versions import Part
from tests.sharing.builders import SMALL, TODAY, keeping, listed, mode, pool, served, setup, tenants, weighing

AMD64_ONLY = Part(name="the odd sidecar", version="1.2", architectures=frozenset({"amd64"}))
MANY = tenants(*[SMALL] * 20)
LEAN = keeping(400)
"""A model whose pod keeps little RAM."""


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def describing(*, slots: int = 1, context: int = 2048, **shape: Any) -> Served:
    """A small model of a shape that matters to Ollama."""
    small = weighing(1_000)
    return replace(small, slots=slots, context=context, model=replace(small.model, **shape))


def on(*types: str, sharing: Sharing | None = None, **overrides: Any) -> Setup:
    return setup(pools=(pool(types, sharing, **overrides),))


def sharing_one(kind: str, count: int, model: Served, sharing: Sharing | None = None) -> Setup:
    """So many times the model on one node."""
    return replace(on(kind, sharing=sharing or TimeSlicing(replicas=max(2, count))), tenants=tenants(*[model] * count))


def several(second: Pool, *them: str, own: str = "sharing") -> Setup:
    """A good pool with a model, and `second` with its models (one if none are named); `own` is where it is shared."""
    first, here = listed(0, "first", pool()), listed(1, "rest", second, own)
    here_too = tenants(*(them or (SMALL,)), pool="rest")
    moved = [replace(tenant, path=f"models[{index}]") for index, tenant in enumerate(here_too, 1)]
    return setup(pools=(first, here), tenants=(*tenants(SMALL, pool="first"), *moved))


def brought(*types: str, **overrides: Any) -> Setup:
    """As `on`, by Karpenter; on-demand, so that nothing is doubtful."""
    return on(*(types or ("g4dn.xlarge",)), **{"provisioner": "karpenter", "capacity": "on-demand", **overrides})


def partitioned(*sharings: Sharing) -> Setup:
    """A pool of g7e.2xlarge for each."""
    pools = [pool("g7e.2xlarge", sharing, name=name) for sharing, name in zip(sharings, ("one", "two"), strict=True)]
    return setup(pools=tuple(listed(index, one.name, one) for index, one in enumerate(pools)))


# By rule: setups that break it, with what is said, and setups that keep it although they are near.
BROKEN: dict[str, list[tuple[Setup, str]]] = {
    "GPU types are known": [
        (
            on("g4dn.extra"),
            "gpu-nodes.instance-types[0]: unknown GPU instance type (got 'g4dn.extra'). "
            "Did you mean g4dn.metal, g4dn.xlarge or g4dn.8xlarge?",
        ),
        (
            on("g4dn.xlarge", "m5.large"),
            "gpu-nodes.instance-types[1]: must have a GPU (got m5.large). Write g4dn.xlarge, for example.",
        ),
    ],
    "GPUs are NVIDIA's": [
        (
            on("g4ad.xlarge"),
            "gpu-nodes.instance-types[0]: must have an NVIDIA GPU; g4ad.xlarge has AMD's RADEON-PRO-V520. "
            "Write g4dn.xlarge, for example.",
        ),
    ],
    "the region offers the types": [
        (
            replace(on("g5.2xlarge"), region="ap-northeast-3"),
            "gpu-nodes.instance-types[0]: ap-northeast-3 does not offer it as of 2026-09-01 "
            "(got g5.2xlarge). Write `g6e.xlarge` (L40S), or use ap-northeast-1, the nearest region that offers it. "
            "If AWS offers it now, write `check-offers: false` under gpu-nodes.",
        ),
    ],
    "a pool has one kind of GPU": [
        (
            on("g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge"),
            "gpu-nodes.instance-types[2]: must have the same GPU as g4dn.xlarge (T4), for shares of one size "
            "(got g5.xlarge with A10G). Keep types with T4 here.",
        ),
        (
            on("g6.xlarge", "g6f.4xlarge"),
            "gpu-nodes.instance-types[1]: must have the same GPU as g6.xlarge (L4), for shares of one size "
            "(got g6f.4xlarge with L4 slice of 11,444 MiB). Keep types with L4 here.",
        ),
        (
            on("g4dn.xlarge", "g5g.xlarge"),
            "gpu-nodes.instance-types[1]: must have the same GPU as g4dn.xlarge (T4), for shares of one size "
            "(got g5g.xlarge with T4G). Keep types with T4 here.",
        ),
    ],
    "the card allows the mode": [
        (
            on("p3.2xlarge", sharing=Mps(replicas=17)),
            "sharing.replicas: the device plugin allows at most 16 MPS clients on one V100-16GB (got 17). "
            "Write `replicas: 16` or fewer.",
        ),
        (
            several(pool("p3.2xlarge", Mps(replicas=17)), own="gpu-nodes[1].sharing"),
            "gpu-nodes[1].sharing.replicas: the device plugin allows at most 16 MPS clients on one V100-16GB (got 17). "
            "Write `replicas: 16` or fewer.",
        ),
        (
            on("g4dn.xlarge", sharing=Mig()),
            "sharing.mode: T4 has no MIG (got mig). The cheapest with it: g7e.2xlarge ($3.36 an hour on demand), "
            "p5.4xlarge ($6.88 an hour on demand).",
        ),
        (
            on("g7e.2xlarge", sharing=Mig(layout="all-balanced")),
            "sharing.strategy: with `single` all slices must be alike, or the node offers none; "
            "2x1g.24gb_1x2g.48gb are not (got single). Write `strategy: mixed`.",
        ),
        (
            on("p5.4xlarge", sharing=Mig(layout="all-1g.24gb")),
            "sharing.layout: a layout of RTX-PRO-SERVER-6000, not of H100 (got 'all-1g.24gb'). H100 has all-1g.10gb, "
            "all-1g.20gb, all-2g.20gb, all-3g.40gb, all-4g.40gb, all-7g.80gb, all-balanced.",
        ),
    ],
    "the driver knows the card": [
        (
            on("g7.2xlarge"),
            "gpu-nodes.instance-types[0]: RTX-PRO-4500 needs NVIDIA driver 595 or newer (EKS's AMIs from 20260917 on "
            "have it); the pinned AMI has 580 (got g7.2xlarge). Take another GPU: g6.xlarge or g6e.xlarge.",
        ),
    ],
    "the driver can cut the card": [],
    "every part has a build for the architecture": [],
    "system types are known": [
        (
            setup(system_types=("t3.medium", "t3.meduim")),
            "cluster.system-nodes.instance-types[1]: unknown type for system nodes (got 't3.meduim'). "
            "Did you mean t3.medium, t3a.medium or t4g.medium?",
        ),
        (
            setup(system_types=("g4dn.xlarge",)),
            "cluster.system-nodes.instance-types[0]: system nodes must have no GPU (got g4dn.xlarge). "
            "Write t3.medium, for example; GPU nodes stand under `gpu-nodes`.",
        ),
        (
            setup(system_types=("t3.medium", "t4g.medium")),
            "cluster.system-nodes.instance-types: must all have one architecture (got t3.medium, t4g.medium). "
            "Keep the amd64 or the arm64 types.",
        ),
    ],
    "the Kubernetes version is supported": [
        (
            setup(kubernetes="1.37"),
            "cluster.kubernetes: must be a version with pinned add-ons: 1.34, 1.35, 1.36 (got 1.37). "
            'Write `kubernetes: "1.36"`.',
        ),
        (
            setup(kubernetes="1.33"),
            "cluster.kubernetes: must be a version with pinned add-ons: 1.34, 1.35, 1.36 (got 1.33). "
            'Write `kubernetes: "1.36"`.',
        ),
        (
            setup(kubernetes="1.30"),
            'cluster.kubernetes: EKS ended all support for it on 2026-07-23 (got 1.30). Write `kubernetes: "1.36"`.',
        ),
        (
            setup(kubernetes="1.34", support="extended", today=day("2027-12-02")),
            'cluster.kubernetes: EKS ended all support for it on 2027-12-02 (got 1.34). Write `kubernetes: "1.36"`.',
        ),
        (
            setup(kubernetes="1.34", today=day("2026-12-02")),
            "cluster.kubernetes: its standard support ended on 2026-12-02, so EKS would upgrade it by itself "
            "(got 1.34). "
            'Write `kubernetes: "1.36"`. Or pay $0.60 an hour with `support: extended`.',
        ),
        (
            setup(kubernetes="1.36", today=day("2027-09-01")),
            "cluster.kubernetes: its standard support ended on 2027-08-02, so EKS would upgrade it by itself "
            "(got 1.36). "
            "It is the newest that is pinned: take a newer release of tandem. "
            "Or pay $0.60 an hour with `support: extended`.",
        ),
    ],
    "every model has a share": [
        (
            replace(on("g4dn.xlarge"), tenants=tenants(*[SMALL] * 3)),
            "models: every model needs a share (got 3 models, 2 shares). "
            "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`; or `sharing.replicas: 3`.",
        ),
        (
            on("g4dn.xlarge", sharing=Exclusive(replicas=4)),
            "models: every model needs a share (got 2 models, 1 share). "
            "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`; or `sharing.mode: timeslice` with "
            "`sharing.replicas: 2` to share the GPU.",
        ),
        (
            replace(on("g4dn.xlarge", desired=0, max=1), tenants=tenants(*[SMALL] * 3)),
            "models: every model needs a share (got 3 models, 2 shares). "
            "Write `gpu-nodes.max: 2`; or `sharing.replicas: 3`.",
        ),
        (
            replace(on("p3.2xlarge", sharing=Mps(replicas=16), max=9), tenants=MANY),
            "models: every model needs a share (got 20 models, 16 shares). Write `gpu-nodes.desired: 2` with "
            "`gpu-nodes.max: 9`.",
        ),
        (
            replace(on("g4dn.12xlarge", "g4dn.xlarge", sharing=Mps()), tenants=tenants(*[SMALL] * 5)),
            "models: every model needs a share (got 5 models, 2 shares). "
            "Write `gpu-nodes.desired: 3` with `gpu-nodes.max: 3`; or `sharing.replicas: 5`.",
        ),
        (
            several(pool(sharing=Mps()), SMALL, SMALL, SMALL),
            "models: every model needs a share (got 3 models on rest, 2 shares). Write `gpu-nodes[1].desired: "
            "2` with `gpu-nodes[1].max: 2`; or `gpu-nodes[1].sharing.mode: mps` with "
            "`gpu-nodes[1].sharing.replicas: 3`.",
        ),
        (
            several(pool(sharing=Exclusive()), SMALL, SMALL, own="gpu-nodes[1].sharing"),
            "models: every model needs a share (got 2 models on rest, 1 share). Write `gpu-nodes[1].desired: "
            "2` with `gpu-nodes[1].max: 2`; or `gpu-nodes[1].sharing.mode: timeslice` with "
            "`gpu-nodes[1].sharing.replicas: 2` to share the GPU.",
        ),
    ],
    "the engine loads the models": [
        (
            replace(on("g6e.xlarge"), tenants=tenants("llama3.2-vision:11b")),
            "models[0].name: is of the architecture `mllama`, which the pinned Ollama does not load "
            "(got llama3.2-vision:11b). Choose another model that reads pictures, e.g. gemma3:12b.",
        ),
    ],
    "the engine quantises the caches": [
        (
            replace(on("g4dn.xlarge"), tenants=tenants(served("all-minilm:33m", kv_type=KvType.Q8_0))),
            "models[0].kv-type: the engine has no quantised KV cache for attention heads like those of all-minilm:33m "
            "(got q8_0). Write `kv-type: f16`.",
        ),
    ],
    "the node's disk holds the models": [
        (
            on("g4dn.xlarge", volume_gib=48),
            "gpu-nodes.volume-gib: images (45 GiB) and model files need 49 GiB of disk (got 48). "
            "Write `volume-gib: 49` or more.",
        ),
    ],
    "the node's CPU and RAM hold the models": [
        (
            sharing_one("g4dn.xlarge", 15, keeping(400)),
            "gpu-nodes.instance-types[0]: 15 models on one g4dn.xlarge request 4.25 vCPU (got 4 vCPU). "
            "Write g4dn.2xlarge instead.",
        ),
        (
            replace(on("g4dn.2xlarge", "g4dn.xlarge", sharing=TimeSlicing(replicas=20)), tenants=tenants(*[LEAN] * 20)),
            "gpu-nodes.instance-types[1]: 20 models on one g4dn.xlarge request 5.5 vCPU (got 4 vCPU). "
            "Write g4dn.2xlarge instead.",
        ),
        # g5g.xlarge leaves 6,525 MiB for pods, and 664 MiB of them are the stack's. Each model wants a page cache of
        # 256 MiB, too: 4 x 1,556 MiB are 363 MiB too much, and a quarter less cache gives 4 x 128 MiB back.
        (
            sharing_one("g5g.xlarge", 4, keeping(1300, cache=512)),
            "gpu-nodes.instance-types[0]: 4 models on one g5g.xlarge need 6,224 MiB of RAM, 363 MiB more than it has "
            "for them (got 5,861 MiB for models). Write `prompt-cache-mib: 384` for each model.",
        ),
        (
            sharing_one("g5g.xlarge", 4, keeping(1700, cache=512)),
            "gpu-nodes.instance-types[0]: 4 models on one g5g.xlarge need 7,824 MiB of RAM, 1,963 MiB more than it has "
            "for them (got 5,861 MiB for models). Write `prompt-cache-mib: 0` for each model.",
        ),
        (
            sharing_one("g5g.xlarge", 4, keeping(1300)),
            "gpu-nodes.instance-types[0]: 4 models on one g5g.xlarge need 6,224 MiB of RAM, 363 MiB more than it has "
            "for them (got 5,861 MiB for models). Write g5g.2xlarge instead.",
        ),
        # Under MPS, the daemon and its server take 512 MiB.
        (
            sharing_one("g5g.xlarge", 4, keeping(1200), sharing=Mps(replicas=4)),
            "gpu-nodes.instance-types[0]: 4 models on one g5g.xlarge need 5,824 MiB of RAM, 475 MiB more than it has "
            "for them (got 5,349 MiB for models). Write g5g.2xlarge instead.",
        ),
        (
            sharing_one("g5g.16xlarge", 1, keeping(120_000)),
            "gpu-nodes.instance-types[0]: 1 model on one g5g.16xlarge need 120,256 MiB of RAM, 8,200 MiB more than it "
            "has for them (got 112,056 MiB for models). Use fewer models per node.",
        ),
    ],
    "the node takes as many pods": [
        (
            sharing_one("g4dn.2xlarge", 23, LEAN),
            "gpu-nodes.instance-types[0]: 23 models and 7 other pods are more pods than one g4dn.2xlarge takes "
            "(got 29 pods). Write g4dn.8xlarge instead.",
        ),
        # As many addresses as g5.4xlarge has, EKS allows 110 pods on fewer than 30 vCPUs.
        (
            replace(
                on("g7e.4xlarge", sharing=Mig(layout="all-1g.24gb", replicas=26)),
                tenants=tenants(*[keeping(322)] * 104),
            ),
            "gpu-nodes.instance-types[0]: 104 models and 10 other pods are more pods than one g7e.4xlarge takes "
            "(got 110 pods). Write g7e.8xlarge instead.",
        ),
    ],
    "system nodes hold their pods": [
        (
            replace(brought("g4dn.xlarge"), system_types=("t3.small",), system_nodes=1),
            "cluster.system-nodes: the stack puts 12 pods on them, and they take 11 (got 1 × t3.small). "
            "Write `instance-types: [t3a.medium]`.",
        ),
        (
            replace(on("g7e.2xlarge", sharing=Mig()), system_types=("t3.small", "t3.medium"), system_nodes=1),
            "cluster.system-nodes: the stack puts 12 pods on them, and they take 11 (got 1 × t3.small). "
            "Write `instance-types: [t3a.medium]`.",
        ),
        # Their DaemonSets take 408 MiB of each, the other pods 2,250 MiB: 3,066 MiB of 2 x 1,418 MiB.
        (
            setup(
                system_types=("t3.small",),
                pools=(
                    listed(0, "a", pool("g7e.2xlarge", Mig())),
                    listed(1, "b", pool(provisioner="karpenter", capacity="on-demand")),
                ),
                tenants=tenants(SMALL, pool="a"),
            ),
            "cluster.system-nodes: the stack's pods need 3,066 MiB of RAM on them, 230 MiB more than they have "
            "(got 2 × t3.small). Write `count: 3`.",
        ),
    ],
    "Karpenter cuts no cards": [
        (
            brought("g7e.2xlarge", sharing=Mig()),
            "gpu-nodes.provisioner: Karpenter takes a node whose kubelet restarts while its cards are cut for a broken "
            "one (gpu-operator#2415) (got karpenter). Write `provisioner: node-group` under gpu-nodes.",
        ),
    ],
    "the region has the zones": [
        (
            setup(region="us-west-1", zones=3),
            "cluster.zones: us-west-1 has 2 zones in which EKS runs (got 3). Write `zones: 2` or fewer.",
        ),
        (
            setup(region="eu-west-1", zones=4),
            "cluster.zones: eu-west-1 has 3 zones in which EKS runs (got 4). Write `zones: 3` or fewer.",
        ),
        (
            setup(zones=6, zone_names=tuple(f"us-east-1{letter}" for letter in "abcdef")),
            "cluster.zone-names: us-east-1 has 5 zones in which EKS runs (got 6). Write `zones: 5` or fewer.",
        ),
    ],
    "zones are the region's": [
        (
            setup(zone_names=("us-east-1a", "us-west-2b")),
            "cluster.zone-names[1]: is no zone of us-east-1, the stack's region (got 'us-west-2b'). "
            "Write zones of us-east-1, for example `[us-east-1a, us-east-1b]`.",
        ),
        (
            setup(zone_names=("us-east-1-bos-1a", "us-east-1a")),
            "cluster.zone-names[0]: must be an Availability Zone: EKS does not support other kinds of zones "
            "(got 'us-east-1-bos-1a'). Write zones of us-east-1, for example `[us-east-1a, us-east-1b]`.",
        ),
        (
            setup(zone_names=("us-east-1a", "us-east-1a")),
            "cluster.zone-names[1]: is listed twice (got 'us-east-1a'). Keep one of the two.",
        ),
    ],
    "pools with MIG have one configuration": [
        (
            partitioned(Mig(strategy="mixed"), Mig(replicas=2)),
            "gpu-nodes[1].sharing.mode: pools with MIG must have the same `strategy`, `replicas` and "
            "`allocation-policy` (got mig-single-x2 here, mig-mixed in one). "
            "Copy the `sharing` of pool `one` here, with a `layout` of its own, or use a second stack.",
        ),
    ],
    "the region is known": [
        (
            setup(region="us-east-11"),
            "aws:region: no AWS region known on 2026-10-16 (got 'us-east-11'). "
            "Did you mean us-east-1, us-west-1 or us-east-2?",
        ),
    ],
    "it is known what the region offers": [
        (
            replace(on("g4dn.metal"), region="us-gov-east-1"),
            "gpu-nodes.instance-types[0]: is not judged: it is unknown whether us-gov-east-1 offers it "
            "(got g4dn.metal). Ask AWS with `tandem quota --region us-gov-east-1`.",
        ),
    ],
    "standard support does not end soon": [
        (
            setup(kubernetes="1.34"),
            'cluster.kubernetes: standard support ends on 2026-12-02 (got 1.34). Write `kubernetes: "1.36"`.',
        ),
        (
            setup(kubernetes="1.34", today=day("2026-12-01")),
            'cluster.kubernetes: standard support ends on 2026-12-02 (got 1.34). Write `kubernetes: "1.36"`.',
        ),
        (
            setup(kubernetes="1.36", today=day("2027-05-04")),
            "cluster.kubernetes: standard support ends on 2027-08-02 (got 1.36). "
            "It is the newest that is pinned: take a newer release of tandem.",
        ),
    ],
    "extended support is dear": [
        (
            setup(kubernetes="1.34", support="extended", today=day("2026-12-02")),
            "cluster.support: extended support makes the control plane six times as dear (got extended). "
            "Upgrade, and remove `support: extended`.",
        ),
    ],
    "no setting is without effect": [
        (
            replace(on("g4dn.xlarge", sharing=Exclusive(replicas=4)), tenants=tenants(SMALL)),
            "sharing.replicas: has no effect with `mode: exclusive` (got 4). "
            "It can stay, for switching to a mode that reads it.",
        ),
        (
            replace(on("g4dn.xlarge", sharing=Exclusive(allocation_policy="packed")), tenants=tenants(SMALL)),
            "sharing.allocation-policy: has no effect with `mode: exclusive` (got packed). "
            "It can stay, for switching to a mode that reads it.",
        ),
        (
            several(pool(sharing=Exclusive(replicas=3)), own="gpu-nodes[1].sharing"),
            "gpu-nodes[1].sharing.replicas: has no effect with `mode: exclusive` (got 3). "
            "It can stay, for switching to a mode that reads it.",
        ),
    ],
    "MPS with Ollama is unverified": [
        (
            on("g4dn.xlarge", sharing=Mps()),
            "sharing.mode: Ollama under MPS is not confirmed by its authors (ollama#9765) (got mps). "
            "After `up`, look at each pod's log; timeslice is the safe way.",
        ),
        (
            several(pool(sharing=Mps()), own="gpu-nodes[1].sharing"),
            "gpu-nodes[1].sharing.mode: Ollama under MPS is not confirmed by its authors (ollama#9765) (got mps). "
            "After `up`, look at each pod's log; timeslice is the safe way.",
        ),
    ],
    "MIG with Ollama is unverified": [
        (
            on("g7e.2xlarge", sharing=Mig()),
            f"sharing.mode: Ollama {versions.OLLAMA} is unverified on MIG; since 0.13.2 it overlooked slices "
            "(ollama#13800, #14031) (got mig). After `up`, each pod must get ready: one whose model is on the CPU "
            "never does, `kubectl describe` says so.",
        ),
    ],
    "MIG needs no reboot": [
        (
            on("p4d.24xlarge", sharing=Mig()),
            "sharing.mode: A100-40GB can be cut only by a reboot of its node, some minutes more before the first token "
            "(got mig). It happens by itself; later cards need none.",
        ),
    ],
    "slices are not shared again": [
        (
            on("g7e.2xlarge", sharing=Mig(replicas=3)),
            "sharing.replicas: 3 pods take turns on a slice, and nothing divides its memory between them (got 3). "
            "Leave `replicas` out for a slice each.",
        ),
    ],
    "no slice is idle": [
        (
            replace(
                on("g7e.2xlarge", sharing=Mig(strategy="mixed", layout="all-balanced")),
                tenants=tenants(SMALL, SMALL)[1:],
            ),
            "sharing.layout: no model gets a slice 1g.24gb (got 2 a card). "
            "Leave it out, or give its room to another profile.",
        ),
    ],
    "sharing a part of a GPU is unverified": [
        (
            on("g6f.4xlarge"),
            "gpu-nodes.instance-types[0]: has a part of a GPU; timeslice on such a part is not verified "
            "(got g6f.4xlarge). Write `mode: exclusive`, or g6.xlarge for a whole L4.",
        ),
        (
            on("gr6f.4xlarge", sharing=Mps()),
            "gpu-nodes.instance-types[0]: has a part of a GPU; mps on such a part is not verified "
            "(got gr6f.4xlarge). Write `mode: exclusive`, or g6.xlarge for a whole L4.",
        ),
    ],
    "models get what is asked for": [
        (
            setup(tenants=tenants(served("llama2:7b", context=4097))),
            "models[0].context: llama2:7b was made for 4096 tokens and gets no more (got 4097). Write `context: 4096`.",
        ),
        (
            setup(tenants=tenants(served("nomic-embed-text:latest", slots=2))),
            "models[0].slots: Ollama serves the embedding model nomic-embed-text:latest one request at a time (got 2). "
            "Write `slots: 1`.",
        ),
        (
            setup(tenants=tenants(describing(architecture="qwen35", slots=4))),
            "models[0].slots: Ollama serves own one request at a time (got 4). Write `slots: 1`.",
        ),
        (
            setup(tenants=tenants(describing(projector_bytes=1, context=512))),
            "models[0].context: own reads pictures, so Ollama gives it 2048 tokens (got 512). Write `context: 2048`.",
        ),
    ],
    "the pool is awake": [
        (
            on("g4dn.xlarge", desired=0),
            "gpu-nodes.desired: the pool is parked: no GPU is paid, no model answers (got 0). "
            "Write `desired: 1` and run `pulumi up` to wake it.",
        ),
    ],
    "every pool has a model": [
        (
            replace(several(pool()), tenants=tenants(SMALL, pool="first")),
            "gpu-nodes[1]: no model runs on the pool rest. Name it in `models[].pool`, or take it out.",
        ),
    ],
    "a volume binds the pool to a zone": [
        (
            setup(tenants=(*tenants(SMALL), *tenants(SMALL, SMALL, cache="volume")[1:])),
            "models[1].cache: a volume lives in one zone: the pool gpu runs in one zone only (got volume). "
            "`cache: node` runs in any zone.",
        ),
    ],
    "Karpenter's nodes are counted by the models": [
        (
            brought(min=1, max=3),
            "gpu-nodes.min: has no effect with Karpenter, which brings as many nodes as the models need (got 1). "
            "Leave it out; `max: 3` is the limit.",
        ),
        (
            brought(desired=2, max=2),
            "gpu-nodes.desired: has no effect with Karpenter, which brings as many nodes as the models need (got 2). "
            "Leave it out; `max: 2` is the limit.",
        ),
        (
            brought(replacement="delete-first"),
            "gpu-nodes.replacement: has no effect with Karpenter, which always keeps a drifted node until its "
            "replacement is ready (got delete-first). Remove it.",
        ),
    ],
    "Karpenter falls back to on-demand": [
        (
            brought("g4dn.xlarge", "g4dn.2xlarge", capacity="spot", on_demand_fallback=True),
            "gpu-nodes.on-demand-fallback: without spot capacity, Karpenter buys on-demand at up to $0.752 per hour "
            "and node (got true). Write `on-demand-fallback: false` to wait for spot.",
        ),
    ],
    "Karpenter's types have one number of GPUs": [
        (
            brought("g4dn.xlarge", "g4dn.metal", "g4dn.12xlarge"),
            "gpu-nodes.instance-types: Karpenter may take one large node where small ones would be cheaper, and limits "
            "GPUs instead of nodes while many pods wait: up to 8 nodes, not 1. Quotas and budget count with that "
            "(got types with 1, 4 and 8 GPUs). Keep types with one number of GPUs.",
        ),
    ],
    "Karpenter has two controllers": [
        (
            replace(brought(), system_nodes=1),
            "cluster.system-nodes.count: Karpenter's one controller stands still while its node is replaced: no GPU "
            "node comes or goes (got 1). Write `count: 2` to have it twice.",
        ),
    ],
    "NAT traffic is paid": [
        (
            setup(nat="single", nat_is_written=False),
            "cluster.nat: every GB of images and model files through the NAT gateway costs money. Write `nat: none` "
            "for nodes with public addresses, or `nat: single` to accept it.",
        ),
    ],
    "the API endpoint is not open to all": [
        (
            setup(public_access_cidrs=("0.0.0.0/0",), public_access_is_written=False),
            "cluster.public-access-cidrs: is missing: the Kubernetes API answers the whole internet, and IAM alone "
            'guards it. Write your own address as ["a.b.c.d/32"], or ["0.0.0.0/0"] to agree.',
        ),
        (
            setup(public_access_cidrs=()),
            "cluster.public-access-cidrs: the Kubernetes API answers inside the VPC only, and `pulumi up` must reach "
            "it (got []). Run `pulumi up` through a bastion, a VPN or CI inside the VPC, or write your own address as "
            "a.b.c.d/32.",
        ),
    ],
}
KEPT: dict[str, list[Setup]] = {
    "GPU types are known": [on("g4dn.xlarge", "g4dn.metal")],
    "GPUs are NVIDIA's": [on("g4dn.xlarge"), on("g4ad.extra")],
    "the region offers the types": [
        on("g4dn.xlarge"),
        on("g4ad.xlarge"),
        on("g4ad.extra"),
        replace(on("g4dn.xlarge"), region="us-iso-east-1"),
    ],
    "a pool has one kind of GPU": [
        on("g4dn.xlarge", "g4dn.16xlarge"),
        on("g5.xlarge"),
        on("odd"),
        on("p5e.48xlarge", "p5en.48xlarge"),
    ],
    "the card allows the mode": [
        on("p3.2xlarge", sharing=Mps(replicas=16)),
        on("g4dn.xlarge", sharing=Mps(replicas=48)),
        on("g4ad.xlarge", sharing=Mps()),
        on("g7e.2xlarge", sharing=Mig(layout="all-balanced", strategy="mixed")),
        on("p5.4xlarge", sharing=Mig(layout="all-1g.20gb")),
        on("g7e.2xlarge", sharing=Mig(layout=[Slices(profile="1g.24gb-me", count=2)])),
    ],
    "the driver knows the card": [
        on("p3.2xlarge"),
    ],
    "the driver can cut the card": [],
    "every part has a build for the architecture": [],
    "system types are known": [setup(system_types=("t3.medium", "m5.large")), setup(system_types=("t4g.small",))],
    "the Kubernetes version is supported": [
        setup(kubernetes="1.35"),
        setup(kubernetes="1.34", today=day("2026-12-01")),
        setup(kubernetes="1.34", support="extended", today=day("2026-12-02")),
        setup(kubernetes="1.34", support="extended", today=day("2027-12-01")),
    ],
    "every model has a share": [
        on("g4dn.xlarge"),
        on("odd"),
        on("g4dn.xlarge", sharing=Mig()),
        replace(on("g7e.2xlarge", sharing=Mig()), tenants=tenants(*[SMALL] * 4)),
        replace(on("g4dn.xlarge", desired=0, max=2), tenants=tenants(*[SMALL] * 4)),
        replace(on("g4dn.12xlarge", sharing=Exclusive()), tenants=tenants(*[SMALL] * 4)),
        replace(brought(max=2), tenants=tenants(*[SMALL] * 4)),
    ],
    "the engine loads the models": [replace(on("g6e.xlarge"), tenants=tenants("gemma3:12b"))],
    "the engine quantises the caches": [
        replace(on("g4dn.xlarge"), tenants=tenants("all-minilm:33m", served("llama2:7b", kv_type=KvType.Q4_0))),
    ],
    "the node's disk holds the models": [
        on("g4dn.xlarge", volume_gib=49),
        replace(on("g4dn.xlarge", volume_gib=45), tenants=tenants("llama2:7b", cache="volume")),
    ],
    "the node's CPU and RAM hold the models": [
        sharing_one("g4dn.xlarge", 14, LEAN),
        replace(on("g4dn.xlarge", sharing=TimeSlicing(replicas=14)), tenants=tenants(*[LEAN] * 20)),
        sharing_one("g5g.xlarge", 4, keeping(1209)),
        sharing_one("g4dn.xlarge", 14, LEAN, sharing=TimeSlicing(replicas=64)),
        replace(on("g4dn.xlarge", sharing=TimeSlicing(replicas=10), desired=2, max=2), tenants=tenants(*[LEAN] * 20)),
        on("odd"),
        on("g4ad.xlarge"),
        sharing_one("g6e.xlarge", 14, LEAN),
    ],
    "the node takes as many pods": [sharing_one("g4dn.2xlarge", 22, LEAN), on("odd")],
    "system nodes hold their pods": [
        setup(system_types=("t3.small",), system_nodes=1),
        replace(brought("g4dn.xlarge"), system_nodes=1),
        replace(brought("g4dn.xlarge"), system_types=("t3.small",)),
        setup(system_types=("odd",)),
    ],
    "Karpenter cuts no cards": [on("g7e.2xlarge", sharing=Mig()), brought()],
    "the region has the zones": [
        setup(zones=5),
        setup(region="us-west-2", zones=4),
        setup(region="us-gov-west-1", zones=6),  # not in AWS's list: AWS itself will say
    ],
    "zones are the region's": [setup(), setup(zone_names=("us-east-1f", "us-east-1d"))],
    "pools with MIG have one configuration": [
        partitioned(Mig(strategy="mixed"), Mig(strategy="mixed", layout="all-balanced")),
        partitioned(Mig(), TimeSlicing(replicas=2)),
        partitioned(TimeSlicing(replicas=2), Mps()),
    ],
    "the region is known": [setup(region="ap-south-2")],
    "it is known what the region offers": [
        on("p5.4xlarge"),
        replace(on("g4dn.xlarge"), region="ap-south-2"),
        replace(on("g4dn.xlarge"), region="us-east-11"),
    ],
    "standard support does not end soon": [
        setup(kubernetes="1.34", today=day("2026-12-02")),
        setup(kubernetes="1.36", today=day("2027-05-03")),
        setup(kubernetes="1.99"),
    ],
    "extended support is dear": [
        setup(kubernetes="1.34", today=day("2026-12-02")),
        setup(kubernetes="1.34", support="extended", today=day("2026-12-01")),
    ],
    "no setting is without effect": [on("g4dn.xlarge", sharing=TimeSlicing(replicas=4))],
    "MPS with Ollama is unverified": [on("g4dn.xlarge"), on("g4dn.xlarge", sharing=Exclusive())],
    "MIG with Ollama is unverified": [on("g7e.2xlarge"), on("g7e.2xlarge", sharing=Mps())],
    "MIG needs no reboot": [on("p4d.24xlarge"), on("p5.4xlarge", sharing=Mig()), on("g5.xlarge", sharing=Mig())],
    "slices are not shared again": [on("g7e.2xlarge", sharing=Mig()), on("g7e.2xlarge", sharing=TimeSlicing())],
    "no slice is idle": [
        replace(
            on("g7e.2xlarge", sharing=Mig(strategy="mixed", layout="all-balanced")),
            tenants=tenants(weighing(30_000), weighing(1_000)),
        ),
        on("g7e.2xlarge", sharing=Mig(strategy="mixed", layout="all-balanced")),
        on("g7e.2xlarge", sharing=Mig()),
        on("odd", sharing=Mig(strategy="mixed")),
        on("g4dn.xlarge", sharing=Mig(strategy="mixed", layout="all-balanced")),
    ],
    "sharing a part of a GPU is unverified": [on("gr6.4xlarge"), on("g6f.4xlarge", sharing=Exclusive())],
    "models get what is asked for": [
        setup(tenants=tenants(served("llama2:7b", context=4096, slots=2), "nomic-embed-text:latest"))
    ],
    "the pool is awake": [on("g4dn.xlarge", desired=1)],
    "every pool has a model": [setup(), several(pool())],
    "a volume binds the pool to a zone": [setup(tenants=tenants(SMALL, cache="volume", pool="other"))],
    "Karpenter's nodes are counted by the models": [brought(max=9), brought(desired=0), on("g4dn.xlarge", min=1)],
    "Karpenter falls back to on-demand": [brought(), on("g4dn.xlarge"), brought(capacity="spot")],
    "Karpenter's types have one number of GPUs": [
        brought("g4dn.xlarge", "g4dn.2xlarge"),
        brought("odd"),
        on("g4dn.xlarge", "g4dn.metal"),
    ],
    "Karpenter has two controllers": [brought(), replace(on("g4dn.xlarge"), system_nodes=1)],
    "NAT traffic is paid": [setup(nat="none"), setup(nat="single"), setup(nat="per-zone")],
    "the API endpoint is not open to all": [
        setup(public_access_cidrs=("203.0.113.7/32",)),
        setup(public_access_cidrs=("0.0.0.0/0",)),
    ],
}


def found_by(name: str, whole: Setup) -> list[str]:
    (rule,) = [rule for rule in RULES if rule.name == name]
    return [str(problem) for problem in rule.check(whole)]


def test_every_rule_is_broken_and_kept_by_a_test() -> None:
    names = [rule.name for rule in RULES]
    assert names == list(BROKEN) == list(KEPT)
    assert [rule.refuses for rule in RULES] == [True] * 21 + [False] * 21


@pytest.mark.parametrize(
    ("name", "whole", "message"),
    [(name, whole, message) for name, rows in BROKEN.items() for whole, message in rows],
    ids=[f"{name} {number}" for name, rows in BROKEN.items() for number, _ in enumerate(rows)],
)
def test_a_broken_rule_is_told_with_its_way_out(name: str, whole: Setup, message: str) -> None:
    assert message in found_by(name, whole)
    refused, doubted = [str(one) for one in problems(whole)], [str(one) for one in warnings(whole)]
    refuses = list(BROKEN).index(name) < 21
    assert (message in refused, message in doubted) == (refuses, not refuses)


@pytest.mark.parametrize(
    ("name", "whole"),
    [(name, whole) for name, wholes in KEPT.items() for whole in wholes],
    ids=[f"{name} {number}" for name, wholes in KEPT.items() for number, _ in enumerate(wholes)],
)
def test_a_kept_rule_says_nothing(name: str, whole: Setup) -> None:
    assert found_by(name, whole) == []


PINNED: list[tuple[str, dict[str, Any], Setup, list[str]]] = [
    (
        "the driver knows the card",
        {"NVIDIA_DRIVER": 581},
        on("p3.2xlarge"),
        [
            "gpu-nodes.instance-types[0]: V100-16GB needs NVIDIA driver 580 or older; the pinned AMI has 581 "
            "(got p3.2xlarge). Take another GPU: g6.xlarge or g6e.xlarge."
        ],
    ),
    ("the driver knows the card", {"NVIDIA_DRIVER": 570}, on("p3.2xlarge"), []),
    ("the driver knows the card", {"NVIDIA_DRIVER": 595}, on("g7.2xlarge"), []),
    ("the driver knows the card", {"NVIDIA_DRIVER": 999}, on("g4dn.xlarge"), []),
    (
        "the driver can cut the card",
        {"NVIDIA_DRIVER": 570},
        on("g7e.2xlarge", sharing=Mig()),
        [
            "gpu-nodes.instance-types[0]: MIG on RTX-PRO-SERVER-6000 needs NVIDIA driver 575 or newer; the pinned AMI "
            "has 570 (got g7e.2xlarge). Take another GPU with MIG, g7e.2xlarge or p5.4xlarge, or another mode."
        ],
    ),
    (
        "the driver can cut the card",
        {"NVIDIA_DRIVER": 524},
        on("p5.4xlarge", "p5.48xlarge", sharing=Mig()),
        [
            f"gpu-nodes.instance-types[{index}]: MIG on H100 needs NVIDIA driver 525 or newer; the pinned AMI has 524 "
            f"(got {name}). Take another GPU with MIG, g7e.2xlarge or p5.4xlarge, or another mode."
            for index, name in enumerate(("p5.4xlarge", "p5.48xlarge"))
        ],
    ),
    ("the driver can cut the card", {"NVIDIA_DRIVER": 570}, on("g7e.2xlarge"), []),
    ("the driver can cut the card", {"NVIDIA_DRIVER": 575}, on("g7e.2xlarge", sharing=Mig()), []),
    ("the driver can cut the card", {"NVIDIA_DRIVER": 575}, on("g7.2xlarge", sharing=Mig()), []),
    ("the driver can cut the card", {"NVIDIA_DRIVER": 1}, on("odd", "g4dn.xlarge", sharing=Mig()), []),
    (
        "every part has a build for the architecture",
        {"PARTS": (*versions.PARTS, AMD64_ONLY)},
        on("g5g.xlarge"),
        [
            "gpu-nodes.instance-types[0]: the odd sidecar 1.2 has no arm64 build, and g5g.xlarge is arm64. "
            "Write g4dn.xlarge: the same GPU, amd64."
        ],
    ),
    ("every part has a build for the architecture", {"PARTS": (AMD64_ONLY,)}, on("g4dn.xlarge"), []),
    ("the Kubernetes version is supported", {"AMI_KUBERNETES": {"1.40": "1.40.0"}}, setup(kubernetes="1.40"), []),
]


@pytest.mark.parametrize(("name", "pins", "whole", "messages"), PINNED)
def test_rules_follow_the_pinned_versions(
    name: str, pins: dict[str, Any], whole: Setup, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for pin, value in pins.items():
        monkeypatch.setattr(versions, pin, value)
    assert found_by(name, whole) == messages
    assert set(messages) <= {str(problem) for problem in problems(whole)}
    assert not set(messages) & {str(problem) for problem in problems(whole, ["gpu-nodes.instance-types"])}


def test_every_rule_that_refuses_has_a_broken_example() -> None:
    follow_pins = {name for name, _, _, messages in PINNED if messages}
    assert {name for name, rows in BROKEN.items() if not rows} <= follow_pins


def test_a_good_setup_has_neither_problems_nor_warnings() -> None:
    assert problems(setup()) == []
    assert warnings(setup()) == []


def test_all_broken_rules_are_told_at_once() -> None:
    whole = replace(
        on("g4ad.xlarge", "g4dn.extra", volume_gib=1), kubernetes="1.2", system_types=("odd",), tenants=MANY
    )
    assert [problem.path for problem in problems(whole)] == [
        "gpu-nodes.instance-types[1]",
        "gpu-nodes.instance-types[0]",
        "cluster.system-nodes.instance-types[0]",
        "cluster.kubernetes",
        "models",
        "gpu-nodes.volume-gib",
    ]


def test_each_type_of_a_pool_and_each_pool_is_looked_at() -> None:
    whole = setup(pools=(pool("g4ad.xlarge"), pool(("g4dn.xlarge", "g4ad.xlarge"), name="b", path="gpu-nodes[1]")))
    assert [one.partition(":")[0] for one in found_by("GPUs are NVIDIA's", whole)] == [
        "gpu-nodes.instance-types[0]",
        "gpu-nodes[1].instance-types[1]",
    ]


def test_every_arm64_card_is_refused_by_each_part_that_has_no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    none = tuple(replace(part, architectures=frozenset({"amd64"})) for part in versions.PARTS)
    monkeypatch.setattr(versions, "PARTS", none)
    found = found_by("every part has a build for the architecture", on("g5g.xlarge"))
    assert len(found) == len(versions.PARTS)
    assert all(part.name in one for part, one in zip(versions.PARTS, found, strict=True))


@pytest.mark.parametrize("name", [name for name, known in instance_types().items() if known.arch == "arm64"])
def test_the_real_pins_run_on_graviton(name: str) -> None:
    assert found_by("every part has a build for the architecture", on(name)) == []
    assert not [problem for problem in problems(on(name)) if "types" in problem.path]


@pytest.mark.parametrize("name", [name for name, known in instance_types().items() if known.gpu.vendor == "amd"])
def test_amd_cards_are_refused_as_amds(name: str) -> None:
    assert [problem.path for problem in problems(on(name))] == ["gpu-nodes.instance-types[0]"]
    assert "AMD" in str(problems(on(name))[0])


# What rests on an unreadable setting keeps silent; what does not is told all the same.


@pytest.mark.parametrize(
    ("ours", "theirs", "touch"),
    [
        ("sharing", "sharing", True),
        ("sharing", "sharing.mode", True),
        ("sharing.mode", "sharing", True),
        ("models", "models[0].context", True),
        ("models[0].context", "models", True),
        ("models[0]", "models[0].context", True),
        ("models[1]", "models[10]", False),
        ("models[0].context", "models[0].slots", False),
        ("sharing", "sharing-more", False),
        ("gpu-nodes.min", "gpu-nodes.max", False),
    ],
)
def test_settings_touch_when_one_lies_in_the_other(ours: str, theirs: str, touch: bool) -> None:
    assert touches((ours,), (theirs,)) is touch
    assert touches((ours,), ()) is False
    assert touches(("odd", ours), ("strange", theirs)) is touch


@pytest.mark.parametrize(
    ("name", "unreadable"),
    [
        ("a pool has one kind of GPU", "gpu-nodes.instance-types[0]"),
        ("the card allows the mode", "gpu-nodes.instance-types"),
        ("the card allows the mode", "sharing.allocation-policy"),
        ("the Kubernetes version is supported", "cluster.support"),
        ("the Kubernetes version is supported", "cluster"),
        *[
            (name, path)
            for name in ("every model has a share", "the node's CPU and RAM hold the models")
            for path in (
                "models[0].name",
                "sharing",
                "gpu-nodes.instance-types[0]",
                "gpu-nodes.min",
                "gpu-nodes.desired",
                "gpu-nodes.max",
            )
        ],
        ("the node's disk holds the models", "models[1].cache"),
        ("the node's disk holds the models", "sharing.mode"),
        ("the node's disk holds the models", "gpu-nodes.instance-types"),
        ("extended support is dear", "cluster.kubernetes"),
        ("no setting is without effect", "sharing.mode"),
        ("MIG needs no reboot", "gpu-nodes.instance-types"),
        ("slices are not shared again", "sharing.mode"),
        ("no slice is idle", "models[1]"),
        ("no slice is idle", "sharing.layout[0].profile"),
        ("no slice is idle", "gpu-nodes.desired"),
        ("models get what is asked for", "models"),
        ("GPU types are known", "gpu-nodes.instance-types[0]"),
        ("the region is known", "aws:region"),
        *[
            ("the node takes as many pods", path)
            for path in (
                "models",
                "sharing",
                "gpu-nodes.instance-types",
                "gpu-nodes.min",
                "gpu-nodes.desired",
                "gpu-nodes.max",
            )
        ],
        ("system nodes hold their pods", "sharing.mode"),
        ("system nodes hold their pods", "gpu-nodes.provisioner"),
        ("the region offers the types", "aws:region"),
        ("the region offers the types", "sharing"),
        ("the region offers the types", "gpu-nodes.check-offers"),
        ("it is known what the region offers", "aws:region"),
        ("it is known what the region offers", "gpu-nodes.check-offers"),
        ("the region has the zones", "aws:region"),
        ("zones are the region's", "aws:region"),
        ("the engine loads the models", "models"),
        ("the engine quantises the caches", "models"),
        ("Karpenter cuts no cards", "sharing"),
        ("Karpenter falls back to on-demand", "gpu-nodes.instance-types"),
        ("pools with MIG have one configuration", "sharing"),
        ("no slice is idle", "gpu-nodes.instance-types"),
        ("no slice is idle", "gpu-nodes.min"),
        ("no slice is idle", "gpu-nodes.max"),
        ("MPS with Ollama is unverified", "sharing.mode"),
        ("sharing a part of a GPU is unverified", "sharing"),
        ("every pool has a model", "models"),
    ],
)
def test_a_rule_keeps_silent_about_what_rests_on_an_unreadable_setting(name: str, unreadable: str) -> None:
    whole, message = BROKEN[name][0]
    assert message in [str(one) for one in (*problems(whole), *warnings(whole))]
    assert message not in [str(one) for one in (*problems(whole, [unreadable]), *warnings(whole, [unreadable]))]


@pytest.mark.parametrize(
    ("unreadable", "told"),
    [
        ([], [0, 1]),
        (["gpu-nodes[0].instance-types[0]"], [1]),
        (["gpu-nodes[1].max"], [0]),
        (["gpu-nodes[1].name"], [0, 1]),
        (["gpu-nodes[0].sharing"], [1]),
        (["sharing.replicas"], [1]),
        (["gpu-nodes[1].sharing.mode"], [0]),
        (["gpu-nodes"], []),
        (["models[1].pool"], []),
    ],
)
def test_an_unreadable_setting_of_one_pool_silences_no_rule_about_another(
    unreadable: list[str], told: list[int]
) -> None:
    whole = several(pool(sharing=Mps()), SMALL, SMALL, SMALL, own="gpu-nodes[1].sharing")
    crowded = replace(whole, tenants=(*tenants(*[SMALL] * 3, pool="first"), *whole.tenants[1:]))
    found = [one for one in problems(crowded, unreadable) if one.rule == "every model needs a share"]
    assert [["first", "rest"].index(one.found.split()[3].rstrip(",")) for one in found] == told


def test_what_pools_with_the_stacks_sharing_have_in_common_is_told_once() -> None:
    whole = several(pool(sharing=Mps()))
    both = replace(whole, pools=(replace(whole.pools[0], sharing=Mps()), whole.pools[1]))
    assert [one.path for one in warnings(both)] == ["sharing.mode"]
    differ = replace(both, pools=(both.pools[0], replace(both.pools[1], sharing_path="gpu-nodes[1].sharing")))
    assert [one.path for one in warnings(differ)] == ["sharing.mode", "gpu-nodes[1].sharing.mode"]


def test_what_does_not_rest_on_the_unreadable_setting_is_still_told() -> None:
    whole = replace(on("g4dn.extra"), kubernetes="1.2", nat="single", nat_is_written=False)
    assert [one.path for one in problems(whole, ["sharing.mode"])] == [
        "gpu-nodes.instance-types[0]",
        "cluster.kubernetes",
    ]
    assert [one.path for one in warnings(whole, ["sharing"])] == ["cluster.nat"]


def test_the_other_types_are_told_when_one_is_unreadable() -> None:
    found = problems(on("g4dn.extra", "g4dn.odd"), ["gpu-nodes.instance-types[0]"])
    assert [one.path for one in found] == ["gpu-nodes.instance-types[1]"]


# Ways out, taken.


def written(whole: Setup, fix: str) -> list[Setup]:
    """The setups that result from each of the ways out in `fix`."""
    here = whole.pools[-1]
    found = []
    for way in fix.split("; or "):
        named = re.findall(r"`(\S+)\.([\w-]+): (\w+)`", way)
        values = {key: value for _, key, value in named}
        assert {path for path, *_ in named} <= {here.path, here.own_sharing_path}
        if "mode" in values or "replicas" in values:
            assert "mode" in values or not here.listed, "a sharing of its own needs a mode"
            name = values.get("mode", here.sharing.mode)
            new = replace(here, sharing=mode(name, int(values["replicas"])))
        else:
            assert set(values) <= {"desired", "max"}
            new = replace(here, desired=int(values.get("desired", here.desired)), max=int(values["max"]))
            assert new.max >= max(here.max, new.desired)
        found.append(replace(whole, pools=(*whole.pools[:-1], new)))
    return found


@pytest.mark.slow
@given(
    kind=st.sampled_from(["g4dn.xlarge", "g4dn.12xlarge", "p3.2xlarge", "g5g.metal", "g6f.large"]),
    name=st.sampled_from(["exclusive", "timeslice", "mps"]),
    replicas=st.integers(2, 16),
    desired=st.integers(0, 3),
    more=st.integers(0, 2),
    count=st.integers(1, 64),
    alone=st.booleans(),
    provisioner=st.sampled_from(["node-group", "karpenter"]),
)
@settings(max_examples=200)
def test_each_way_out_of_too_few_shares_leads_out(
    kind: str, name: str, replicas: int, desired: int, more: int, count: int, alone: bool, provisioner: str
) -> None:
    most = max(desired + more, 1)
    here = pool(kind, mode(name, replicas), desired=desired, max=most, provisioner=provisioner)
    whole = setup(pools=(here,), tenants=tenants(*[SMALL] * count)) if alone else several(here, *[SMALL] * count)
    broken = [one for one in problems(whole) if one.path == "models"]
    assert bool(broken) == (count > here.total_shares)
    for problem in broken:
        outs = written(whole, problem.fix)
        assert 1 <= len(outs) <= 2
        for out in outs:
            assert not {"models", "sharing.replicas"} & {one.path for one in problems(out)}, problem.fix
            assert out.pools[-1].desired == 0 or desired > 0
        nodes = outs[0].pools[-1].planned_nodes
        shares = here.total_shares // here.planned_nodes
        assert nodes == max(-(-count // shares), here.max if desired == 0 or provisioner == "karpenter" else 0)


@pytest.mark.parametrize(
    ("sharing", "count", "fix"),
    [
        (
            Mig(layout="all-2g.48gb"),
            4,
            "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`; or `sharing.layout: all-1g.24gb` for "
            "smaller slices.",
        ),
        (
            Mig(layout="all-1g.24gb"),
            5,
            "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`; or `sharing.replicas: 2`.",
        ),
        (
            Mig(layout="all-1g.24gb", replicas=2),
            9,
            "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`; or `sharing.replicas: 3`.",
        ),
        (
            Mig(layout="all-2g.48gb", replicas=2),
            8,
            "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`; or `sharing.layout: all-1g.24gb` for "
            "smaller slices.",
        ),
    ],
)
def test_a_way_out_of_too_few_slices_leads_out(sharing: Mig, count: int, fix: str) -> None:
    whole = replace(on("g7e.2xlarge", sharing=sharing), tenants=tenants(*[SMALL] * count))
    (problem,) = [one for one in problems(whole) if one.path == "models"]
    assert problem.fix == fix
    (here,) = whole.pools
    setting = re.findall(r"`sharing\.(layout|replicas): ([^`]+)`", fix)[-1]
    value: Any = int(setting[1]) if setting[0] == "replicas" else setting[1]
    out = replace(whole, pools=(replace(here, sharing=sharing.model_copy(update={setting[0]: value})),))
    assert not [one for one in problems(out) if one.path == "models"]


def test_shares_that_no_replicas_can_give_are_not_offered() -> None:
    whole = replace(on("g4dn.xlarge", sharing=TimeSlicing(replicas=64)), tenants=tenants(*[SMALL] * 65))
    (problem,) = [one for one in problems(whole) if one.path == "models"]
    assert problem.fix == "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`."


@given(count=st.integers(1, 20), volume=st.integers(1, 200))
@settings(max_examples=50)
def test_the_disk_that_is_named_is_the_smallest_that_holds_the_models(count: int, volume: int) -> None:
    whole = setup(pools=(pool(volume_gib=volume),), tenants=tenants(*["llama3.1:8b"] * count))
    for problem in [one for one in problems(whole) if one.path == "gpu-nodes.volume-gib"]:
        (number,) = re.findall(r"`volume-gib: (\d+)`", problem.fix)
        for gib, enough in ((int(number), True), (int(number) - 1, False)):
            out = replace(whole, pools=(pool(volume_gib=gib),))
            assert ("gpu-nodes.volume-gib" not in {one.path for one in problems(out)}) is enough


def test_the_kubernetes_version_that_is_named_is_fine_and_never_the_same_again() -> None:
    for version in ("1.30", "1.33", "1.34", "1.35", "1.36", "1.37", "odd"):
        for days in (0, 11, 200, 400, 700):
            whole = setup(kubernetes=version, today=TODAY + datetime.timedelta(days=days))
            for problem in (*problems(whole), *warnings(whole)):
                named = re.findall(r'`kubernetes: "([\d.]+)"`', problem.fix)
                assert named == ([] if version == "1.36" else ["1.36"]), problem


def test_the_newest_version_is_so_by_number_not_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "AMI_KUBERNETES", {"1.9": "1.9.0", "1.10": "1.10.0"})
    whole = setup(kubernetes="1.8")
    (problem,) = problems(whole)
    assert problem.rule == "must be a version with pinned add-ons: 1.9, 1.10"
    assert problem.fix == 'Write `kubernetes: "1.10"`.'


def test_rules_do_not_ask_the_clock() -> None:
    check: Callable[..., list[Problem]] = compatibility.problems
    assert check(setup(today=day("2030-01-01")))
    assert not check(setup(today=TODAY))
