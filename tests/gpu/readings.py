"""What the GPU tier reads: the engine's log and `nvidia-smi`. Text in, numbers out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BUFFER = re.compile(
    r":\s+(?P<device>\S+)\s+(?P<kind>model|KV|RS|compute|output)\s+buffer size\s*=\s*(?P<mib>[\d.]+)\s*MiB"
)
"""A line like `load_tensors:        CUDA0 model buffer size =   604.15 MiB`. Ollama looks for the same
(llm/llama_server.go, `bufferSizeRegex`), and `--log-verbosity 4` keeps it visible."""
OFFLOADED = re.compile(r"offloaded\s+(\d+)/(\d+)\s+layers to GPU")
OF_THE_HOST = ("CPU", "BLAS")

GPU_FIELDS = (
    "name",
    "driver_version",
    "memory.total",
    "memory.reserved",
    "memory.used",
    "memory.free",
    "compute_mode",
    "mig.mode.current",
    "compute_cap",
)
PROCESS_FIELDS = ("pid", "process_name", "used_memory")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that the engine says it allocated."""

    device: str
    """As the engine calls it: `CUDA0`, `CUDA_Host`, `CPU_Mapped`, …"""
    kind: str
    """`model`, `KV`, `RS` (recurrent state), `compute` or `output`."""
    mib: float

    @property
    def on_gpu(self) -> bool:
        """Whether it is memory of the GPU: not of the CPU, and not pinned memory of the host."""
        return not self.device.startswith(OF_THE_HOST) and not self.device.endswith("_Host")


@dataclass(frozen=True, slots=True)
class Load:
    """What one start of the engine allocated."""

    buffers: tuple[Buffer, ...]
    gpu_layers: int | None
    """Layers on the GPU; None where the log does not say."""
    layers: int | None

    def gpu_mib(self, *kinds: str) -> float:
        """Sum of the GPU's buffers of these kinds, or of all."""
        return sum(one.mib for one in self.buffers if one.on_gpu and (not kinds or one.kind in kinds))


def read_load(lines: Iterable[str]) -> Load:
    """The buffers of the last load in a log.

    The engine may load twice: first without memory, to see what fits. A weights line after any other buffer starts
    a new load. Of the compute buffer of one device the last line counts, since it is allocated again when it grows; a
    model with a sliding window has two KV lines for one device, which add up.
    """
    found: list[Buffer] = []
    layers: tuple[int | None, int | None] = (None, None)
    for line in lines:
        if offloaded := OFFLOADED.search(line):
            layers = int(offloaded[1]), int(offloaded[2])
        if not (match := BUFFER.search(line)):
            continue
        one = Buffer(match["device"], match["kind"], float(match["mib"]))
        if one.kind == "model" and any(other.kind != "model" for other in found):
            found.clear()
        if one.kind in ("compute", "output"):
            found = [other for other in found if (other.device, other.kind) != (one.device, one.kind)]
        found.append(one)
    return Load(tuple(found), *layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """What `nvidia-smi` says of one GPU; memory in MiB."""

    name: str
    driver: str
    total_mib: int
    reserved_mib: int | None
    used_mib: int
    free_mib: int
    compute_mode: str
    mig_mode: str
    compute_capability: str


def read_gpu(line: str) -> GpuState:
    """One line of `nvidia-smi --query-gpu=GPU_FIELDS --format=csv,noheader,nounits`. Raises `ValueError`."""
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(GPU_FIELDS):
        raise ValueError(f"nvidia-smi gave {len(values)} values, not {len(GPU_FIELDS)}: {line.strip()!r}")
    name, driver, total, reserved, used, free, mode, mig, capability = values
    return GpuState(
        name=name,
        driver=driver,
        total_mib=int(total),
        reserved_mib=_mib(reserved),
        used_mib=int(used),
        free_mib=int(free),
        compute_mode=mode,
        mig_mode=mig.strip("[]"),
        compute_capability=capability,
    )


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of the GPU."""

    pid: int
    program: str
    used_mib: int | None
    """None where the driver does not say, as in some containers."""


def read_processes(text: str) -> list[GpuProcess]:
    """All of `nvidia-smi --query-compute-apps=PROCESS_FIELDS --format=csv,noheader,nounits`.

    A line without a number for the process is left out: it names nothing that could be measured.
    """
    found = []
    for line in text.splitlines():
        pid, _, rest = line.partition(",")
        program, _, used = rest.rpartition(",")
        if pid.strip().isdecimal():
            found.append(GpuProcess(int(pid), program.strip(), _mib(used)))
    return found


def _mib(value: str) -> int | None:
    number = value.strip().removesuffix("MiB").strip()
    return int(number) if number.isdecimal() else None
