"""MIG: the slices that a GPU can be partitioned into, from `data/mig_profiles.csv`, and which combinations fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from sharing import tables
from sharing.hardware.gpus import Gpu, gpus

DERIVED_FRACTION = 0.9
"""The least fraction of an even share of NVML's total that a slice has. The lowest measured is 91 % (H200, 1g.18gb)."""
BALANCED = {8: ((1, 2), (2, 1), (4, 1)), 4: ((1, 2), (2, 1))}
"""NVIDIA's `all-balanced`, by the memory slices of a GPU: size and number of the slices. Source: gpu-operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A kind of slice that a GPU can be partitioned into."""

    name: str
    """NVIDIA's, e.g. `1g.24gb`: compute slices and rounded memory; `+me`, `-me`, `+gfx` are variants."""
    slices: int
    """Memory slices of the GPU that it takes."""
    starts: tuple[int, ...]
    """Memory slices at which it may begin."""
    most: int
    """Most instances on one GPU."""
    media: int
    """Sets of media engines that it takes; 0 if they are no limit."""
    memory_mib: int
    """Memory that CUDA programs can use in it, in MiB."""
    memory_is_derived: bool
    """True when that is `DERIVED_FRACTION` of an even share, not a measurement."""

    @property
    def label(self) -> str:
        """The name in labels and resources, which allow no `+`."""
        return self.name.replace("+", ".")

    @property
    def resource(self) -> str:
        """Extended resource of such a slice under the strategy `mixed`."""
        return f"nvidia.com/mig-{self.label}"

    @property
    def is_plain(self) -> bool:
        """Whether it is not a variant that differs only in media or graphics engines."""
        return "+" not in self.name and "-" not in self.name


Layout = tuple[tuple[Profile, int], ...]
"""Profiles of one GPU, each with its number of instances."""


def profiles(gpu: Gpu) -> dict[str, Profile]:
    """Profiles of `gpu` by name; empty for a GPU without MIG."""
    return _profiles().get(gpu.name, {})


@cache
def _profiles() -> dict[str, dict[str, Profile]]:
    by_gpu: dict[str, dict[str, Profile]] = {}
    for gpu, rows in _rows_by_gpu().items():
        total = max(int(row["slices"]) for row in rows)
        by_gpu[gpu] = {row["profile"]: _profile(row, gpus()[gpu], total) for row in rows}
    return by_gpu


def _rows_by_gpu() -> dict[str, list[tables.Row]]:
    rows: dict[str, list[tables.Row]] = {}
    for row in tables.read("mig_profiles").rows:
        rows.setdefault(row["gpu"], []).append(row)
    return rows


def _profile(row: tables.Row, gpu: Gpu, total: int) -> Profile:
    memory = int(row["memory_mib"] or gpu.nvml_mib * int(row["slices"]) / total * DERIVED_FRACTION)
    starts = tuple(int(start) for start in row["starts"].split())
    derived = {
        "name": row["profile"],
        "starts": starts,
        "memory_mib": memory,
        "memory_is_derived": not row["memory_mib"],
    }
    return Profile(**{**tables.cells_of(row, Profile), **derived})


def memory_slices(gpu: Gpu) -> int:
    """Memory slices of a GPU with MIG: as many as its largest profile takes."""
    return max(profile.slices for profile in profiles(gpu).values())


def media_engines(gpu: Gpu) -> int:
    """Sets of media engines of a GPU with MIG, if they are a limit."""
    return max(profile.media for profile in profiles(gpu).values())


def gpus_with(profile: str) -> list[str]:
    """Titles of the GPUs that have a profile of that name or label."""
    named = {
        gpu: {spelled for each in its_profiles.values() for spelled in (each.name, each.label)}
        for gpu, its_profiles in _profiles().items()
    }
    return [gpus()[gpu].title for gpu, names in named.items() if profile in names]


def every_resource() -> list[str]:
    """The resources of all slices of all GPUs, under the strategy `mixed`."""
    return sorted({profile.resource for its_profiles in _profiles().values() for profile in its_profiles.values()})


@cache
def presets(gpu: Gpu) -> dict[str, Layout]:
    """Layouts of `gpu` with NVIDIA's names: `all-<profile>` with as many as fit, and `all-balanced`."""
    its_profiles = profiles(gpu).values()
    by_name: dict[str, Layout] = {f"all-{profile.label}": ((profile, profile.most),) for profile in its_profiles}
    sizes = {profile.slices: profile for profile in reversed([*its_profiles]) if profile.is_plain and _is_even(profile)}
    if its_profiles and (shape := BALANCED.get(memory_slices(gpu))):
        by_name["all-balanced"] = tuple((sizes[size], count) for size, count in shape)
    return by_name


def _is_even(profile: Profile) -> bool:
    """Whether memory and compute are divided alike; `1g.10gb` of an A100-40GB has the memory of two slices."""
    return profile.slices == 1 or not profile.name.startswith("1g.")


def name(layout: Layout) -> str:
    """A complete name, e.g. `2x1g.24gb_1x2g.48gb`: valid in a label, and the same for the same slices."""
    return "_".join(f"{count}x{profile.label}" for profile, count in sorted(layout, key=lambda pair: pair[0].name))


def fits(layout: Layout, gpu: Gpu) -> bool:
    """Whether the slices fit on one GPU."""
    return (
        all(count <= profile.most for profile, count in layout)
        and sum(profile.media * count for profile, count in layout) <= media_engines(gpu)
        and _has_places(layout)
    )


def _has_places(layout: Layout) -> bool:
    pieces = [(profile.slices, profile.starts) for profile, count in layout for _ in range(count)]
    return _placed(tuple(sorted(pieces)), taken=0)


@cache
def _placed(pieces: tuple[tuple[int, tuple[int, ...]], ...], taken: int) -> bool:
    """Whether every piece fits into the memory slices that the bits of `taken` leave free.

    A piece is its number of slices and the positions at which it may begin.
    """
    if not pieces:
        return True
    (slices, starts), rest = pieces[0], pieces[1:]
    wanted = (((1 << slices) - 1) << start for start in starts)
    return any(not taken & place and _placed(rest, taken | place) for place in wanted)


def reduced(layout: Layout, gpu: Gpu) -> Layout:
    """As much of `layout` as fits, the first entries first."""
    kept: Layout = ()
    for profile, count in layout:
        fewer = next((n for n in range(min(count, profile.most), 0, -1) if fits((*kept, (profile, n)), gpu)), 0)
        kept = (*kept, (profile, fewer)) if fewer else kept
    return kept


@cache
def layouts(gpu: Gpu) -> tuple[Layout, ...]:
    """Useful layouts of `gpu`: plain profiles that fill it; the most slices first, equal slices before mixed ones."""
    plain = [profile for profile in profiles(gpu).values() if profile.is_plain]
    counts = product(*([*range(profile.most), profile.most] for profile in plain))
    every = (tuple((profile, count) for profile, count in zip(plain, each, strict=True) if count) for each in counts)
    full = [layout for layout in every if layout and fits(layout, gpu) and _is_full(layout, plain, gpu)]
    return tuple(sorted(full, key=lambda layout: (-sum(count for _, count in layout), len(layout), name(layout))))


def _is_full(layout: Layout, plain: Sequence[Profile], gpu: Gpu) -> bool:
    """Whether no further slice fits."""
    counts = dict(layout)
    return not any(fits(tuple({**counts, more: counts.get(more, 0) + 1}.items()), gpu) for more in plain)
