"""Catalogue of the instance types that system nodes can have: `data/system_instances.csv`."""

from dataclasses import dataclass
from functools import cache

from sharing import tables


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemType:
    """An EC2 instance type without a GPU."""

    name: str
    vcpu: int
    memory_mib: int
    allocatable_mib: int
    """RAM that kubelet leaves for pods, as Karpenter counts it."""
    arch: str
    """`amd64` or `arm64`."""
    max_pods: int
    """Pods that fit its network interfaces, without prefix delegation."""
    usd_per_hour: float
    """On-demand price in us-east-1."""


@cache
def system_types() -> dict[str, SystemType]:
    """Every type of the catalogue by name."""
    return {
        row["instance_type"]: SystemType(
            name=row["instance_type"],
            vcpu=int(row["vcpu"]),
            memory_mib=int(row["memory_mib"]),
            allocatable_mib=int(row["allocatable_mib"]),
            arch=row["arch"],
            max_pods=int(row["max_pods"]),
            usd_per_hour=float(row["usd_per_hour"]),
        )
        for row in tables.read("system_instances").rows
    }
