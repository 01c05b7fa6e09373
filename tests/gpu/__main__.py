"""The GPU tier, `make test-gpu`: docs/how-to/run-the-gpu-tier.md explains it."""

import argparse
import datetime
import os
import signal
import sys
from pathlib import Path

from tests.gpu.build import UNKNOWN, Build
from tests.gpu.machine import CHOICE, Machine
from tests.gpu.plan import BUILD, choose_build, steps
from tests.gpu.progress import Clock, FailedError, SkipError, State, Step, hold, run_steps
from tests.gpu.report import keep

ROOT = Path(__file__).resolve().parents[2]
STOPPED = 130
BUILD_HOURS = 12


def main(arguments: list[str]) -> int:
    """Runs the remaining steps. Returns 1 if one failed, 2 for a usage error, 130 if it was stopped, else 0."""
    given = parse(arguments)
    if given.build_for:
        return _build_for_another(given)
    try:
        machine = Machine(has_gpu=False) if given.dry_run else Machine.find()
    except SkipError as reason:
        print(f"gpu tier skipped: {reason}")
        return 0
    folder = given.folder / ("dry-run" if given.dry_run else "")
    if machine.has_gpu:
        # Every program that a call starts uses the measured GPU, even if the machine has several.
        os.environ[CHOICE] = machine.uuid
    try:
        with hold(folder) as killed:
            if killed:
                print(f"Ended {len(killed)} processes that an earlier call left.")
            return _measure(given, machine, folder)
    except FailedError as error:
        print(f"error: {error}.", file=sys.stderr)
        return 2


def _build_for_another(given: argparse.Namespace) -> int:
    """Builds the engine with the tier's own options, on a machine that needs no GPU."""
    source, folder = given.llama_cpp, given.folder / f"build-{given.build_for}"
    build = Build(source, given.llama_cpp_version, folder, given.build_for, given.cmake, given.jobs, for_another=True)
    try:
        build.run(Clock(BUILD_HOURS * 3600))
    except (FailedError, SkipError) as error:
        print(f"error: {error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. The same command continues.", file=sys.stderr)
        return STOPPED
    print(f"Built. Copy {os.path.relpath(build.programs)} to the machine with the GPU, and name it with --programs.")
    return 0


def _measure(given: argparse.Namespace, machine: Machine, folder: Path) -> int:
    state = State.read(folder / "state.json")
    limit = min(given.minutes * 60, given.total_minutes * 60 - state.spent_seconds)
    if given.retry:
        state.steps = {key: known for key, known in state.steps.items() if "failed" not in known}
    if earlier := state.having("result").get(BUILD):
        choose_build(given, folder, machine).check_same(earlier)
    planned = steps(given, folder, machine)
    stopped = False
    try:
        run_steps(planned, state, Clock(limit), lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        stopped = True
    today = datetime.datetime.now(datetime.UTC).date()
    results, reports = (folder, folder) if given.dry_run else (given.results, given.reports)
    for path in keep(state, machine.describe(), planned, today, results, reports, folder / "logs"):
        print(f"Wrote {os.path.relpath(path)}")
    _summarize(state, planned, given.total_minutes)
    return STOPPED if stopped else 1 if state.having("failed") else 0


def _summarize(state: State, planned: list[Step], total_minutes: float) -> None:
    minutes, left = state.spent_seconds / 60, state.left_of(planned)
    done, skipped, failed = map(state.having, ("result", "skipped", "failed"))
    print(
        f"{len(done)} of {len(planned)} steps done, {len(skipped)} skipped, {len(failed)} failed, "
        f"{len(left)} left, in {minutes:.0f} of {total_minutes:g} minutes."
    )
    for what, reasons in (("skipped", skipped), ("failed", failed)):
        for key, reason in reasons.items():
            print(f"{what}: {key}: {reason}")
    if left and total_minutes - minutes < min(step.seconds for step in left) / 60:
        print("The time of all calls is used up; `--total-minutes` gives more.")
    elif left:
        print("Run the same command again; it goes on from here.")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The arguments of a call."""
    parser = argparse.ArgumentParser(
        prog="make test-gpu",
        description="Measures memory, shares and speed on this machine's GPU. Resumes what an earlier call left.",
    )
    add, environment = parser.add_argument, os.environ

    def add_path(flag: str, default: Path | str | None, metavar: str, says: str) -> None:
        # A default that is text is converted as if it was given.
        add(flag, type=lambda text: Path(text).resolve(), default=default and str(default), metavar=metavar, help=says)

    add("--dry-run", action="store_true", help="try every step with tiny models on the CPU")
    source = "llama.cpp's source: a folder or a tar archive (or $LLAMA_CPP)"
    add_path("--llama-cpp", environment.get("LLAMA_CPP"), "PATH", source)
    version = "its release, e.g. `b10454 (4df29be4f)` (or $LLAMA_CPP_VERSION)"
    add("--llama-cpp-version", default=environment.get("LLAMA_CPP_VERSION", UNKNOWN), metavar="VERSION", help=version)
    add_path("--programs", environment.get("PROGRAMS"), "FOLDER", "an engine built elsewhere, instead (or $PROGRAMS)")
    add("--build-for", metavar="CAPABILITY", help="only build the engine, for a GPU of another machine, e.g. 9.0")
    add_path("--ollama", environment.get("OLLAMA"), "FILE", "the `ollama` program for `tandem bench` (or $OLLAMA)")
    add_path("--packages", None, "FOLDER", "Python packages that this machine lacks")
    add("--cmake", action="append", default=[], metavar="OPTION", help="one more option of cmake")
    add("--jobs", type=int, metavar="N", help="compilers at a time (as many as cores and memory allow)")
    add("--minutes", type=float, default=8.0, help="time of this call (8)")
    add("--total-minutes", type=float, default=25.0, help="of all calls (25)")
    add("--retry", action="store_true", help="repeat the steps that failed")
    add_path("--folder", ROOT / ".tandem" / "gpu", "FOLDER", "what calls keep (.tandem/gpu)")
    add_path("--results", ROOT / "tests" / "gpu" / "results", "FOLDER", "for numbers (tests/gpu/results)")
    add_path("--reports", ROOT / "docs" / "benchmarks", "FOLDER", "for reports (docs/benchmarks)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    # Builds and servers have their own process groups, so a stopped call must end them itself.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
