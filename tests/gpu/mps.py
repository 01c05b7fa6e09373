"""A CUDA MPS daemon of our own, set up as the NVIDIA device plugin does it, but for the compute mode.

The plugin puts the GPU into EXCLUSIVE_PROCESS mode first. This leaves it as it is: programs that name the daemon's
folder are its clients all the same. Source: k8s-device-plugin v0.20.0, cmd/mps-control-daemon/mps/daemon.go.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.machine import SMI, find_tool
from tests.gpu.progress import FailedError, SkipError

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 30


@dataclass(frozen=True)
class Daemon:
    """A running daemon."""

    program: Path
    environment: Mapping[str, str]
    """What its clients need."""

    def order(self, command: str) -> str:
        """Its answer to one command. Raises `SkipError`: without its limits nothing can be measured."""
        try:
            done = self.run(command + "\n")
        except subprocess.TimeoutExpired:
            raise SkipError(f"the MPS daemon did not answer `{command}` within {SECONDS} s") from None
        if done.returncode:
            raise SkipError(f"the MPS daemon refused `{command}`: {(done.stdout + done.stderr).strip()}")
        return done.stdout.strip()

    def last_words(self, lines: int = 6) -> str:
        """The end of its log, and of its server's."""
        found: list[str] = []
        for file in sorted(Path(self.environment["CUDA_MPS_LOG_DIRECTORY"]).glob("*.log")):
            found += file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        return "\n".join(found)

    def start(self) -> None:
        """Raises `SkipError` where it does not start."""
        said = Path(self.environment["CUDA_MPS_LOG_DIRECTORY"]) / "start.log"
        try:
            # A file, no pipe: a daemon that kept a pipe open would seem to be starting for ever.
            with said.open("w") as out:
                done = subprocess.run(
                    [str(self.program), "-d"],
                    env=self._everything(),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=SECONDS,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SkipError(f"the MPS daemon does not start: {error}") from None
        if done.returncode:
            raise SkipError(f"the MPS daemon does not start: {self.last_words() or f'it ended with {done.returncode}'}")

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        """The program with `text` as what is typed."""
        return subprocess.run(
            [str(self.program)],
            input=text,
            env=self._everything(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def _everything(self) -> dict[str, str]:
        # It starts the server, which lies beside it.
        path = os.pathsep.join((str(self.program.parent), os.environ.get("PATH", os.defpath)))
        return {**os.environ, **self.environment, "PATH": path}


@contextmanager
def mps_daemon(total_mib: int, replicas: int) -> Iterator[Daemon]:
    """A daemon that gives each client its part of the memory and of the threads."""
    program = find_tool(CONTROL, beside=SMI)
    if program is None:
        raise SkipError(f"the MPS daemon is missing: `{CONTROL}` is neither on PATH nor beside `{SMI}`")
    # The name of a socket has at most 107 characters, so it cannot lie in the state folder.
    with tempfile.TemporaryDirectory(prefix="mps-") as name:
        pipe, log = Path(name) / "pipe", Path(name) / "log"
        pipe.mkdir()
        log.mkdir()
        daemon = Daemon(Path(program), {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)})
        daemon.start()
        try:
            daemon.order(f"set_default_device_pinned_mem_limit 0 {total_mib // replicas}M")
            daemon.order(f"set_default_active_thread_percentage {100 // replicas}")
            yield daemon
        except FailedError as error:
            # Its folder ends with this block.
            raise FailedError(f"{error}\n{daemon.last_words()}".strip()) from None
        finally:
            try:
                daemon.run("quit -t 10\n")
            except subprocess.TimeoutExpired:
                print(f"  the MPS daemon did not end within {SECONDS} s")
