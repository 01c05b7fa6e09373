"""Runs the `tandem` command in this process: its imports, most of the time of a short command, then run once."""

import contextlib
import io
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from stacks.stack_file.judge import Plan
from tandem.dry_run import program
from tandem.main import main

if TYPE_CHECKING:
    from sandbox.graph import Graph

ROOT = Path(__file__).resolve().parent.parent
OF_THE_USER = ("COLUMNS", "FORCE_COLOR", "NO_COLOR")
"""Variables of the caller's environment that would change the command's output."""
GRAPHS: "dict[str, Graph]" = {}
RUN = program.program_graph


Printed = pytest.CaptureFixture[str]
"""The output of a command that ran in the test's own process."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command, with the names of `subprocess`."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one object that it printed."""
        return json.loads(self.stdout)


class Screen(io.StringIO):
    """A stream that the command takes for a terminal."""

    def isatty(self) -> bool:
        return True


def graph_of(plan: Plan) -> "Graph":
    """The resources of a plan: they take most of the time of `tandem plan`, and many tests show the same plan."""
    # Nothing that is registered depends on how fast models answer.
    fits = tuple(replace(fit, speed=None) for fit in plan.verdict.fits)
    unmeasured = replace(plan, verdict=replace(plan.verdict, fits=fits))
    key = repr((unmeasured, replace(plan.config.circumstances, measured=())))
    if key not in GRAPHS:
        GRAPHS[key] = RUN(plan)
    return GRAPHS[key]


def call(*arguments: str, cwd: Path = ROOT, columns: int | None = None) -> Ended:
    """Runs the command with its output in pipes."""
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
        mock.patch.object(program, "program_graph", graph_of),
        # A busy machine prints the same as an idle one: no progress messages.
        mock.patch("tandem.terminal.PATIENCE_SECONDS", 10_000.0),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            return main(arguments)
        except SystemExit as ended:  # argparse, after help and after a usage error
            return ended.code if isinstance(ended.code, int) else 1
