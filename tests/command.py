"""The `tandem` command in this process, where its imports, most of the time of a short command, are paid for once."""

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tandem.command import main

ROOT = Path(__file__).resolve().parent.parent
OF_THE_USER = ("COLUMNS", "FORCE_COLOR", "NO_COLOR")
"""Variables by which anyone who runs the tests would change what the command prints."""


Printed = pytest.CaptureFixture[str]
"""What a command of the test's own process has printed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, by the names of `subprocess`."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one object that it printed."""
        return json.loads(self.stdout)


class Screen(io.StringIO):
    """A terminal, as far as the command asks."""

    def isatty(self) -> bool:
        return True


def call(*arguments: str, cwd: Path = ROOT, columns: int | None = None) -> Ended:
    """The command, its output into pipes."""
    out, err = io.StringIO(), io.StringIO()
    code = _main(arguments, cwd, {"COLUMNS": str(columns)} if columns else {}, out, err)
    return Ended(code, out.getvalue(), err.getvalue())


def on_screen(*arguments: str, cwd: Path = ROOT, columns: int = 80) -> tuple[int, str]:
    """Exit code and screen of the command in a terminal of that width."""
    screen = Screen()
    code = _main(arguments, cwd, {"COLUMNS": str(columns), "TERM": "xterm-256color"}, screen, screen)
    return code, screen.getvalue()


def _main(arguments: tuple[str, ...], cwd: Path, added: dict[str, str], out: io.StringIO, err: io.StringIO) -> int:
    env = {key: value for key, value in os.environ.items() if key not in OF_THE_USER}
    with (
        mock.patch.dict(os.environ, {**env, **added}, clear=True),
        # What a busy machine takes long for prints no more than what an idle one does.
        mock.patch("tandem.terminal.PATIENCE_SECONDS", 10_000.0),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            return main(arguments)
        except SystemExit as ended:  # argparse, after help and after a usage error
            return ended.code if isinstance(ended.code, int) else 1
