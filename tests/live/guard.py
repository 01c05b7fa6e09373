"""Destroys a stack if the program that deployed it is killed or does not end in time.

    python -m tests.live.guard SECONDS COMMAND…

`done` on standard input ends it. If the input ends without it, or after SECONDS without input, the command runs.
"""

import select
import signal
import subprocess
import sys

WORD = b"done"


def main(arguments: list[str]) -> int:
    """Waits for `done`; returns the command's exit code, or 0 if the command was not needed."""
    for one in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    seconds, *command = arguments
    ready, _, _ = select.select([sys.stdin], [], [], float(seconds))
    if ready and sys.stdin.buffer.readline().strip() == WORD:
        return 0
    if command[0] == "pulumi":
        # A killed `pulumi` leaves its lock.
        subprocess.run(["pulumi", "cancel", "--yes", *command[-2:]])
    # Children inherit ignored signals by default, so that nothing stops the command.
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
