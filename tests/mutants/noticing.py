"""The tests that can notice a mutant: those that run its lines, those of its file, then those of `make test`."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import coverage

from tests.mutants.faults import Mutant
from tests.mutants.sample import ROOMS

STEPS = 40, 400
"""How many tests a mutant meets first, and then: pytest collects all tests of a run before it starts the first."""
LINES, FAILED = "lines.coverage", "failed.json"
SETTINGS = f"""\
[run]
source = {",".join(ROOMS)}
data_file = {{}}
dynamic_context = test_function
relative_files = true
parallel = true
patch = subprocess
"""
"""coverage notes for each line the test functions that run it. `patch`: also in the workers of pytest."""


def record(tree: Path) -> None:
    """Runs the whole suite once, on the code as it is, and keeps which test runs which line, and which fail anyway."""
    settings = tree.parent / "coverage.ini"
    settings.write_text(SETTINGS.format(tree.parent / LINES))
    cover = [sys.executable, "-m", "coverage"]
    for arguments in (
        ["run", f"--rcfile={settings}", "-m", "pytest", "-n", "auto"],
        ["combine", f"--rcfile={settings}"],
    ):
        subprocess.run([*cover, *arguments], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)})
    failed = tree / ".pytest_cache/v/cache/lastfailed"
    (tree.parent / FAILED).write_text(failed.read_text() if failed.exists() else "{}")


class Tests:
    """The tests of a tree, by the lines that they run."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        failed = json.loads((tree.parent / FAILED).read_text())
        self._without = [f"--deselect={test}" for test in failed]
        self._lines = coverage.CoverageData(str(tree.parent / LINES))
        self._lines.read()
        self._size: Counter[str] = Counter()
        for path in self._lines.measured_files():
            for names in self._lines.contexts_by_lineno(path).values():
                self._size.update(names)

    def find(self, mutant: Mutant) -> Iterator[list[str]]:
        """The arguments of pytest, for one run after the other."""
        contexts = self._lines.contexts_by_lineno(mutant.path)
        of_file = {name for names in contexts.values() for name in names}
        running = {name for line in range(mutant.line, mutant.last + 1) for name in contexts.get(line, ())}
        # Python runs a table or a default while it imports the file: no context shows who reads it.
        tests = [*self._shortest_first(running), *self._shortest_first(of_file - running)]
        first, then = STEPS
        for some in (tests[:first], tests[first:then], tests[then : len(running)], ["-m", "not slow"]):
            if some:
                # A command line has its limits.
                file = self._tree / "arguments.txt"
                file.write_text("\n".join([*some, *self._without]))
                yield [f"@{file.name}"]

    def _shortest_first(self, functions: set[str]) -> list[str]:
        """Test functions as arguments of pytest; those that run few lines are quick, and near to the fault."""
        names = [name for name in sorted(functions, key=lambda name: self._size[name]) if name]
        return [f"{file}::{name.rpartition('.')[2]}" for name in names if (file := self._find_file(name))]

    def _find_file(self, function: str) -> str | None:
        file = f"{function.rpartition('.')[0].replace('.', '/')}.py"
        return file if (self._tree / file).is_file() else None
