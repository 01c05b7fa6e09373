"""The expectation of a share proof, and its verdict: findings and remedies.

It runs in the cluster with `shares` and uses only Python's standard library.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SMALL_MIB = 64
"""Memory that a pod without a limit allocates, to show that its share works."""
CONTEXT_MIB = 400
"""Memory reserved for the CUDA context, which counts towards an MPS limit. A generous estimate."""
MOST_LINES = 8
"""Maximum number of findings in a verdict. Kubernetes keeps 2,048 bytes of a failed container's log."""

Answer = dict[str, Any]
REMEDIES = (
    (
        "did not start",
        "Too few shares are free. Find the pods that hold them with `kubectl get pods -A -o wide`, and stop them.",
    ),
    (
        "cannot load",
        "The container has no NVIDIA driver. Use an NVIDIA variant of the EKS AMI on these nodes.",
    ),
    ("CUDA_ERROR_MPS", "Read the log of the MPS control daemon on this node."),
    ("hung", "Under MPS, a process waits while another user's processes use the MPS server. Stop those processes."),
    (
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "Another process holds the GPU, or the GPU is still in EXCLUSIVE_PROCESS mode. "
        "Stop other GPU pods on the node. If none is left, run `nvidia-smi -c 0` on the node, or replace the node.",
    ),
    ("CUDA_ERROR_NO_DEVICE", "The device plugin gave the pod no GPU. Read the plugin's log on this node."),
    ("per device", "The device plugin uses another sharing mode. Check the node's labels nvidia.com/*."),
    ("of memory visible", "The node's GPU or MIG slices are not as planned. Check its instance type."),
    ("devices visible", "The pod has devices that it did not request. Read the device plugin's log on this node."),
    (
        "no MPS daemon",
        "Read `journalctl -u tandem-mps` and /var/log/cloud-init-output.log on this node.",
    ),
    (
        "more than its share",
        "Memory is not limited, because the pod does not use the MPS daemon. Read the daemon's log.",
    ),
    (
        "of its share",
        "Another process uses GPU memory, or the shares are too small. Stop that process or use fewer replicas.",
    ),
)
"""Remedies, by words in a finding."""


@dataclass(frozen=True)
class PodExpectation:
    """The result that the pods are expected to find."""

    summary: str
    """One line for logs and errors."""
    shares: int
    """Shares of the resource on the node."""
    pods: int
    """Pods of this proof: one per share, or fewer if the node cannot run as many."""
    per_device: int
    """Shares per GPU or MIG slice."""
    sees_mib: tuple[int, int]
    """Minimum and maximum memory in MiB that a pod can see."""
    limits_mib: tuple[int, ...] = ()
    """Memory in MiB that the process of each pod can allocate, by the pod's index; empty if MPS enforces no limit."""
    own_limits: bool = False
    """Whether each pod sets its limit itself, as a client of the node's MPS daemon."""

    def above_mib(self, index: int) -> int:
        """Size in MiB of an allocation that must fail in this pod."""
        return self.limits_mib[index] + SMALL_MIB

    def within_mib(self, index: int) -> int:
        """Size in MiB of an allocation that must succeed in this pod, and in all others at once."""
        if not self.limits_mib:
            return SMALL_MIB
        limit = self.limits_mib[index]
        return max(min(limit * 4 // 5, limit - CONTEXT_MIB), limit // 4)


def find_misplaced(expected: PodExpectation, seen: Mapping[int, Answer]) -> list[str]:
    """Findings about pods with more than one device, and about devices with an unexpected number of pods."""
    found = group_by_finding(
        {index: f"{one['devices']} devices visible, expected 1" for index, one in seen.items() if one["devices"] != 1}
    )
    all_taken = expected.pods == expected.shares
    for id, pods in _by_device(seen).items():
        if len(pods) > expected.per_device or (all_taken and len(pods) < expected.per_device):
            found.append(
                f"{id} has {len(pods)} of the pods ({format_pods(pods)}), expected {expected.per_device} per device"
            )
    return found


def find_missized(expected: PodExpectation, seen: Mapping[int, Answer]) -> list[str]:
    """Findings about pods that see more or less memory than a share of the expected GPU."""
    least, most = expected.sees_mib
    wrong = {}
    for index, one in seen.items():
        sizes = [size for size in (one["total_mib"], one["info_total_mib"]) if not least <= size <= most]
        if sizes:
            wrong[index] = f"{sizes[0]:,} MiB of memory visible, expected {least:,} to {most:,} MiB"
    return group_by_finding(wrong)


def format_verdict(expected: PodExpectation, found: list[str], seen: Mapping[int, Answer], came: int) -> str:
    """The verdict as text: one line of JSON if all shares are as expected, else the failure with its remedies."""
    looked = {index: one for index, one in seen.items() if "uuid" in one}
    by_device = _by_device(looked)
    if not found:
        measured = ("total_mib", "info_total_mib", "info_free_mib")
        return json.dumps(
            {
                "proved": expected.summary,
                "devices": {id: {"name": seen[pods[0]]["name"], "pods": pods} for id, pods in by_device.items()},
                **{key: sorted({one[key] for one in seen.values()}) for key in measured},
                "held_mib": [expected.within_mib(index) for index in sorted(seen)],
                "refused_mib": [expected.above_mib(index) for index in sorted(seen)] if expected.limits_mib else None,
            }
        )
    devices = [f"{looked[pods[0]]['name']} {id} with {format_pods(pods)}" for id, pods in by_device.items()]
    facts = [f"{came} of {expected.pods} pods", *devices[:MOST_LINES]]
    more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return format_failure(expected, facts, [*found[:MOST_LINES], *more])


def format_failure(expected: PodExpectation, facts: list[str], found: list[str]) -> str:
    """A failure as text: the expectation, the facts, the findings and the remedies."""
    remedies = [remedy for word, remedy in REMEDIES if any(word in one for one in found)]
    lines = [f"expected: {expected.summary}", f"found: {'; '.join(facts)}", *(f"- {one}" for one in found), *remedies]
    return "\n".join([*lines, "Then run `pulumi up` again to repeat the proof."])


def _by_device(seen: Mapping[int, Answer]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, one in seen.items():
        found.setdefault(one["uuid"], []).append(index)
    return found


def group_by_finding(statements: Mapping[int, str]) -> list[str]:
    """The findings, with one line for all pods that have the same finding."""
    said: dict[str, list[int]] = {}
    for index, statement in statements.items():
        said.setdefault(statement, []).append(index)
    return [f"{format_pods(pods)}: {statement}" for statement, pods in said.items()]


def format_pods(indexes: list[int]) -> str:
    """The pods with these indexes, e.g. `pods 0, 2`."""
    return f"pod{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
