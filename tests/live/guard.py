"""Destroys a stack when the program that deployed it is killed or does not end in time.

    python -m tests.live.guard SECONDS COMMAND…

`done` on standard input ends it. An end of input without that, or SECONDS without a word, runs the command.
"""

import select
import signal
import subprocess
import sys

WORD = b"done"


def main(arguments: list[str]) -> int:
    """Waits for the word; returns the command's exit code, or 0 when there was no need for it."""
    for one in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    seconds, *command = arguments
    ready, _, _ = select.select([sys.stdin], [], [], float(seconds))
    if ready and sys.stdin.buffer.readline().strip() == WORD:
        return 0
    if command[0] == "pulumi":
        # The lock of a killed `pulumi`.
        subprocess.run(["pulumi", "cancel", "--yes", *command[-2:]])
    # Signals are ignored by children, too, if nobody says otherwise; this one is not to be stopped.
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
