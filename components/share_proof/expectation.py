"""The shares that a node is expected to offer under a mode, without Pulumi and Kubernetes."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from components.share_proof.in_pod.node import NodeExpectation
from components.share_proof.in_pod.verdict import PodExpectation
from sharing.hardware.gpus import Gpu
from sharing.modes.modes import Sharing, sharing_strategy

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
    """Memory of that GPU or slice in MiB, as CUDA reports it."""
    memory_mib: int | None
    """Memory of one share in MiB. None if every share can use the entire GPU or slice."""
    enforced: bool
    """Whether an allocation beyond the share's memory fails."""
    device: str = "gpu"
    """Kind of device that is shared: `gpu` (an entire GPU) or `slice` (a MIG slice)."""

    @property
    def strategy(self) -> str:
        """The sharing strategy, as feature discovery names it: `none`, `time-slicing` or `mps`."""
        return sharing_strategy(self.per_device, self.enforced)

    @property
    def pods(self) -> int:
        """Number of pods in the proof: one per share, up to `MOST_PODS`."""
        return min(self.per_node, MOST_PODS)

    @property
    def limit_mib(self) -> int | None:
        """Memory in MiB that one process can allocate under MPS. None under every other mode."""
        return self.memory_mib if self.strategy == "mps" else None

    @property
    def summary(self) -> str:
        """One line for logs and errors."""
        device = "slice" if self.device == "slice" else "GPU"
        if self.strategy == "none":
            how = f"one entire {device} each"
        elif self.limit_mib is not None:
            how = f"{self.per_device} per {device}, {self.limit_mib:,} MiB each, enforced"
        else:
            how = f"{self.per_device} per {device}, all of its memory visible to each"
        shares = f"{self.per_node} share{'s' if self.per_node > 1 else ''}"
        return f"{shares} of {self.resource} on a node with {self.gpus_per_node} {self.title}: {how}"

    def to_pods(self) -> PodExpectation:
        """The expectation that the pods on the shares check."""
        # NVIDIA does not document whether CUDA reports an MPS client's share or the entire GPU, so both are accepted.
        least = self.limit_mib or self.device_mib
        return PodExpectation(
            summary=self.summary,
            shares=self.per_node,
            pods=self.pods,
            per_device=self.per_device,
            sees_mib=(int(least * (1 - TOLERANCE)), int(self.device_mib * (1 + TOLERANCE))),
            limit_mib=self.limit_mib,
        )


def expectations(sharing: Sharing, gpu: Gpu, gpus_per_node: int) -> tuple[ShareExpectation, ...]:
    """The shares that a node with `gpus_per_node` GPUs offers under a mode, one expectation per resource."""
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
            device="slice" if shares.profile else "gpu",
        )
        for shares in sharing.offers(gpu)
    )


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
    same = [(each.strategy, each.gpu, each.resource, each.per_node, each.per_device, each.device) for each in expected]
    return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:8]
