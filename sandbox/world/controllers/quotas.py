"""EC2's vCPU quotas: running vCPUs, limits, and the peak."""

import sys
from collections import Counter

from sandbox.world import tokens
from sandbox.world.controllers.hardware import vcpus
from sandbox.world.entities import Entities

CODES = {
    # G and VT instances, and standard ones.
    (True, False): "L-DB2E81BA",
    (True, True): "L-3819A6DF",
    (False, False): "L-1216C47A",
    (False, True): "L-34B43A08",
}
"""Codes in the Service Quotas API, by family and whether the instance is spot. P instances, of which no emulated
stack has any, count as standard ones. Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""
Launch = tuple[str, bool]
"""An instance type, and whether the instance is spot."""


def code(kind: str, spot: bool) -> str:
    """Code of the quota that counts such an instance."""
    return CODES[kind.startswith("g"), spot]


def room(entities: Entities, kind: str, spot: bool) -> int:
    """Number of instances of this type that the quota still allows."""
    counted = code(kind, spot)
    if counted not in entities.quotas:
        return sys.maxsize
    return max((entities.quotas[counted] - _used(entities)[counted]) // vcpus(kind), 0)


def note_peak(entities: Entities) -> None:
    """Records the peak of running vCPUs."""
    for counted, now in _used(entities).items():
        entities.peaks[counted] = max(entities.peaks.get(counted, 0), now)


def exceeded(spot: bool) -> str:
    """EC2's error for a launch that exceeds the quota.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
    """
    if spot:
        return "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded"
    return (
        "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your "
        "current vCPU limit allows for the instance bucket that the specified instance type belongs to"
    )


def _used(entities: Entities) -> Counter[str]:
    running = [
        (str(entity.inputs["instanceType"]), entity.inputs.get("lifecycle") == "spot")
        for entity in entities.of(tokens.INSTANCE)
    ]
    used: Counter[str] = Counter()
    for kind, spot in running:
        used[code(kind, spot)] += vcpus(kind)
    return used
