"""The measurements of the GPU tier, the most useful first, and the steps of its dry run."""

import tomllib
from argparse import Namespace
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

from tests.gpu.daemon_restart import restart_step
from tests.gpu.machine import Machine
from tests.gpu.memory import Case, Files, measure
from tests.gpu.pair import MPS_THREADS, Pair
from tests.gpu.progress import Clock, Result, SkipError, Step
from tests.gpu.shapes import SHAPES, Shape, shrunk
from tests.gpu.shares import prove_shares

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIR = ("llama2:7b", "mistral:7b")
MODES = ("time-slicing", "mps")
PAIR_MODES = ("time-slicing", *MPS_THREADS)
PAIR_SECONDS, MORE_REPEATS_SECONDS = 200, 300
"""One repeat under a mode took 388 s on an H100, 200 of which were first tokens that our own setting delayed."""


def steps(given: Namespace, folder: Path, machine: Machine) -> list[Step]:
    """All steps of a call with these arguments, the most useful first, so that a lack of time skips the least useful.

    The proofs of the shares and the ends of an MPS daemon are the first: they need no engine, and take two minutes.
    """
    state, logs = machine.gpu(), folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    total = state["total_mib"] if state else 0

    def proof(mode: str) -> Step:
        def run(_: Clock) -> Result:
            if state is None:
                raise SkipError("a dry run has no GPU")
            check_compute_mode(mode, state)
            return prove_shares(mode, machine, folder / "shares", total)

        return Step(f"shares {mode}", f"Shares under {mode}", 10, run)

    without_engine = [*map(proof, MODES), restart_step(state)]
    if given.programs is None:
        return [*without_engine, Step("engine", "Everything else", 0, _need_engine)]

    files = Files(folder / "models")
    known = {name: shrunk(shape) for name, shape in SHAPES.items()} if given.dry_run else SHAPES
    load = TABLE["load"]["dry" if given.dry_run else "full"].split()
    pair = Pair(given.ollama, given.programs, folder / "ollama", logs, files, machine, given.packages, load)
    again = replace(pair, load=[*load, *TABLE["load"]["again"].split()])

    def memory(case: Case) -> Step:
        shape = known[case.model]
        title = f"Memory of {case.model}, context {case.context}, {case.slots} slots, {case.kv_type}"
        run = partial(measure, case, shape, given.programs, files, machine, logs)
        return Step(f"memory {case}", title, memory_seconds(case, shape), lambda _: run())

    def bench(name: str, measured: Pair = pair, seconds: int = PAIR_SECONDS) -> Step:
        def run(clock: Clock) -> Result:
            check_compute_mode(name, state)
            return measured.run(name, [known[model] for model in PAIR], total, clock)

        title = f"Two servers under {name}, with `tandem bench`"
        return Step(f"pair {name}", title, 60 if given.dry_run else seconds, run)

    def bench_again(mode: str) -> Step:
        return bench(f"{mode} again", again, MORE_REPEATS_SECONDS)

    if given.dry_run:
        return [*without_engine, *map(memory, cases("dry")), *map(bench, PAIR_MODES)]
    return [
        *without_engine,
        *map(memory, cases("first")),
        *map(bench, PAIR_MODES),
        *map(memory, cases("more")),
        *map(bench_again, PAIR_MODES),
    ]


def _need_engine(_: Clock) -> Result:
    raise SkipError("no engine was given: name one with --programs")


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
