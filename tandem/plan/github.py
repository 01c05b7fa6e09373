"""Errors and warnings as workflow commands, which GitHub Actions shows beside the lines of a pull request.

Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions; what is escaped is in
https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts (escapeData, escapeProperty).
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from sharing.problems import Problem
from stacks.stack_file.judge import Judged
from tandem.terminal import print_line


def annotate(judged: Judged, path: Path) -> None:
    """Prints a command for each error and warning of the stack file at `path`."""
    _print("error", judged.problems, path)
    _print("warning", judged.warnings, path)


def annotate_error(message: str) -> None:
    """Prints a command for an error without a line in a file."""
    print_line(f"::error::{_escape(message)}", sys.stdout)


def _print(kind: str, problems: Iterable[Problem], path: Path) -> None:
    # GitHub takes paths relative to the root of the repository, where workflows run.
    file = Path(os.path.relpath(path)).as_posix()
    for problem in problems:
        place = problem.place
        properties = {"file": file}
        if place and place.line:
            properties |= {"line": str(place.line), "col": str(place.column)}
        shown = ",".join(f"{key}={_escape(value, ':,')}" for key, value in properties.items())
        print_line(f"::{kind} {shown}::{_escape(problem.message)}", sys.stdout)


def _escape(text: str, more: str = "") -> str:
    """The text with `%`, line ends and `more` as GitHub decodes them."""
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text
