"""EC2's hardware: instance types, their GPUs, and MIG slices.

The emulated cloud has its own tables from EC2's and NVIDIA's sources. It does not use `sharing/data`, because it would
repeat an error there. tests/sandbox/world/test_hardware.py compares both.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The GPU of an instance type."""

    name: str
    """EC2's name of the GPU in lower case, e.g. `a100`."""
    memory_mib: int
    """Memory that EC2 reports. It is the only difference between the two A100 models."""
    is_slice: bool
    """Whether the instance type has only a part of a GPU. EC2 reports such types with no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """An instance type with NVIDIA GPUs."""

    name: str
    gpu: Gpu
    gpus: int
    """Number of GPUs that the device plugin finds on a node. A part of a GPU counts as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A MIG profile."""

    name: str
    instances: int
    """Maximum number of instances on one GPU."""
    size: int
    """Number of memory slices that it uses, and positions at which it can start."""
    starts: tuple[int, ...]
    media: int
    """Number of media engine sets that it uses, if they are limited."""


def rows() -> tuple[Row, ...]:
    """Every instance type as EC2 describes it, including those without a GPU."""
    return table("ec2_instance_types")


@cache
def instance_types() -> dict[str, InstanceType]:
    """The instance types with NVIDIA GPUs, by name."""
    return {row["instance_type"]: _instance_type(row) for row in rows() if row["manufacturer"] == "nvidia"}


@cache
def profiles(gpu: Gpu) -> dict[str, Profile]:
    """The MIG profiles of a GPU by name; empty without MIG."""
    key = (gpu.name, str(gpu.memory_mib))
    found = [row for row in table("mig_profiles") if (row["gpu"], row["gpu_memory_mib"]) == key]
    return {row["profile"]: _profile(row) for row in found}


def fits(layout: Iterable[tuple[Profile, int]], gpu: Gpu) -> bool:
    """Whether one GPU can have all of these instances at the same time."""
    wanted = list(layout)
    engines = max((one.media for one in profiles(gpu).values()), default=0)
    if any(count > one.instances for one, count in wanted) or sum(one.media * count for one, count in wanted) > engines:
        return False
    return _have_places(
        sorted((one for one, count in wanted for _ in range(count)), key=lambda one: -one.size), frozenset()
    )


def _have_places(pieces: Sequence[Profile], taken: frozenset[int]) -> bool:
    if not pieces:
        return True
    places = [frozenset(range(start, start + pieces[0].size)) for start in pieces[0].starts]
    return any(not place & taken and _have_places(pieces[1:], taken | place) for place in places)


def _instance_type(row: Row) -> InstanceType:
    gpu = Gpu(name=row["gpu"], memory_mib=int(row["gpu_memory_mib"]), is_slice=row["gpus"] == "0")
    return InstanceType(name=row["instance_type"], gpu=gpu, gpus=int(row["gpus"]) or 1)


def _profile(row: Row) -> Profile:
    return Profile(
        name=row["profile"],
        instances=int(row["instances"]),
        size=int(row["size"]),
        starts=tuple(map(int, row["starts"].split())),
        media=int(row["media"] or 0),
    )


@cache
def table(name: str) -> tuple[Row, ...]:
    """A table of `sandbox/data`, without the lines that name its source."""
    lines = files("sandbox").joinpath("data", f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))
