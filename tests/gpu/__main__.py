"""The GPU tier, `make test-gpu`: docs/how-to/run-the-gpu-tier.md explains it."""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.build import Source
from tests.gpu.folder import hold
from tests.gpu.machine import CHOICE, Machine
from tests.gpu.plan import Options, steps
from tests.gpu.progress import Clock, FailedError, SkipError, State, Step, left_of, run_steps
from tests.gpu.report import keep

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".tandem" / "gpu"
RESULTS, REPORTS = ROOT / "tests" / "gpu" / "results", ROOT / "docs" / "benchmarks"
MINUTES, TOTAL_MINUTES = 8.0, 25.0
STOPPED = 130


def main(arguments: list[str]) -> int:
    """Measures what is left to measure. 1 when a step failed, 2 for a wrong call, 130 when it was stopped, else 0."""
    parsed = _parser().parse_args(arguments)
    try:
        machine = Machine(has_gpu=False) if parsed.dry_run else Machine.find()
    except SkipError as reason:
        print(f"gpu tier skipped: {reason}")
        return 0
    folder = parsed.folder.resolve() / ("dry-run" if parsed.dry_run else "")
    if machine.has_gpu:
        # Everything that a call starts uses the GPU that is measured, also where the machine has several.
        os.environ[CHOICE] = machine.uuid
    try:
        with hold(folder) as killed:
            if killed:
                print(f"Ended {len(killed)} processes that an earlier call left.")
            return _measure(parsed, machine, folder)
    except FailedError as error:
        print(f"error: {error}.", file=sys.stderr)
        return 2


def _measure(parsed: argparse.Namespace, machine: Machine, folder: Path) -> int:
    state = State.read(folder / "state.json")
    limit = min(parsed.minutes * 60, parsed.total_minutes * 60 - state.spent_seconds)
    if parsed.retry:
        state.failed.clear()
    source = Source(parsed.llama_cpp.resolve(), parsed.llama_cpp_version) if parsed.llama_cpp else None
    options = Options(
        folder=folder,
        source=source,
        ollama=parsed.ollama and parsed.ollama.resolve(),
        packages=parsed.packages and parsed.packages.resolve(),
        cmake=tuple(parsed.cmake),
        jobs=parsed.jobs,
        dry_run=parsed.dry_run,
    )
    planned = steps(options, machine)
    stopped = False
    try:
        run_steps(planned, state, Clock(limit), lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        stopped = True
    today = datetime.datetime.now(datetime.UTC).date()
    results, reports = (folder, folder) if parsed.dry_run else (parsed.results, parsed.reports)
    for path in keep(state, machine.describe(), planned, today, results, reports):
        print(f"Wrote {os.path.relpath(path)}")
    _summarise(state, planned, parsed.total_minutes)
    return STOPPED if stopped else 1 if state.failed else 0


def _summarise(state: State, planned: Sequence[Step], total_minutes: float) -> None:
    minutes, left = state.spent_seconds / 60, left_of(planned, state)
    print(
        f"{len(state.done)} of {len(planned)} steps done, {len(state.skipped)} skipped, {len(state.failed)} failed, "
        f"{len(left)} left, in {minutes:.0f} of {total_minutes:g} minutes."
    )
    for key, reason in state.skipped.items():
        print(f"skipped: {key}: {reason}")
    for key, reason in state.failed.items():
        print(f"failed: {key}: {reason}")
    if left and total_minutes - minutes < min(step.seconds for step in left) / 60:
        print("The time of all calls is used up; `--total-minutes` gives more.")
    elif left:
        print("Run the same command again; it goes on from here.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make test-gpu",
        description="Measures memory, shares and speed on this machine's GPU. Resumes what an earlier call left.",
    )
    given = os.environ
    parser.add_argument("--dry-run", action="store_true", help="try every step with tiny models on the CPU")
    parser.add_argument(
        "--llama-cpp",
        type=Path,
        default=_path(given.get("LLAMA_CPP")),
        metavar="PATH",
        help="llama.cpp's source: a folder or a tar archive (or $LLAMA_CPP)",
    )
    parser.add_argument(
        "--llama-cpp-version",
        default=given.get("LLAMA_CPP_VERSION", "unknown"),
        metavar="VERSION",
        help="its release, e.g. `b10454 (4df29be4f)` (or $LLAMA_CPP_VERSION)",
    )
    parser.add_argument(
        "--ollama",
        type=Path,
        default=_path(given.get("OLLAMA")),
        metavar="FILE",
        help="the `ollama` program for `tandem bench` (or $OLLAMA)",
    )
    parser.add_argument("--packages", type=Path, metavar="FOLDER", help="Python packages that this machine lacks")
    parser.add_argument("--cmake", action="append", default=[], metavar="OPTION", help="one more option of cmake")
    parser.add_argument("--jobs", type=int, metavar="N", help="compilers at a time (as many as cores and memory allow)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"time of this call ({MINUTES:g})")
    parser.add_argument("--total-minutes", type=float, default=TOTAL_MINUTES, help=f"of all calls ({TOTAL_MINUTES:g})")
    parser.add_argument("--retry", action="store_true", help="repeat the steps that failed")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="what calls keep (.tandem/gpu)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help="for numbers (tests/gpu/results)"
    )
    parser.add_argument("--reports", type=Path, default=REPORTS, metavar="FOLDER", help="for reports (docs/benchmarks)")
    return parser


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


if __name__ == "__main__":
    # Builds and servers have process groups of their own, so a call that is stopped must end them itself.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
