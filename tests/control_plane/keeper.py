"""Runs one program, and ends it once standard input ends: when the process that started it closes that or ends.

The kernel closes a pipe however its holder dies, so nothing is left running, not even after SIGKILL. Started as a file,
before any import of ours.
"""

import contextlib
import os
import subprocess
import sys
import threading

PATIENCE_SECONDS = 2
"""Time for a program to end by itself: most need a moment, the API server would take a minute for open watches."""


def keep(command: list[str]) -> int:
    """Runs `command` until it ends or standard input does; returns its exit status."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end() -> None:
        while os.read(0, 1024):
            pass
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE_SECONDS)
        child.kill()

    threading.Thread(target=end, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1:]))
