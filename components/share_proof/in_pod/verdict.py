"""What a share proof expects of its pods, and what it says of them: findings, and what to do.

Shipped to the cluster with `shares`: Python's standard library alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SMALL_MIB = 64
"""Allocated where no limit is expected: the share works at all."""
CONTEXT_MIB = 400
"""Left of an MPS share for the context itself, which counts against the limit; a guess above what contexts take."""
MOST_LINES = 8
"""Findings listed one by one: of a failed container's log, Kubernetes keeps 2,048 bytes."""

Answer = dict[str, Any]
REMEDIES = (
    (
        "did not start",
        "Too few shares are free. List the pods that hold them: `kubectl get pods -A -o wide`.",
    ),
    (
        "cannot load",
        "The container has no NVIDIA driver. Use an NVIDIA variant of the EKS AMI on these nodes.",
    ),
    ("CUDA_ERROR_MPS", "Read the log of the MPS control daemon on this node."),
    ("hung", "Under MPS, a process waits while processes of another user hold the server. Stop those processes."),
    (
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "Another process holds the GPU, or the GPU is still in EXCLUSIVE_PROCESS mode. "
        "Stop other GPU pods on the node. If none is left, run `nvidia-smi -c 0` on the node, or replace the node.",
    ),
    ("CUDA_ERROR_NO_DEVICE", "The device plugin gave the pod no GPU. Read the plugin's log on this node."),
    ("are expected", "The device plugin shares GPUs in another way. Check the node's labels nvidia.com/*."),
    ("of memory visible", "The node has another GPU, or other slices, than planned. Check its instance type."),
    ("devices visible", "The pod got devices that it did not request. Read the device plugin's log on this node."),
    ("more than its share", "Memory is not limited: the pod does not use the MPS daemon. Read the daemon's log."),
    ("of its share", "Another process holds memory of the GPU, or the shares are too small. Use fewer replicas."),
)
"""What to do, by words of a finding."""


@dataclass(frozen=True)
class PodExpectation:
    """What the pods are expected to find."""

    summary: str
    """One line for logs and errors."""
    shares: int
    """Shares of the resource on the node."""
    pods: int
    """Pods of this proof: one a share, or fewer where the node takes no more."""
    per_device: int
    """Shares of one card, or of one MIG slice."""
    sees_mib: tuple[int, int]
    """Least and most memory that a pod may see."""
    limit_mib: int | None
    """What one process may allocate, where that is enforced by MPS."""

    @property
    def above_mib(self) -> int:
        """An allocation that must fail."""
        return (self.limit_mib or 0) + SMALL_MIB

    @property
    def within_mib(self) -> int:
        """An allocation that must succeed in all pods at once."""
        if self.limit_mib is None:
            return SMALL_MIB
        return max(min(self.limit_mib * 4 // 5, self.limit_mib - CONTEXT_MIB), self.limit_mib // 4)


def find_misplaced(expected: PodExpectation, seen: Mapping[int, Answer]) -> list[str]:
    """Pods with more than one device, and devices with another number of pods than expected."""
    found = group_by_finding(
        {
            index: f"{one['devices']} devices visible instead of one"
            for index, one in seen.items()
            if one["devices"] != 1
        }
    )
    all_taken = expected.pods == expected.shares
    for id, pods in _by_device(seen).items():
        if len(pods) > expected.per_device or (all_taken and len(pods) < expected.per_device):
            found.append(
                f"{id} has {len(pods)} of the pods ({format_pods(pods)}); {expected.per_device} are expected on each"
            )
    return found


def find_missized(expected: PodExpectation, seen: Mapping[int, Answer]) -> list[str]:
    """Pods that see more or less memory than a share of the expected GPU shows."""
    least, most = expected.sees_mib
    wrong = {}
    for index, one in seen.items():
        sizes = [size for size in (one["total_mib"], one["info_total_mib"]) if not least <= size <= most]
        if sizes:
            wrong[index] = f"{sizes[0]:,} MiB of memory visible, not {least:,} to {most:,}"
    return group_by_finding(wrong)


def format_verdict(expected: PodExpectation, found: list[str], seen: Mapping[int, Answer], came: int) -> str:
    """The verdict as text: one line of JSON when all is as expected, else what was expected, found, and what to do."""
    looked = {index: one for index, one in seen.items() if "uuid" in one}
    by_device = _by_device(looked)
    if not found:
        measured = ("total_mib", "info_total_mib", "info_free_mib")
        return json.dumps(
            {
                "proved": expected.summary,
                "devices": {id: {"name": seen[pods[0]]["name"], "pods": pods} for id, pods in by_device.items()},
                **{key: sorted({one[key] for one in seen.values()}) for key in measured},
                "held_mib": expected.within_mib,
                "refused_mib": None if expected.limit_mib is None else expected.above_mib,
            }
        )
    devices = [f"{looked[pods[0]]['name']} {id} with {format_pods(pods)}" for id, pods in by_device.items()]
    facts = [f"{came} of {expected.pods} pods", *devices[:MOST_LINES]]
    more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return format_failure(expected, facts, [*found[:MOST_LINES], *more])


def format_failure(expected: PodExpectation, facts: list[str], found: list[str]) -> str:
    """What was expected and found, what differs, what to do."""
    remedies = [remedy for word, remedy in REMEDIES if any(word in one for one in found)]
    lines = [f"expected: {expected.summary}", f"found: {'; '.join(facts)}", *(f"- {one}" for one in found), *remedies]
    return "\n".join([*lines, "Then run `pulumi up` again; it repeats the proof."])


def _by_device(seen: Mapping[int, Answer]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, one in seen.items():
        found.setdefault(one["uuid"], []).append(index)
    return found


def group_by_finding(statements: Mapping[int, str]) -> list[str]:
    """The same said of several pods is said once."""
    said: dict[str, list[int]] = {}
    for index, statement in statements.items():
        said.setdefault(statement, []).append(index)
    return [f"{format_pods(pods)}: {statement}" for statement, pods in said.items()]


def format_pods(indexes: list[int]) -> str:
    """The pods with these indexes, e.g. `pods 0, 2`."""
    return f"pod{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
