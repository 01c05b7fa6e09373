"""EC2's vCPU quotas: running vCPUs, limits, and the peak."""

import re
from collections import Counter

from sandbox.world import tokens
from sandbox.world.controllers.hardware import vcpus
from sandbox.world.entities import Entities

FAMILIES = {"g": "G", "gr": "G", "p3": "P", "p4": "P", "p5": "P5", "p6": "P6"}
"""Families, some by generation, whose instances have their own quotas. All others here count as standard instances.
Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""
CODES = {
    ("G", False): "L-DB2E81BA",
    ("G", True): "L-3819A6DF",
    ("P", False): "L-417A185B",
    ("P", True): "L-7212CCBC",
    ("P5", False): "L-417A185B",
    ("P5", True): "L-C4BD4855",
    ("P6", False): "L-417A185B",
    # The page has no quota for P6 spot, and public programs disagree, so there is no limit here.
    ("P6", True): "",
    ("standard", False): "L-1216C47A",
    ("standard", True): "L-34B43A08",
}
"""Codes in the Service Quotas API, by family and whether the instance is spot. Source: the same page."""
Launch = tuple[str, bool]
"""An instance type, and whether the instance is spot."""


def code(kind: str, spot: bool) -> str:
    """Code of the quota that counts such an instance."""
    letters, generation = re.findall(r"^([a-z]*)(\d*)", kind)[0]
    family = FAMILIES.get(letters) or FAMILIES.get(letters + generation, "standard")
    return CODES[family, spot]


def room(entities: Entities, kind: str, spot: bool) -> int:
    """Number of instances of this type that the quota still allows."""
    counted = code(kind, spot)
    if counted not in entities.quotas:
        return 1_000_000
    return max(entities.quotas[counted] - _used(entities)[counted], 0) // vcpus(kind)


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
