"""Instance types as EC2 describes them, from its own source, because `sharing/data` could repeat an error there."""

from functools import cache

from sandbox.world.tables import Row, table


def rows() -> tuple[Row, ...]:
    """Every instance type, including those without a GPU."""
    return table("ec2_instance_types")


def gpus(kind: str) -> int:
    """Number of NVIDIA GPUs that the device plugin finds on a node. A part of a GPU counts as one, in EC2 as none."""
    row = _by_name().get(kind, {})
    return int(row["gpus"]) or 1 if row.get("manufacturer") == "nvidia" else 0


def vcpus(kind: str) -> int:
    """vCPUs of an instance type."""
    return int(_by_name()[kind]["vcpu"])


@cache
def _by_name() -> dict[str, Row]:
    return {row["instance_type"]: row for row in rows()}
