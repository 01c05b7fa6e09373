"""Runs one program, and ends it once standard input ends: when the parent process closes that or ends.

The kernel closes a pipe however its holder ends, so nothing keeps running, not even after SIGKILL. It runs as a file,
without our other modules.
"""

import contextlib
import os
import subprocess
import sys
import threading

PATIENCE_SECONDS = 2
"""Time for a program to end: most need a moment, but the API server takes a minute for open watches."""


def keep(command: list[str]) -> int:
    """Runs `command` until it or standard input ends; returns its exit status."""
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
