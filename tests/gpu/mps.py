"""A CUDA MPS daemon of our own, set up as the NVIDIA device plugin does it, but for the compute mode.

The plugin puts the GPU into EXCLUSIVE_PROCESS mode first. This leaves it as it is: programs that name the daemon's
folder are its clients all the same. Source: k8s-device-plugin v0.20.0, cmd/mps-control-daemon/mps/daemon.go.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.progress import SkipError

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 30


@dataclass(frozen=True)
class Daemon:
    """A running daemon."""

    environment: Mapping[str, str]
    """What its clients need."""
    log: Path

    def order(self, command: str) -> str:
        """Its answer to one command. Raises `SkipError`: without its limits nothing can be measured."""
        try:
            done = _run([CONTROL], self.environment, command + "\n")
        except subprocess.TimeoutExpired:
            raise SkipError(f"the MPS daemon did not answer `{command}` within {SECONDS} s") from None
        if done.returncode:
            raise SkipError(f"the MPS daemon refused `{command}`: {(done.stdout + done.stderr).strip()}")
        return done.stdout.strip()


@contextmanager
def mps_daemon(total_mib: int, replicas: int) -> Iterator[Daemon]:
    """A daemon that gives each client its part of the memory and of the threads."""
    if shutil.which(CONTROL) is None:
        raise SkipError(f"the MPS daemon is missing: `{CONTROL}` is not on PATH")
    # The name of a socket has at most 107 characters, so it cannot lie in the state folder.
    with tempfile.TemporaryDirectory(prefix="mps-") as name:
        pipe, log = Path(name) / "pipe", Path(name) / "log"
        pipe.mkdir()
        log.mkdir()
        daemon = Daemon({"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}, log)
        try:
            started = _run([CONTROL, "-d"], daemon.environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SkipError(f"the MPS daemon does not start: {error}") from None
        if started.returncode:
            raise SkipError(f"the MPS daemon does not start: {(started.stdout + started.stderr).strip()}")
        try:
            daemon.order(f"set_default_device_pinned_mem_limit 0 {total_mib // replicas}M")
            daemon.order(f"set_default_active_thread_percentage {100 // replicas}")
            yield daemon
        finally:
            try:
                _run([CONTROL], daemon.environment, "quit -t 10\n")
            except subprocess.TimeoutExpired:
                print(f"  the MPS daemon did not end within {SECONDS} s")


def _run(command: list[str], environment: Mapping[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=text,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
