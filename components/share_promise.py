"""What a node is promised to offer under a mode, as the share proof checks it: no Pulumi, nothing of Kubernetes."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sharing.gpus import Gpu
from sharing.modes import LAYOUT_STATE_LABEL, Sharing

MPS_LABEL = "nvidia.com/mps.capable"
"""Node label on which the MPS daemon is scheduled."""
TOLERANCE = 0.1
"""Part by which the memory that CUDA shows may differ from the catalogue's: drivers differ by 2 %, the next larger or
smaller card or slice by half."""
MOST_PODS = 16
"""Pods of one proof. The smallest GPU nodes take 29 pods, of which daemons need a third."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The shares of one resource on one node."""

    resource: str
    """Extended resource that a pod requests."""
    gpu: str
    """Name of the card in the catalogue."""
    title: str
    """Its name as people write it."""
    gpus_per_node: int
    per_node: int
    """Shares that the node offers."""
    per_device: int
    """Pods that share one card, or one MIG slice."""
    device_mib: int
    """Memory of that card or slice as CUDA shows it."""
    memory_mib: int | None
    """Memory of one share; None where all see the whole card or slice."""
    enforced: bool
    """Whether a process that takes more than that is refused."""
    device: str = "card"
    """What is shared: `card`, or `slice`."""

    @property
    def strategy(self) -> str:
        """What feature discovery calls this way of sharing."""
        if self.per_device == 1:
            return "none"
        return "mps" if self.enforced else "time-slicing"

    @property
    def pods(self) -> int:
        """Pods that prove it: one a share, as long as the node has room for pods."""
        return min(self.per_node, MOST_PODS)

    @property
    def limit_mib(self) -> int | None:
        """What MPS lets one process allocate; None under every other way."""
        return self.memory_mib if self.strategy == "mps" else None

    @property
    def told(self) -> str:
        """The promise in words."""
        if self.strategy == "none":
            how = f"a whole {self.device} each"
        elif self.limit_mib is not None:
            how = f"{self.per_device} to a {self.device}, {self.limit_mib:,} MiB each, enforced"
        else:
            how = f"{self.per_device} to a {self.device}, each seeing all of its memory"
        shares = f"{self.per_node} share{'s' if self.per_node > 1 else ''}"
        return f"{shares} of {self.resource} on a node with {self.gpus_per_node} {self.title}: {how}"

    def to_pods(self) -> dict[str, Any]:
        """What the pods on the shares are told; see `share_prober.Promise`."""
        # Whether CUDA shows a client of MPS its share or the card is documented nowhere, so both will do.
        least = self.limit_mib or self.device_mib
        return {
            "told": self.told,
            "shares": self.per_node,
            "pods": self.pods,
            "per_device": self.per_device,
            "sees_mib": [int(least * (1 - TOLERANCE)), int(self.device_mib * (1 + TOLERANCE))],
            "limit_mib": self.limit_mib,
        }


def promises(sharing: Sharing, gpu: Gpu, gpus_per_node: int) -> tuple[Promise, ...]:
    """What a node with so many of these cards offers under a mode, one promise a resource."""
    return tuple(
        Promise(
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


def to_node(promised: Sequence[Promise]) -> dict[str, Any]:
    """What the node's reader is told; see `node_prober.Promise`. Labels: k8s-device-plugin internal/lm/resource.go."""
    labels = {}
    for one in promised:
        labels[f"{one.resource}.sharing-strategy"] = one.strategy
        labels[f"{one.resource}.replicas"] = str(one.per_device)
    if any(one.device == "slice" for one in promised):
        labels[LAYOUT_STATE_LABEL] = "success"
    # Feature discovery writes it under every mode (k8s-device-plugin internal/lm/nvml.go, newSharingLabeler). `false`
    # takes the MPS daemon off the node, and the GPU leaves EXCLUSIVE_PROCESS mode after that.
    labels[MPS_LABEL] = str(any(one.strategy == "mps" for one in promised)).lower()
    return {
        "told": "; ".join(one.told for one in promised),
        "allocatable": {one.resource: one.per_node for one in promised},
        "labels": labels,
    }


def fingerprint(promised: Sequence[Promise]) -> str:
    """Eight characters that change with mode, replicas, layout and GPU, and with nothing else.

    Memory is left out: a corrected catalogue is no reason to stop the models and prove again.
    """
    same = [(one.strategy, one.gpu, one.resource, one.per_node, one.per_device, one.device) for one in promised]
    return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:8]
