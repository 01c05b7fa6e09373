"""Tries mutants of one worktree: each run of pytest is a fork of a process that has imported all libraries already.

Arguments: the seed, the count, and the numbers of the mutants to try. It prints a number and an outcome for each one.
Our own code is imported in the fork, so that it has the fault that is on the disk at that time.
"""

import importlib
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mutants.faults import Mutant
from tests.mutants.noticing import Tests
from tests.mutants.sample import draw

MOST_SECONDS = 300
"""Of one run of pytest: a fault may make a test endless."""
KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"
OUTCOMES = KILLED, TIMEOUT, SURVIVED
OPTIONS = ("-x", "-p", "no:cacheprovider")


def main(seed: int, count: int, numbers: list[int]) -> None:
    tree = Path.cwd()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    output = os.open(tree.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    drawn, tests = draw(tree, seed, count), Tests(tree)
    for library in _find_libraries():
        with suppress(Exception):
            importlib.import_module(library)
    # A compiled file of a mutant would outlive it.
    sys.dont_write_bytecode = True
    for number in numbers:
        print(number, _try(drawn[number][1], tests), file=answers)


def _find_libraries() -> list[str]:
    """The modules that all tests together import, without our own, which are compiled on the way."""
    reader, writer = os.pipe()
    if (process := os.fork()) == 0:
        sys.dont_write_bytecode = False
        pytest.main(["--collect-only", *OPTIONS])
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        with os.fdopen(writer, "w") as names:
            names.writelines(f"{name}\n" for name, file in files.items() if file and not file.startswith(os.getcwd()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as names:
        libraries = names.read().split()
    os.waitpid(process, 0)
    return libraries


def _try(mutant: Mutant, tests: Tests) -> str:
    file = Path(mutant.path)
    source, times = file.read_bytes(), file.stat()
    try:
        file.write_bytes(mutant.apply(source))
        outcomes = (_run(arguments) for arguments in tests.find(mutant))
        return next((outcome for outcome in outcomes if outcome != SURVIVED), SURVIVED)
    finally:
        file.write_bytes(source)
        # Python compares the time with that in the compiled file.
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _run(arguments: list[str]) -> str:
    process = os.fork()
    if process == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code: int = pytest.ExitCode.INTERNAL_ERROR
        with suppress(BaseException):
            code = pytest.main([*OPTIONS, *arguments])
        os._exit(code)
    ended, _, _ = select.select([os.pidfd_open(process)], [], [], MOST_SECONDS)
    # Also what the tests have started and left.
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not ended:
        return TIMEOUT
    return KILLED if status else SURVIVED


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [int(number) for number in sys.argv[3:]])
