"""The machine that is measured: its GPU, as `nvidia-smi` shows it. Nothing of the GPU is changed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass

from sharing.gpus import Gpu, gpus
from tests.gpu.progress import FailedError, Result, SkipError
from tests.gpu.readings import GPU_FIELDS, PROCESS_FIELDS, GpuProcess, GpuState, read_gpu, read_processes

SMI = "nvidia-smi"
SMI_SECONDS = 30


@dataclass(frozen=True)
class Machine:
    """How to read the first GPU; None of its methods changes anything."""

    has_gpu: bool

    @classmethod
    def find(cls) -> Machine:
        """This machine. Raises `SkipError` where it has no NVIDIA GPU."""
        if shutil.which(SMI) is None:
            raise SkipError(f"this machine has no NVIDIA GPU: `{SMI}` is not on PATH")
        done = subprocess.run([SMI, "-L"], capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
        if done.returncode or "GPU 0" not in done.stdout:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise SkipError(f"this machine has no NVIDIA GPU: `{SMI} -L` says {said[0] if said else 'nothing'!r}")
        return cls(has_gpu=True)

    def gpu(self) -> GpuState | None:
        """The first GPU as it is now; None in a dry run."""
        if not self.has_gpu:
            return None
        try:
            return read_gpu(_query("gpu", GPU_FIELDS).splitlines()[0])
        except (IndexError, ValueError) as error:
            raise FailedError(f"{SMI} gave an answer that this tier does not know: {error}") from None

    def processes(self) -> list[GpuProcess]:
        """Programs that hold memory of the first GPU."""
        return read_processes(_query("compute-apps", PROCESS_FIELDS)) if self.has_gpu else []

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


def _query(what: str, fields: tuple[str, ...]) -> str:
    command = [SMI, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits", "-i", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    if done.returncode:
        raise FailedError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stdout}{done.stderr}".strip())
    return done.stdout
