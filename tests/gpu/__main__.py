"""The GPU tier, `make test-gpu`: docs/how-to/run-the-gpu-tier.md explains it."""

import argparse
import datetime
import os
import signal
import sys
from pathlib import Path

from tests.gpu.build import read_engine
from tests.gpu.machine import CHOICE, Machine
from tests.gpu.plan import select, steps
from tests.gpu.progress import Clock, FailedError, SkipError, State, Step, run_steps
from tests.gpu.report import keep

ROOT = Path(__file__).resolve().parents[2]
STOPPED = 130


def main(arguments: list[str]) -> int:
    """Runs the remaining steps. Returns 1 if one failed, 2 for a usage error, 130 if it was stopped, else 0."""
    given = parse(arguments)
    try:
        machine = Machine(has_gpu=False) if given.dry_run else Machine.find()
    except SkipError as reason:
        print(f"gpu tier skipped: {reason}")
        return 0
    if machine.has_gpu:
        # Every program that a call starts uses the measured GPU, even if the machine has several.
        os.environ[CHOICE] = machine.uuid
    try:
        return _measure(given, machine, given.folder / ("dry-run" if given.dry_run else ""))
    except FailedError as error:
        print(f"error: {error}.", file=sys.stderr)
        return 2


def _measure(given: argparse.Namespace, machine: Machine, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    state = State.read(folder / "state.json")
    if given.programs:
        engine = read_engine(given.programs, has_gpu=machine.has_gpu)
        if state.engine not in (None, engine):
            # One report would give the measurements of two engines as those of one.
            kept = state.engine["version"]
            raise FailedError(f"the engine is {engine['version']}, and the kept results are of {kept}: see --folder")
        state.engine = engine
    if given.retry:
        state.steps = {key: known for key, known in state.steps.items() if "failed" not in known}
    planned = steps(given, folder, machine)
    chosen = select(planned, given.only)
    stopped = False
    try:
        run_steps(chosen, state, Clock(given.minutes * 60))
    except KeyboardInterrupt:
        stopped = True
    today = datetime.datetime.now(datetime.UTC).date()
    results, reports = (folder, folder) if given.dry_run else (given.results, given.reports)
    for path in keep(state, machine.describe(), planned, today, results, reports, folder / "logs"):
        print(f"Wrote {os.path.relpath(path)}")
    _summarize(state, chosen)
    return STOPPED if stopped else 1 if state.having("failed") else 0


def _summarize(state: State, planned: list[Step]) -> None:
    left = state.left_of(planned)
    done, skipped, failed = map(state.having, ("result", "skipped", "failed"))
    print(f"{len(done)} steps done, {len(skipped)} skipped, {len(failed)} failed, {len(left)} left.")
    for what, reasons in (("skipped", skipped), ("failed", failed)):
        for key, reason in reasons.items():
            print(f"{what}: {key}: {reason}")
    if left:
        print("Run the same command again; it goes on from here.")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The arguments of a call."""
    parser = argparse.ArgumentParser(
        prog="make test-gpu",
        description="Measures memory, shares and speed on this machine's GPU. Continues what an earlier call left.",
    )

    def add_path(flag: str, default: Path | str | None, metavar: str, says: str) -> None:
        # A default that is text is converted as if it was given.
        parser.add_argument(
            flag,
            type=lambda text: Path(text).resolve(),
            default=default and str(default),
            metavar=metavar,
            help=says,
        )

    parser.add_argument("--dry-run", action="store_true", help="try every step with tiny models on the CPU")
    add_path("--programs", os.environ.get("PROGRAMS"), "FOLDER", "the built engine (or $PROGRAMS)")
    add_path("--ollama", os.environ.get("OLLAMA"), "FILE", "the `ollama` program for `tandem bench` (or $OLLAMA)")
    add_path("--packages", None, "FOLDER", "Python packages that this machine lacks")
    parser.add_argument("--minutes", type=float, default=8.0, help="time of this call (8)")
    parser.add_argument("--only", default="", metavar="NAMES", help="steps that begin so, e.g. `limits,pair per-model`")
    parser.add_argument("--retry", action="store_true", help="repeat the steps that failed")
    add_path("--folder", ROOT / ".tandem" / "gpu", "FOLDER", "what calls keep (.tandem/gpu)")
    add_path("--results", ROOT / "tests" / "gpu" / "results", "FOLDER", "for numbers (tests/gpu/results)")
    add_path("--reports", ROOT / "docs" / "benchmarks", "FOLDER", "for reports (docs/benchmarks)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    # Servers have their own process groups, so a stopped call must end them itself.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
