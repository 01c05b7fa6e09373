"""Processes that a killed `pulumi` leaves running: it starts its language host, which starts the program.

They wait for an engine that no longer answers and end after minutes, if at all (seen: pulumi 3.260). Each host leads
its own process group (pulumi sdk/go/common/resource/plugin/plugin.go, RegisterProcessGroup), so they share only their
environment. Without /proc (macOS), tandem finds none, and they end on their own.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

HOME = "PULUMI_HOME"
"""The variable that names the sandbox whose processes inherit it."""
PROC = Path("/proc")


def running(home: Path) -> list[int]:
    """The processes of the `pulumi` whose home this is."""
    found = []
    marker = f"{HOME}={home}".encode()
    for folder in PROC.glob("[0-9]*"):
        # Processes end during the search, and those of other users are not readable.
        with suppress(OSError):
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end_running(home: Path) -> None:
    """Ends all of them. Only for the owner of the emulated cloud's lock."""
    for number in running(home):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
