"""The shares that a node is expected to offer under a mode, without Pulumi and Kubernetes."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from components.share_proof.in_pod.node import NodeExpectation
from components.share_proof.in_pod.verdict import PodExpectation
from sharing.hardware.gpus import Gpu
from sharing.modes.base import Shares
from sharing.modes.modes import Sharing

TOLERANCE = 0.1
"""Accepted relative difference between the memory that CUDA reports and the catalogue's. Drivers differ by 2 %; the
next larger or smaller GPU or slice differs by half.
"""
MOST_PODS = 16
"""Maximum number of pods in a proof. The smallest GPU nodes can run 29 pods, and daemons need a third of them."""


@dataclass(frozen=True, kw_only=True)
class ShareExpectation:
    """The expected shares of one resource on one node."""

    resource: str
    """Extended resource that a pod requests, e.g. `nvidia.com/gpu`."""
    gpu: str
    """Catalogue name of the GPU, e.g. `t4`."""
    title: str
    """Display name of the GPU, e.g. `T4`."""
    gpus_per_node: int
    per_node: int
    """Shares that the node offers."""
    per_device: int
    """Number of pods that share one GPU or one MIG slice."""
    device_mib: int
    """Memory of that GPU or slice in MiB that CUDA can use; with limits per model, without that of the MPS server."""
    memory_mib: int | None
    """Memory of one share in MiB. None if every share can use the entire GPU or slice."""
    enforced: bool
    """Whether an allocation beyond the share's memory fails."""
    strategy: str
    """What the device plugin does, as feature discovery names it: `none`, `time-slicing` or `mps`."""
    device: str = "gpu"
    """Kind of device that is shared: `gpu` (an entire GPU) or `slice` (a MIG slice)."""
    own_limits_mib: tuple[int, ...] = ()
    """Memory in MiB that each pod can allocate, if pods have limits of their own: one pod for each."""

    @property
    def pods(self) -> int:
        """Number of pods in the proof: one per share or limit, up to `MOST_PODS`."""
        return min(self.per_node, len(self.own_limits_mib) or self.per_node, MOST_PODS)

    @property
    def limits_mib(self) -> tuple[int, ...]:
        """Memory in MiB that the process of each pod can allocate under MPS. Empty under every other mode."""
        if self.own_limits_mib:
            return self.own_limits_mib[: self.pods]
        return (self.memory_mib,) * self.pods if self.strategy == "mps" and self.memory_mib else ()

    @property
    def summary(self) -> str:
        """One line for logs and errors."""
        device = "slice" if self.device == "slice" else "GPU"
        if self.strategy == "none":
            how = f"one entire {device} each"
        elif self.own_limits_mib:
            how = f"{self.per_device} per {device}, {_name_limits(self.limits_mib)}, enforced"
        elif self.limits_mib:
            how = f"{self.per_device} per {device}, {self.memory_mib:,} MiB each, enforced"
        else:
            how = f"{self.per_device} per {device}, all of its memory visible to each"
        shares = f"{self.per_node} share{'s' if self.per_node > 1 else ''}"
        return f"{shares} of {self.resource} on a node with {self.gpus_per_node} {self.title}: {how}"

    def to_pods(self) -> PodExpectation:
        """The expectation that the pods on the shares check."""
        # On an H100, CUDA reported the entire GPU to an MPS client, and its limit as free (docs/benchmarks). Older
        # drivers may report the share as the total, so both are accepted.
        least = min(self.limits_mib, default=self.device_mib)
        return PodExpectation(
            summary=self.summary,
            shares=self.per_node,
            pods=self.pods,
            per_device=self.per_device,
            sees_mib=(int(least * (1 - TOLERANCE)), int(self.device_mib * (1 + TOLERANCE))),
            limits_mib=self.limits_mib,
            own_limits=bool(self.own_limits_mib),
        )


def expectations(
    sharing: Sharing, gpu: Gpu, gpus_per_node: int, limits_mib: Sequence[int] = ()
) -> tuple[ShareExpectation, ...]:
    """The shares that a node with `gpus_per_node` GPUs offers under a mode, one expectation per resource.

    `limits_mib` are those of pods that have their own; without any, each gets an equal part.
    """
    return tuple(
        ShareExpectation(
            resource=shares.resource,
            gpu=gpu.name,
            title=gpu.title,
            gpus_per_node=gpus_per_node,
            per_node=shares.per_gpu * gpus_per_node,
            per_device=shares.sharers,
            device_mib=shares.unit_mib,
            memory_mib=shares.memory_mib,
            enforced=shares.enforced,
            strategy=shares.strategy,
            device="slice" if shares.profile else "gpu",
            own_limits_mib=(tuple(limits_mib) or _equal_limits(shares)) if shares.own_limits else (),
        )
        for shares in sharing.offers(gpu)
    )


def _name_limits(limits_mib: Sequence[int]) -> str:
    *others, last = [f"{limit:,}" for limit in limits_mib]
    if len(set(limits_mib)) == 1:
        return f"a limit of {last} MiB{' each' if others else ''}"
    return f"limits of {', '.join(others)} and {last} MiB"


def _equal_limits(shares: Shares) -> tuple[int, ...]:
    return (shares.unit_mib // shares.sharers,) * shares.sharers


def judge_limits(limits_mib: Sequence[int], sharing: Sharing, gpu: Gpu) -> str:
    """Why a GPU cannot have these limits at once, with the fix; empty if it can."""
    [shares, *_] = sharing.offers(gpu)
    if not shares.own_limits:
        return 'needs `sharing=Mps(limits="per-model")`. Remove it.'
    if len(limits_mib) > shares.sharers:
        return f"has {len(limits_mib)} limits for {shares.sharers} shares. Pass at most {shares.sharers}."
    if min(limits_mib) < 1:
        return f"has a limit of {min(limits_mib)}. Pass 1 or more."
    if sum(limits_mib) > shares.unit_mib:
        return f"is {sum(limits_mib):,} in total, but one {gpu.title} has {shares.unit_mib:,}. Pass smaller limits."
    return ""


def verified(expected: ShareExpectation) -> dict[str, Any]:
    """What a proof says of the shares. Without the limits of single pods: a new limit does not repeat the proof."""
    return {key: value for key, value in asdict(expected).items() if key not in ("own_limits_mib", "strategy")}


def node_expectation(sharing: Sharing, gpu: Gpu, expected: Sequence[ShareExpectation]) -> NodeExpectation:
    """The expectation that the pod that reads the node checks."""
    return NodeExpectation(
        summary="; ".join(each.summary for each in expected),
        allocatable={each.resource: each.per_node for each in expected},
        labels={**sharing.discovered_labels(gpu), **sharing.ready_labels},
    )


def fingerprint(expected: Sequence[ShareExpectation]) -> str:
    """Eight characters that change only with mode, replicas, layout and GPU.

    Memory is left out, because a corrected catalogue must not stop the models and repeat the proof.
    """
    same = [
        (each.strategy, each.gpu, each.resource, each.per_node, each.per_device, each.device)
        + (("own limits",) if each.own_limits_mib else ())
        for each in expected
    ]
    return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:8]
