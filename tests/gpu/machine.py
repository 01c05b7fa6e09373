"""The machine that is measured: its GPU, as `nvidia-smi` shows it. No setting of the GPU is changed."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sharing.hardware.gpus import Gpu, gpus
from tests.gpu.progress import FailedError, Result, SkipError

SMI = "nvidia-smi"
SMI_SECONDS = 30
CHOICE = "CUDA_VISIBLE_DEVICES"
"""The variable that chooses a GPU for this process, and with which this tier chooses one for its programs."""
GPU_FIELDS = {
    "name": "name",
    "driver": "driver_version",
    "total_mib": "memory.total",
    "reserved_mib": "memory.reserved",
    "used_mib": "memory.used",
    "free_mib": "memory.free",
    "compute_mode": "compute_mode",
    "mig_mode": "mig.mode.current",
    "compute_capability": "compute_cap",
}
"""The stored properties of a GPU, and their names in `nvidia-smi`."""
PROCESS_FIELDS = ("pid", "process_name", "used_memory")


@dataclass(frozen=True)
class Machine:
    """How to read one GPU. None of its methods changes anything."""

    has_gpu: bool
    uuid: str = ""
    """Of the GPU that is measured. No result contains it: the identity of a GPU stays private."""

    @classmethod
    def find(cls) -> Self:
        """This machine with its first GPU. Raises `SkipError` where it has none that can be measured."""
        if shutil.which(SMI) is None:
            raise SkipError(f"this machine has no NVIDIA GPU: `{SMI}` is not on PATH")
        chosen = os.environ.get(CHOICE, "0").split(",")[0]
        try:
            line = _query("gpu", ("uuid", "mig.mode.current", "compute_mode"), chosen)
            uuid, mig, compute = (value.strip() for value in line.split(","))
            found = cls(has_gpu=True, uuid=uuid)
            if mig == "Enabled":
                raise SkipError(
                    "the GPU is in MIG mode. The tier measures an undivided GPU and leaves the mode as it is"
                )
            if compute == "Prohibited":
                raise SkipError("the GPU is in compute mode PROHIBITED, which the tier leaves as it is")
            found.gpu()
        except FailedError as error:
            raise SkipError(f"this machine has no NVIDIA GPU that can be read: {error}") from None
        except ValueError:
            raise SkipError(f"this machine has no NVIDIA GPU that can be read: `{SMI}` says {line.strip()!r}") from None
        return found

    def gpu(self) -> Result | None:
        """The GPU as it is now; None in a dry run."""
        return read_gpu(_query("gpu", GPU_FIELDS.values(), self.uuid)) if self.has_gpu else None

    def used_mib(self) -> int | None:
        """The GPU memory that all programs use now; None in a dry run."""
        state = self.gpu()
        return int(state["used_mib"]) if state else None

    def processes(self) -> list[Result]:
        """Programs that use memory of the GPU."""
        return read_processes(_query("compute-apps", PROCESS_FIELDS, self.uuid)) if self.has_gpu else []

    def describe(self) -> Result:
        """The report's description of it."""
        return {
            "gpu": self.gpu(),
            "cores": os.cpu_count(),
            "memory_gib": memory_gib(),
            # Only its version: the rest may name whose machine it is.
            "kernel": platform.release().partition("-")[0],
            "python": platform.python_version(),
        }


def memory_gib() -> int:
    """The memory of the host."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30


def in_catalogue(name: str) -> Gpu | None:
    """The rules' GPU for a name of `nvidia-smi`, e.g. `NVIDIA A100-SXM4-40GB` is `a100-40gb`.

    The rules have CUDA's memory use on it. None if they do not have the GPU.
    """
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    known = [gpu for gpu in gpus().values() if gpu.vendor == "nvidia" and set(gpu.name.split("-")) <= words]
    return max(known, key=lambda gpu: len(gpu.name), default=None)


def read_gpu(line: str) -> Result:
    """One line of `nvidia-smi --query-gpu=GPU_FIELDS --format=csv,noheader,nounits`; memory in MiB.

    A driver may not report every value: its reserved memory is then None. Raises `FailedError`.
    """
    values = [value.strip().strip("[]") for value in line.split(",")]
    if len(values) != len(GPU_FIELDS):
        raise FailedError(f"{SMI} gave an answer that this tier does not know: {line.strip()!r}")
    found: Result = dict(zip(GPU_FIELDS, values, strict=True))
    found |= {key: _mib(value) for key, value in found.items() if key.endswith("_mib")}
    if None in (found["total_mib"], found["used_mib"], found["free_mib"]):
        raise FailedError(f"{SMI} gave an answer that this tier does not know: {line.strip()!r}")
    return found


def read_processes(text: str) -> list[Result]:
    """All of `nvidia-smi --query-compute-apps=PROCESS_FIELDS --format=csv,noheader,nounits`.

    A line without a number for the process is left out: it names nothing that could be measured. Its memory is None
    where the driver does not say, as in some containers.
    """
    found = []
    for line in text.splitlines():
        pid, _, rest = line.partition(",")
        program, _, used = rest.rpartition(",")
        if pid.strip().isdecimal():
            found.append({"pid": int(pid), "program": Path(program.strip()).name, "mib": _mib(used)})
    return found


def _mib(value: str) -> int | None:
    number = value.strip().removesuffix("MiB").strip()
    return int(number) if number.isdecimal() else None


def _query(what: str, fields: Iterable[str], gpu: str) -> str:
    command = [SMI, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits", "-i", gpu]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise FailedError(f"`{SMI}` gave no answer within {SMI_SECONDS} s") from None
    if done.returncode:
        # `nvidia-smi` writes errors to standard output.
        said = " ".join((done.stdout + done.stderr).split())
        raise FailedError(f"`{SMI} --query-{what}` ended with {done.returncode}: {said or 'nothing said'}")
    return done.stdout
