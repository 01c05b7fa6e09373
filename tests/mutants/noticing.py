"""The tests that can notice a mutant: those that run its lines, then those of `make test`."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import coverage

from tests.mutants.faults import Mutant
from tests.mutants.sample import ROOMS

MOST_SECONDS = 900
"""Of the tests of one mutant: a fault may make them endless."""
FIRST = 40
"""Tests that a mutant meets first: most are noticed by one of them."""
KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"
LINES, FAILED = "lines.coverage", ".pytest_cache/v/cache/lastfailed"
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
APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Gives a program its own process numbers (util-linux): a mutant that ends wrong processes sees no others."""
REAPING = ["sh", "-c", '"$@"; exit $?', "sh"]
"""The first process of such a namespace inherits orphaned processes, and Python would not wait for them."""

PYTEST = (sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider")


def record(tree: Path) -> None:
    """Runs the whole suite once, on the code as it is, and keeps which test runs which line, and which fail anyway."""
    if shutil.which(APART[0]) is None or subprocess.run([*APART, "true"]).returncode:
        raise SystemExit("error: A mutant may kill all of your processes. Run this on Linux, where `unshare` works.")
    print("Running the suite once to learn which test runs which line.", flush=True)
    settings = tree.parent / "coverage.ini"
    settings.write_text(SETTINGS.format(tree.parent / LINES))
    cover = [sys.executable, "-m", "coverage"]
    for arguments in (
        ["run", f"--rcfile={settings}", "-m", "pytest", "-n", "auto"],
        ["combine", f"--rcfile={settings}"],
    ):
        subprocess.run([*cover, *arguments], cwd=tree, env=_environment(tree))


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree)}


class Tests:
    """The tests of a tree, by the lines that they run."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        failed = tree / FAILED
        self._failed = json.loads(failed.read_text()) if failed.exists() else []
        self._lines = coverage.CoverageData(str(tree.parent / LINES))
        self._lines.read()
        self._size: Counter[str] = Counter()
        for path in self._lines.measured_files():
            for names in self._lines.contexts_by_lineno(path).values():
                self._size.update(names)

    def notice(self, mutant: Mutant) -> str:
        """`killed`, `survived` or `timeout`, which counts as noticed."""
        contexts = self._lines.contexts_by_lineno(mutant.path)
        running = {name for line in range(mutant.line, mutant.last + 1) for name in contexts.get(line, ())}
        tests = self._shortest_first(running)
        # pytest collects all tests of a call before it runs the first, which takes a minute for thousands of them.
        for some in (tests[:FIRST], tests[FIRST:]):
            if some and (outcome := self._run(some)) != SURVIVED:
                return outcome
        # Also what no context shows: code that runs in a fixture, during an import, or once for several tests.
        return self._run(["-n", "auto", "-m", "not slow"])

    def _shortest_first(self, functions: set[str]) -> list[str]:
        """Test functions as arguments of pytest; those that run few lines are quick, and near to the fault."""
        names = [name for name in sorted(functions, key=lambda name: self._size[name]) if name]
        return [f"{file}::{name.rpartition('.')[2]}" for name in names for file in self._files([name])]

    def _files(self, functions: Iterable[str]) -> list[str]:
        files = [f"{name.rpartition('.')[0].replace('.', '/')}.py" for name in functions]
        return [file for file in files if (self._tree / file).is_file()]

    def _run(self, arguments: list[str]) -> str:
        named = self._tree / "arguments.txt"
        named.write_text("\n".join([*arguments, *(f"--deselect={test}" for test in self._failed)]))
        with (self._tree.parent / "output").open("w") as output:
            try:
                done = subprocess.run(
                    [*APART, *REAPING, *PYTEST, f"@{named.name}"],
                    cwd=self._tree,
                    env=_environment(self._tree),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=MOST_SECONDS,
                )
            except subprocess.TimeoutExpired:
                return TIMEOUT
        return KILLED if done.returncode else SURVIVED
