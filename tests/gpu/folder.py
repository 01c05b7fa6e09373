"""The folder of one run of the tier: one call at a time, and nothing of a killed call goes on in it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sharing.files import lock
from tests.gpu.progress import FailedError

MARK = "TANDEM_GPU_TIER"
"""In the environment of every program that a call starts, with the folder. What they start has it too."""


PAUSE_SECONDS = 0.05


@contextmanager
def hold(folder: Path) -> Iterator[list[int]]:
    """Keeps other calls out of the folder, and ends what a killed call left; gives the ids of those processes.

    A server that was left would be measured with the next one, and two builds in one folder spoil it. Raises
    `FailedError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = lock(folder / "lock")
    except BlockingIOError:
        raise FailedError(f"folder {folder} is in use by another call. Wait until that call has ended") from None
    with held:
        left = _end_left_running(folder)
        os.environ[MARK] = str(folder)
        try:
            yield left
        finally:
            del os.environ[MARK]


def _end_left_running(folder: Path) -> list[int]:
    """Looks until two looks in a row find nothing: a process shows no environment while it becomes another program."""
    ended, quiet = set[int](), 0
    while quiet < 2:
        found = marked(folder)
        for process in found:
            _kill(process)
        ended.update(found)
        quiet = 0 if found else quiet + 1
        time.sleep(PAUSE_SECONDS)
    return sorted(ended)


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
