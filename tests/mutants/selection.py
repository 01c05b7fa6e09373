"""The tests that can notice a mutant: those that run its lines, the fastest first, then those of its package."""

import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import coverage

from tests.mutants.faults import Mutant
from tests.mutants.lines import DATA, TESTS

MOST_SECONDS = 40.0
"""Seconds of tests for one mutant, by their earlier durations."""
MOST_SECONDS_MORE = 300.0
"""Seconds of the additional tests before it survives."""
PYTEST = ["-p", "no:cacheprovider"]
APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Gives a program its own process numbers (util-linux): a mutant that ends wrong processes sees no others."""
REAPING = ["sh", "-c", '"$@"; exit $?', "sh"]
"""The first process of such a namespace inherits orphaned processes, and Python would not wait for them."""


def works_apart() -> bool:
    """Whether `APART` works here: it needs Linux, and user namespaces."""
    return shutil.which(APART[0]) is not None and subprocess.run([*APART, "true"], check=False).returncode == 0


def record_lines(folder: Path) -> None:
    """Runs the whole suite once, on the code as it is, and keeps which test runs which line."""
    print("Running the suite once to learn which test runs which line.", flush=True)
    # A mutant may have the size and, within a second, the age of the file it replaces: compiled code goes by content.
    for file in (folder / "tree").glob("[cst]*/**/*.py"):
        py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    command = [sys.executable, "-m", "pytest", "-n", "auto", "-p", "tests.mutants.lines", *PYTEST]
    subprocess.run(command, cwd=folder / "tree", env=_environment(folder), check=False)
    if not (folder / TESTS).exists():
        raise SystemExit("error: The suite did not run. Correct what pytest says.")


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder / "tree")}


class Selection:
    def __init__(self, folder: Path) -> None:
        self._folder, self._tree = folder, folder / "tree"
        self._lines = coverage.CoverageData(str(folder / DATA))
        self._lines.read()
        recorded = json.loads((folder / TESTS).read_text())
        self._tests, self._failed = recorded["tests"], set(recorded["failed"])

    def __enter__(self) -> "Selection":
        if not works_apart():
            raise SystemExit(
                "error: A mutant may kill all of your processes. Run this on Linux, where `unshare` works."
            )
        command = [*APART, *REAPING, sys.executable, "-m", "tests.mutants.suite"]
        environment = {**_environment(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        pipe = subprocess.PIPE
        self._suite = subprocess.Popen(command, cwd=self._tree, env=environment, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._suite.kill()  # `unshare` ignores SIGTERM; its end kills the others (--kill-child).
        self._suite.wait(timeout=60)

    def choose(self, mutant: Mutant) -> list[str]:
        """Tests that run the changed lines, then those that run any line of the file, up to `MOST_SECONDS`."""
        contexts = self._lines.contexts_by_lineno(mutant.path)
        by_line = {name for line in range(mutant.line, mutant.last + 1) for name in contexts.get(line, [])}
        by_file = {name for names in contexts.values() for name in names}
        return self._within(MOST_SECONDS, [*self._fastest_first(by_line), *self._fastest_first(by_file)])

    def _fastest_first(self, contexts: set[str]) -> list[str]:
        shared = {name.removeprefix("fixture ") for name in contexts if name.startswith("fixture ")}
        runs = [
            name
            for name, test in self._tests.items()
            if name not in self._failed and (name in contexts or shared & set(test["fixtures"]))
        ]
        return sorted(runs, key=lambda name: self._tests[name]["seconds"])

    def choose_more(self, mutant: Mutant) -> list[str]:
        """All tests beside those that run the file, and of the folder that mirrors it: they also notice what no context
        shows. That is what runs while a module is imported, in another process, or once for several tests.
        """
        folder = Path(mutant.path).parent
        while not (self._tree / "tests" / folder).is_dir():
            folder = folder.parent
        beside = [f"tests/{folder.as_posix()}/"]
        if folder.parts[0] in ("components", "stacks"):
            beside.append("tests/program/")
        contexts = self._lines.contexts_by_lineno(mutant.path).values()
        beside += {
            f"{Path(name.partition('::')[0]).parent.as_posix()}/"
            for names in contexts
            for name in names
            if "::" in name
        }
        named = {name for name in self._tests if name.startswith(tuple(beside))}
        return self._within(MOST_SECONDS_MORE, self._fastest_first(named))

    def _within(self, most: float, tests: Iterable[str]) -> list[str]:
        """As many of them, in this order, as take this many seconds; the first in any case."""
        chosen: list[str] = []
        seconds = 0.0
        for name in dict.fromkeys(tests):
            seconds += self._tests[name]["seconds"]
            if chosen and seconds > most:
                break
            chosen.append(name)
        return chosen

    def test(self, mutant: Mutant) -> str:
        """`killed`, `survived` or `timeout`: a fault that makes the tests endless also counts as noticed."""
        chosen = self.choose(mutant)
        outcome = self._run(chosen)
        if outcome != "survived":
            return outcome
        return self._run([name for name in self.choose_more(mutant) if name not in chosen])

    def _run(self, chosen: list[str]) -> str:
        if not chosen:
            return "survived"
        seconds = 60 + 5 * sum(self._tests[name]["seconds"] for name in chosen)
        request = json.dumps({"arguments": ["-x", *PYTEST, *chosen], "seconds": int(seconds)})
        assert self._suite.stdin is not None
        assert self._suite.stdout is not None
        print(request, file=self._suite.stdin, flush=True)
        answer = self._suite.stdout.readline().strip()
        return {"0": "survived", "timeout": "timeout"}.get(answer, "killed")
