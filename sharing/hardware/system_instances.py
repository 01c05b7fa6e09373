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
    rows = tables.read("system_instances").rows
    return {
        row["instance_type"]: SystemType(name=row["instance_type"], **tables.cells_of(row, SystemType)) for row in rows
    }
