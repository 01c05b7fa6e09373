"""Our own CUDA MPS daemon, configured like the NVIDIA device plugin's, except for the compute mode.

The plugin puts the GPU into EXCLUSIVE_PROCESS mode first. This daemon does not change it: programs that name the
daemon's folder are its clients anyway. Source: k8s-device-plugin v0.20.0, cmd/mps-control-daemon/mps/daemon.go.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gpu.machine import SMI
from tests.gpu.progress import FailedError, SkipError

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 30


@contextmanager
def mps_daemon(total_mib: int, replicas: int, threads: int | None = None) -> Iterator[dict[str, str]]:
    """A daemon that gives each client its part of the memory; yields the clients' variables.

    Each client may use `threads` percent of the GPU's threads, by default its part of them, as with the plugin.
    Raises `SkipError` if it does not start or refuses a limit: without its limits a measurement is impossible.
    """
    program = find_control()
    # The name of a socket has at most 107 characters, so it cannot lie in the state folder.
    with tempfile.TemporaryDirectory(prefix="mps-") as name:
        pipe, log = Path(name) / "pipe", Path(name) / "log"
        pipe.mkdir()
        log.mkdir()
        clients = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}
        _order(program, clients, "-d")
        try:
            _order(program, clients, typed=f"set_default_device_pinned_mem_limit 0 {total_mib // replicas}M")
            _order(program, clients, typed=f"set_default_active_thread_percentage {threads or 100 // replicas}")
            yield clients
        except FailedError as error:
            # Its folder ends with this block.
            raise FailedError(f"{error}\n{_last_words(log)}".strip()) from None
        finally:
            try:
                _order(program, clients, typed="quit -t 10")
            except SkipError as error:
                print(f"  {error}")


def _order(program: Path, clients: dict[str, str], *arguments: str, typed: str = "") -> None:
    """Starts the daemon, or gives it one order. Raises `SkipError`."""
    what = " ".join((program.name, *arguments)) if arguments else typed
    log = Path(clients["CUDA_MPS_LOG_DIRECTORY"])
    # It starts the server, which is beside it.
    path = os.pathsep.join((str(program.parent), os.environ.get("PATH", os.defpath)))
    try:
        # A file, not a pipe: a daemon that keeps a pipe open would seem to start for ever.
        with (log / "control-said.log").open("a") as out:
            done = subprocess.run(
                [str(program), *arguments],
                input=typed and typed + "\n",
                env={**os.environ, **clients, "PATH": path},
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SkipError(f"the MPS daemon gave no answer to `{what}`: {error}") from None
    if done.returncode:
        raise SkipError(f"the MPS daemon refused `{what}`: {_last_words(log) or f'it ended with {done.returncode}'}")


def find_control() -> Path:
    """The program on PATH or beside the driver's other programs: images may link only some of them into the PATH."""
    beside = shutil.which(SMI)
    found = shutil.which(CONTROL) or (shutil.which(CONTROL, path=str(Path(beside).resolve().parent)) if beside else "")
    if not found:
        raise SkipError(f"the MPS daemon is missing: `{CONTROL}` is neither on PATH nor beside `{SMI}`")
    return Path(found)


def _last_words(log: Path, lines: int = 6) -> str:
    """The end of its log, of its server's log, and of the last order's output."""
    files = sorted(log.glob("*.log"))
    return "\n".join(
        line for file in files for line in file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    )
