"""Catalogue of GPUs and of the instance types that carry them: `data/gpu_memory.csv` and `gpu_instances.csv`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from sharing import tables
from sharing.problems import did_you_mean

CUDA_FRACTION_OF_NVML = 0.98
"""Fraction of NVML's total that CUDA can use if it is not measured: 98 % or more on every GPU but the T4."""

FRACTIONAL_SLICES = 0
"""GPU count that EC2 reports for a type with only part of a GPU (g6f, gr6f)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, or the part of one that an instance type has."""

    name: str
    vendor: str
    """`nvidia` or `amd`."""
    compute_capability: tuple[int, int]
    nvml_mib: int
    """Total memory as NVML (nvidia-smi) shows it, in MiB. MPS divides it by its replicas."""
    cuda_mib: int
    """Memory that CUDA programs can use, in MiB: the limit for models."""
    cuda_is_derived: bool
    """True when `cuda_mib` is `CUDA_FRACTION_OF_NVML` of `nvml_mib`, not a measurement."""
    context_mib: int
    """Memory that CUDA itself takes for one process, in MiB; it grows with the multiprocessors of the GPU."""
    context_spread_mib: int
    """Margin above `context_mib`."""
    min_driver: int
    """Oldest driver branch that supports the GPU; 0 if every pinned one does."""
    max_driver: int
    """Newest driver branch that supports the GPU; 0 if there is no such limit."""
    mig_min_driver: int
    """Oldest driver branch that can partition the GPU; 0 if it has no MIG."""
    is_slice: bool = False
    source: str

    @property
    def title(self) -> str:
        """The name as people write it, e.g. `T4`, or `L4 slice of 2,861 MiB`."""
        name = self.name.partition("/")[0].upper()
        return f"{name} slice of {self.nvml_mib:,} MiB" if self.is_slice else name


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """An EC2 instance type with at least one GPU."""

    name: str
    vcpu: int
    memory_mib: int
    allocatable_mib: int
    """RAM that kubelet leaves for pods, as Karpenter counts it; real nodes leave a little more."""
    max_pods: int
    """Pods that fit its network interfaces, without prefix delegation."""
    gpu: Gpu
    gpus: int
    """GPUs (or parts of one) that the device plugin finds on a node."""
    arch: str
    """`amd64` or `arm64`."""
    local_nvme_gb: int


@cache
def gpus() -> dict[str, Gpu]:
    """Every GPU of the catalogue by name."""
    by_name: dict[str, Gpu] = {}
    for row in tables.read("gpu_memory").rows:
        cuda = int(row["cuda_mib"] or int(row["nvml_mib"]) * CUDA_FRACTION_OF_NVML)
        major, minor = (row["compute_capability"] or "0.0").split(".")
        derived = {"name": row["gpu"], "compute_capability": (int(major), int(minor)), "cuda_mib": cuda}
        by_name[row["gpu"]] = Gpu(cuda_is_derived=not row["cuda_mib"], **{**tables.cells_of(row, Gpu), **derived})
    return by_name


def find_gpu(gpu: Gpu | str) -> Gpu:
    """The GPU itself, or the one of the catalogue with that name. Raises `ValueError` with the nearest names."""
    if isinstance(gpu, Gpu):
        return gpu
    if gpu not in gpus():
        raise ValueError(f"unknown GPU '{gpu}'. {did_you_mean(gpu, gpus())}")
    return gpus()[gpu]


@cache
def instance_types() -> dict[str, InstanceType]:
    """Every GPU instance type of the catalogue by name."""
    return {row["instance_type"]: _instance_type(row) for row in tables.read("gpu_instances").rows}


def alike(names: Sequence[str], owner: str = "") -> list[InstanceType]:
    """The types with these names; raises `ValueError` if one is unknown, or if their GPUs differ."""
    catalogue, place = instance_types(), f"{owner}instance_types"
    for index, name in enumerate(names):
        if name not in catalogue:
            fix = did_you_mean(name, catalogue)
            raise ValueError(f"{place}[{index}]: unknown GPU instance type '{name}'. {fix}")
    if len({(catalogue[name].gpu, catalogue[name].arch) for name in names}) != 1:
        raise ValueError(f"{place} must have the same GPU; found {', '.join(names) or 'none'}. Pass such types.")
    return [catalogue[name] for name in names]


def smallest_types(gpu: Gpu) -> list[str]:
    """The type of node with the fewest of these GPUs, then the least RAM; empty if no type has one."""
    with_it = [kind for kind in instance_types().values() if kind.gpu == gpu]
    return [kind.name for kind in sorted(with_it, key=lambda kind: (kind.gpus, kind.memory_mib))[:1]]


def _instance_type(row: tables.Row) -> InstanceType:
    gpu, count = gpus()[row["gpu"]], int(row["gpus"])
    if count == FRACTIONAL_SLICES:
        gpu, count = _slice_of(gpu, int(row["gpu_memory_mib"])), 1
    return InstanceType(
        **{**tables.cells_of(row, InstanceType), "name": row["instance_type"], "gpu": gpu, "gpus": count}
    )


def _slice_of(gpu: Gpu, memory_mib: int) -> Gpu:
    return replace(
        gpu,
        name=f"{gpu.name}/{memory_mib}",
        nvml_mib=memory_mib,
        cuda_mib=int(memory_mib * CUDA_FRACTION_OF_NVML),
        cuda_is_derived=True,
        is_slice=True,
    )
