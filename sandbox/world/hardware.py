"""The hardware that EC2 rents out: instance types, their GPUs, and the MIG slices of those.

The tables are the emulated cloud's own, taken from EC2's and NVIDIA's sources and not from `sharing/data`: a wrong
figure there must not become right here. tests/sandbox/world/test_hardware.py compares both.
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
    """As EC2 calls it, in lower case, e.g. `a100`."""
    memory_mib: int
    """What EC2 reports; the two A100 differ in it alone."""
    is_slice: bool
    """Whether the type has a part of one, of which EC2 counts none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """An instance type with NVIDIA GPUs."""

    name: str
    gpu: Gpu
    gpus: int
    """GPUs that the device plugin finds on a node; a part of one is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A kind of MIG slice."""

    name: str
    instances: int
    """The most on one GPU."""
    size: int
    """Memory slices that it takes, and at which it may start."""
    starts: tuple[int, ...]
    media: int
    """Sets of media engines that it takes, where they are a bound."""


def rows() -> tuple[Row, ...]:
    """Every instance type as EC2 describes it, those without a GPU too."""
    return table("ec2_instance_types")


@cache
def instance_types() -> dict[str, InstanceType]:
    """The types with NVIDIA GPUs by name."""
    return {row["instance_type"]: _instance_type(row) for row in rows() if row["manufacturer"] == "nvidia"}


@cache
def profiles(gpu: Gpu) -> dict[str, Profile]:
    """What a GPU can be cut into, by name; nothing without MIG."""
    key = (gpu.name, str(gpu.memory_mib))
    found = [row for row in table("mig_profiles") if (row["gpu"], row["gpu_memory_mib"]) == key]
    return {row["profile"]: _profile(row) for row in found}


def fits(layout: Iterable[tuple[Profile, int]], gpu: Gpu) -> bool:
    """Whether that many instances of each profile lie on one GPU together."""
    wanted = list(layout)
    engines = max((one.media for one in profiles(gpu).values()), default=0)
    if any(count > one.instances for one, count in wanted) or sum(one.media * count for one, count in wanted) > engines:
        return False
    return _lie(sorted((one for one, count in wanted for _ in range(count)), key=lambda one: -one.size), frozenset())


def _lie(pieces: Sequence[Profile], taken: frozenset[int]) -> bool:
    if not pieces:
        return True
    places = [frozenset(range(start, start + pieces[0].size)) for start in pieces[0].starts]
    return any(not place & taken and _lie(pieces[1:], taken | place) for place in places)


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
