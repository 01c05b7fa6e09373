"""The measurements of the GPU tier, the most useful first, and the steps of its dry run."""

import tomllib
from argparse import Namespace
from functools import partial
from pathlib import Path

from tests.gpu.build import Build
from tests.gpu.machine import Machine
from tests.gpu.memory import Case, Files, measure
from tests.gpu.pair import Pair
from tests.gpu.progress import Clock, Result, SkipError, Step
from tests.gpu.shapes import SHAPES, shrunk
from tests.gpu.shares import prove_shares

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIR = ("llama2:7b", "mistral:7b")
BUILD, BUILD_SECONDS = "build", 60
"""A build does not start with less time; it stops with the call and continues in the next."""
MODES = ("time-slicing", "mps")


def steps(given: Namespace, folder: Path, machine: Machine) -> list[Step]:
    """All steps of a call with these arguments, the most useful first, so that a lack of time skips the least useful.

    The proofs of the shares are the first: they need no build, and take half a minute.
    """
    state = machine.gpu()
    capability = str(state["compute_capability"]) if state else None
    build = Build(given.llama_cpp, given.llama_cpp_version, folder / "build", capability, given.cmake, given.jobs)
    files, logs = Files(folder / "models"), folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    known = {name: shrunk(shape) for name, shape in SHAPES.items()} if given.dry_run else SHAPES
    load = TABLE["load"]["dry" if given.dry_run else "full"].split()
    pair = Pair(given.ollama, build.programs, folder / "ollama", files, machine, given.packages, load)
    total = state["total_mib"] if state else 0

    def memory(case: Case) -> Step:
        shape = known[case.model]
        title = f"Memory of {case.model}, context {case.context}, {case.slots} slots, {case.kv_type}"
        # How long it takes at most, with the time to write the file. A guess, until there are measurements.
        seconds = 25 + shape.size // 2**29
        run = partial(measure, case, shape, build.programs, files, machine, logs)
        return Step(f"memory {case}", title, seconds, lambda _: run(), BUILD)

    def proof(mode: str) -> Step:
        def run(_: Clock) -> Result:
            if state is None:
                raise SkipError("a dry run has no GPU")
            check_compute_mode(mode, state)
            return prove_shares(mode, machine, folder / "shares", total)

        return Step(f"shares {mode}", f"Shares under {mode}", 30, run)

    def bench(mode: str) -> Step:
        def run(clock: Clock) -> Result:
            check_compute_mode(mode, state)
            return pair.run(mode, [known[name] for name in PAIR], total, clock)

        seconds = 60 if given.dry_run else 240
        return Step(f"pair {mode}", f"Two servers under {mode}, with `tandem bench`", seconds, run, BUILD)

    building = Step(BUILD, "Build of llama.cpp", BUILD_SECONDS, build.run, resumes=True, remains=build.is_there)
    first, more = (cases("dry"), []) if given.dry_run else (cases("first"), cases("more"))
    return [*map(proof, MODES), building, *map(memory, first), *map(bench, MODES), *map(memory, more)]


def cases(which: str) -> list[Case]:
    """The memory cases of plan.toml."""
    return [Case(**one) for one in TABLE[which]]


def check_compute_mode(mode: str, state: Result | None) -> None:
    """Raises `SkipError` where the GPU takes one process only. Under MPS, that is the MPS server."""
    if mode == "time-slicing" and state and state["compute_mode"] == "Exclusive_Process":
        raise SkipError("the GPU is in compute mode EXCLUSIVE_PROCESS, which the tier leaves as it is")
