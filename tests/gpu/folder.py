"""The folder of one run of the tier: one call at a time, and nothing of a killed call goes on in it."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.gpu.progress import FailedError

MARK = "TANDEM_GPU_TIER"
"""In the environment of every program that a call starts, with the folder. What they start has it too."""


@contextmanager
def hold(folder: Path) -> Iterator[list[int]]:
    """Keeps other calls out of the folder, and ends what a killed call left; gives the ids of those processes.

    A server that was left would be measured with the next one, and two builds in one folder spoil it. Raises
    `FailedError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FailedError(f"folder {folder} is in use by another call. Wait until that call has ended") from None
        left = marked(folder)
        for process in left:
            _kill(process)
        os.environ[MARK] = str(folder)
        try:
            yield left
        finally:
            del os.environ[MARK]


def marked(folder: Path) -> list[int]:
    """Processes whose environment names the folder."""
    wanted, found = f"{MARK}={folder}".encode(), []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = place.read_bytes().split(b"\0")
        except OSError:
            # It has ended, or belongs to somebody else.
            continue
        if wanted in variables:
            found.append(int(place.parent.name))
    return found


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
