"""The machine that is measured: its GPU, as `nvidia-smi` shows it. Nothing of the GPU is changed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from sharing.gpus import Gpu, gpus
from tests.gpu.progress import FailedError, Result, SkipError
from tests.gpu.readings import GPU_FIELDS, PROCESS_FIELDS, GpuProcess, GpuState, read_gpu, read_processes

SMI = "nvidia-smi"
SMI_SECONDS = 30
CHOICE = "CUDA_VISIBLE_DEVICES"
"""Where others choose a GPU for this process, and this tier for those that it starts."""


@dataclass(frozen=True)
class Machine:
    """How to read one GPU; None of its methods changes anything."""

    has_gpu: bool
    uuid: str = ""
    """Of the GPU that is measured. It goes into no result: the identity of a GPU is nobody's business."""

    @classmethod
    def find(cls) -> Machine:
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

    def gpu(self) -> GpuState | None:
        """The GPU as it is now; None in a dry run."""
        if not self.has_gpu:
            return None
        try:
            return read_gpu(_query("gpu", GPU_FIELDS, self.uuid).splitlines()[0])
        except (IndexError, ValueError) as error:
            raise FailedError(f"{SMI} gave an answer that this tier does not know: {error}") from None

    def processes(self) -> list[GpuProcess]:
        """Programs that hold memory of the GPU."""
        return read_processes(_query("compute-apps", PROCESS_FIELDS, self.uuid)) if self.has_gpu else []

    def describe(self) -> Result:
        """What the report says of it."""
        state = self.gpu()
        return {
            "gpu": asdict(state) if state else None,
            "cores": os.cpu_count(),
            "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30,
            "kernel": platform.release(),
            "python": platform.python_version(),
        }


def in_catalogue(name: str) -> Gpu | None:
    """The GPU that `nvidia-smi` calls so, as the rules know it: e.g. `NVIDIA A100-SXM4-40GB` is `a100-40gb`.

    The rules hold what CUDA takes on it. None where they do not know it.
    """
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    known = [gpu for gpu in gpus().values() if gpu.vendor == "nvidia" and set(gpu.name.split("-")) <= words]
    return max(known, key=lambda gpu: len(gpu.name), default=None)


def find_tool(name: str, beside: str) -> str | None:
    """A program of the PATH, or of the folder of another one: images may have the driver's programs elsewhere."""
    other = shutil.which(beside)
    return shutil.which(name) or (shutil.which(name, path=str(Path(other).resolve().parent)) if other else None)


def _query(what: str, fields: tuple[str, ...], gpu: str) -> str:
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
