"""The measurements of the GPU tier, the most useful first, and the steps of its dry run."""

import tomllib
from argparse import Namespace
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

from tests.gpu.build import Build
from tests.gpu.daemon_restart import restart_step
from tests.gpu.kernels import kernel_step
from tests.gpu.machine import Machine
from tests.gpu.memory import Case, Files, measure
from tests.gpu.pair import MPS_THREADS, Pair
from tests.gpu.progress import Clock, Result, SkipError, Step
from tests.gpu.shapes import SHAPES, Shape, shrunk
from tests.gpu.shares import prove_shares

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIR = ("llama2:7b", "mistral:7b")
BUILD, BUILD_SECONDS = "build", 60
"""A build does not start with less time; it stops with the call and continues in the next."""
MODES = ("time-slicing", "mps")
PAIR_MODES = ("time-slicing", *MPS_THREADS)
PAIR_SECONDS, MORE_REPEATS_SECONDS = 200, 300
"""One repeat under a mode took 388 s on an H100, 200 of which were first tokens that our own setting delayed."""


def steps(given: Namespace, folder: Path, machine: Machine) -> list[Step]:
    """All steps of a call with these arguments, the most useful first, so that a lack of time skips the least useful.

    The proofs of the shares and the ends of an MPS daemon are the first: they need no build, and take two minutes.
    """
    state, build = machine.gpu(), choose_build(given, folder, machine)
    files, logs = Files(folder / "models"), folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    known = {name: shrunk(shape) for name, shape in SHAPES.items()} if given.dry_run else SHAPES
    load = TABLE["load"]["dry" if given.dry_run else "full"].split()
    pair = Pair(given.ollama, build.programs, folder / "ollama", logs, files, machine, given.packages, load)
    again = replace(pair, load=[*load, *TABLE["load"]["again"].split()])
    total = state["total_mib"] if state else 0

    def memory(case: Case) -> Step:
        shape = known[case.model]
        title = f"Memory of {case.model}, context {case.context}, {case.slots} slots, {case.kv_type}"
        run = partial(measure, case, shape, build.programs, files, machine, logs)
        return Step(f"memory {case}", title, memory_seconds(case, shape), lambda _: run(), BUILD)

    def proof(mode: str) -> Step:
        def run(_: Clock) -> Result:
            if state is None:
                raise SkipError("a dry run has no GPU")
            check_compute_mode(mode, state)
            return prove_shares(mode, machine, folder / "shares", total)

        return Step(f"shares {mode}", f"Shares under {mode}", 10, run)

    def bench(name: str, measured: Pair = pair, seconds: int = PAIR_SECONDS) -> Step:
        def run(clock: Clock) -> Result:
            check_compute_mode(name, state)
            return measured.run(name, [known[model] for model in PAIR], total, clock)

        title = f"Two servers under {name}, with `tandem bench`"
        return Step(f"pair {name}", title, 60 if given.dry_run else seconds, run, BUILD)

    def bench_again(mode: str) -> Step:
        return bench(f"{mode} again", again, MORE_REPEATS_SECONDS)

    built = Step(BUILD, "The engine, llama.cpp", BUILD_SECONDS, build.run, resumes=True, remains=build.is_there)
    without_engine = [*map(proof, MODES), restart_step(state)]
    if given.dry_run:
        return [*without_engine, built, *map(memory, cases("dry")), *map(bench, PAIR_MODES)]
    return [
        *without_engine,
        built,
        *map(memory, cases("first")),
        *map(bench, PAIR_MODES),
        *map(memory, cases("more")),
        kernel_step(known, build.programs, files, folder / "kernels", logs, BUILD),
        *map(bench_again, PAIR_MODES),
    ]


def choose_build(given: Namespace, folder: Path, machine: Machine) -> Build:
    """The build of a call with these arguments, for this machine's GPU."""
    state = machine.gpu()
    return Build(
        given.llama_cpp,
        given.llama_cpp_version,
        folder / "build",
        str(state["compute_capability"]) if state else None,
        given.cmake,
        given.jobs,
        elsewhere=given.programs,
    )


def memory_seconds(case: Case, shape: Shape) -> int:
    """How long a case takes at most, with the time to write its file; twice what an H100 took (tests/gpu/results)."""
    return ceil(5 + shape.size / 2**30 + case.context * case.slots / 4000)


def cases(which: str) -> list[Case]:
    """The memory cases of plan.toml."""
    return [Case(**one) for one in TABLE[which]]


def check_compute_mode(mode: str, state: Result | None) -> None:
    """Raises `SkipError` where the GPU takes one process only. Under MPS, that is the MPS server."""
    if mode.startswith("time-slicing") and state and state["compute_mode"] == "Exclusive_Process":
        raise SkipError("the GPU is in compute mode EXCLUSIVE_PROCESS, which the tier leaves as it is")
