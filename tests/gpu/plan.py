"""The measurements of the GPU tier, the most useful first, and the steps of its dry run."""

import tomllib
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

from tests.gpu.daemon_restart import restart_node_daemon, restart_plugin_daemon
from tests.gpu.limited_servers import Engines, measure_servers
from tests.gpu.limits import measure_limits
from tests.gpu.machine import Machine
from tests.gpu.memory import Case, Files, measure
from tests.gpu.pair import MPS_THREADS, OWN_THREADS, Pair
from tests.gpu.progress import Clock, FailedError, Result, SkipError, Step
from tests.gpu.shapes import SHAPES, Shape, shrunk
from tests.gpu.shares import prove_shares

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIR = ("llama2:7b", "mistral:7b")
SECONDS: dict[str, int] = TABLE["seconds"]
PAIR_MODES = (*OWN_THREADS, "time-slicing", *MPS_THREADS)
DRY_SECONDS = 60


def steps(given: Namespace, folder: Path, machine: Machine) -> list[Step]:
    """All steps of a call with these arguments, the most useful first, so that a lack of time skips the least useful.

    First come those of limits per model, which no GPU has shown yet.
    """
    state, logs = machine.gpu(), folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    total = state["total_mib"] if state else 0

    def on_gpu(key: str, title: str, measured: Callable[[], Result]) -> Step:
        def run(_: Clock) -> Result:
            if state is None:
                raise SkipError("a dry run has no GPU")
            check_compute_mode(key.partition(" ")[2], state)
            return measured()

        return Step(key, title, SECONDS[key], run)

    def proof(mode: str) -> Step:
        run = partial(prove_shares, mode, machine, folder / "shares", total)
        return on_gpu(f"shares {mode}", f"Shares under {mode}", run)

    own_limits = [
        on_gpu("limits enforced", "Limits of a client's own", lambda: measure_limits(machine, total)),
        proof("per-model"),
        on_gpu(
            "restarts per-model", "The node's MPS daemon ends under a model", lambda: restart_node_daemon(total // 2)
        ),
    ]
    known = [
        on_gpu("restarts mps", "The plugin's MPS daemon ends under a model", lambda: restart_plugin_daemon(total)),
        *map(proof, ("time-slicing", "mps")),
    ]
    if given.programs is None:
        return [*own_limits, *known, Step("engine", "Everything else", 0, _need_engine)]

    files = Files(folder / "models")
    known_shapes = {name: shrunk(shape) for name, shape in SHAPES.items()} if given.dry_run else SHAPES
    load = TABLE["load"]["dry" if given.dry_run else "full"].split()
    pair = Pair(given.ollama, given.programs, folder / "ollama", logs, files, machine, given.packages, load)
    again = replace(pair, load=[*load, *TABLE["load"]["again"].split()])

    def memory(case: Case) -> Step:
        shape = known_shapes[case.model]
        title = f"Memory of {case.model}, context {case.context}, {case.slots} slots, {case.kv_type}"
        run = partial(measure, case, shape, given.programs, files, machine, logs)
        return Step(f"memory {case}", title, memory_seconds(case, shape), lambda _: run())

    def servers() -> Step:
        engines = Engines(given.programs, files, machine, logs)
        both = cases("dry_limited" if given.dry_run else "limited")
        run = partial(measure_servers, engines, both, [known_shapes[case.model] for case in both])
        return Step("limits servers", "Engines under limits of their own", SECONDS["limits servers"], lambda _: run())

    def bench(name: str, measured: Pair = pair, seconds: int = SECONDS["pair"]) -> Step:
        def run(clock: Clock) -> Result:
            check_compute_mode(name, state)
            return measured.run(name, [known_shapes[model] for model in PAIR], total, clock)

        title = f"Two servers under {name}, with `tandem bench`"
        return Step(f"pair {name}", title, DRY_SECONDS if given.dry_run else seconds, run)

    def bench_again(mode: str) -> Step:
        return bench(f"{mode} again", again, SECONDS["pair again"])

    first, later = PAIR_MODES[: len(OWN_THREADS)], PAIR_MODES[len(OWN_THREADS) :]
    if given.dry_run:
        return [*own_limits, servers(), *known, *map(memory, cases("dry")), *map(bench, PAIR_MODES)]
    return [
        *own_limits,
        servers(),
        *map(bench, first),
        *known,
        bench(later[0]),
        *map(memory, cases("first")),
        # From here on, not within a quarter of an hour.
        *map(bench, later[1:]),
        *map(memory, cases("more")),
        *map(bench_again, PAIR_MODES),
    ]


def select(planned: Sequence[Step], names: str) -> list[Step]:
    """The steps whose names begin with one of these, separated by commas; all without any. Raises `FailedError`."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if not any(step.key.startswith(name) for step in planned):
            known = ", ".join(step.key for step in planned if not step.key.startswith("memory "))
            raise FailedError(f"no step begins with `{name}`; there are {known}, and those of memory")
    return [step for step in planned if not wanted or step.key.startswith(tuple(wanted))]


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
