"""What a node is expected to offer under a mode, as the share proof checks it: no Pulumi, nothing of Kubernetes."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from components.share_proof.in_pod.node import NodeExpectation
from components.share_proof.in_pod.verdict import PodExpectation
from sharing.gpus import Gpu
from sharing.modes import Sharing, sharing_strategy

TOLERANCE = 0.1
"""Part by which the memory that CUDA shows may differ from the catalogue's: drivers differ by 2 %, the next larger or
smaller GPU or slice by half."""
MOST_PODS = 16
"""Pods of one proof. The smallest GPU nodes take 29 pods, of which daemons need a third."""


@dataclass(frozen=True, kw_only=True)
class ShareExpectation:
    """The shares of one resource on one node."""

    resource: str
    """Extended resource that a pod requests."""
    gpu: str
    """Name of the GPU in the catalogue."""
    title: str
    """Its name as people write it."""
    gpus_per_node: int
    per_node: int
    """Shares that the node offers."""
    per_device: int
    """Pods that share one GPU, or one MIG slice."""
    device_mib: int
    """Memory of that GPU or slice as CUDA shows it."""
    memory_mib: int | None
    """Memory of one share; None where all see the entire GPU or slice."""
    enforced: bool
    """Whether a process that takes more than that is refused."""
    device: str = "card"
    """What is shared: `card`, an entire GPU, or `slice`."""

    @property
    def strategy(self) -> str:
        """What feature discovery calls this way of sharing."""
        return sharing_strategy(self.per_device, self.enforced)

    @property
    def pods(self) -> int:
        """Pods that prove it: one a share, as long as the node has room for pods."""
        return min(self.per_node, MOST_PODS)

    @property
    def limit_mib(self) -> int | None:
        """What MPS lets one process allocate; None under every other mode."""
        return self.memory_mib if self.strategy == "mps" else None

    @property
    def summary(self) -> str:
        """One line for logs and errors."""
        device = "slice" if self.device == "slice" else "GPU"
        if self.strategy == "none":
            how = f"an entire {device} each"
        elif self.limit_mib is not None:
            how = f"{self.per_device} to a {device}, {self.limit_mib:,} MiB each, enforced"
        else:
            how = f"{self.per_device} to a {device}, each seeing all of its memory"
        shares = f"{self.per_node} share{'s' if self.per_node > 1 else ''}"
        return f"{shares} of {self.resource} on a node with {self.gpus_per_node} {self.title}: {how}"

    def to_pods(self) -> PodExpectation:
        """What the pods on the shares check."""
        # Whether CUDA shows a client of MPS its share or the GPU is documented nowhere, so both are accepted.
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
    """What a node with that many GPUs offers under a mode, one expectation a resource."""
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
            device="slice" if shares.profile else "card",
        )
        for shares in sharing.offers(gpu)
    )


def node_expectation(sharing: Sharing, gpu: Gpu, expected: Sequence[ShareExpectation]) -> NodeExpectation:
    """What the pod that reads the node checks."""
    return NodeExpectation(
        summary="; ".join(one.summary for one in expected),
        allocatable={one.resource: one.per_node for one in expected},
        labels={**sharing.discovered_labels(gpu), **sharing.ready_labels},
    )


def fingerprint(expected: Sequence[ShareExpectation]) -> str:
    """Eight characters that change with mode, replicas, layout and GPU, and with nothing else.

    Memory is left out: a corrected catalogue is no reason to stop the models and prove again.
    """
    same = [(one.strategy, one.gpu, one.resource, one.per_node, one.per_device, one.device) for one in expected]
    return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:8]
