"""A program that runs under a keeper, which always stops it; its output is in a file."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
STOP_SECONDS = 20
"""Longer than the keeper's own patience."""
LAST_LINES = 15


class StartError(RuntimeError):
    """A part of the control plane did not start, or ended early; the text has the last lines of its log."""


class Kept:
    """One running program."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts it with our environment and `environment`. It appends to an existing log."""
        self.name, self.log = Path(command[0]).name, log
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", str(KEEPER), *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
                # Ctrl-C reaches the terminal's whole group: the parts would end in any order, with errors.
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises `StartError` when the program has ended."""
        status = self._keeper.poll()
        if status is not None:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
            raise StartError(f"{self.name} ended with status {status}:" + "".join(f"\n  {line}" for line in lines))

    def ask_to_stop(self) -> None:
        """Asks the program to end and does not wait."""
        assert self._keeper.stdin
        self._keeper.stdin.close()

    def wait(self) -> None:
        """Waits until the program has ended."""
        try:
            self._keeper.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
