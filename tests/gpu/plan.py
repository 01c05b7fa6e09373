"""What the GPU tier measures, the most useful first, and what it tries in a dry run."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from sharing.models import KvType
from tests.gpu.build import Build
from tests.gpu.machine import Machine
from tests.gpu.memory import Case, Files, measure
from tests.gpu.pair import LOAD, Pair
from tests.gpu.progress import Clock, Result, SkipError, Step
from tests.gpu.shapes import SHAPES, shrunk
from tests.gpu.shares import prove_shares

FIRST_CASES = (
    Case("llama2:7b", 4096),
    Case("mistral:7b", 32768),
    Case("nomic-embed-text", 2048),
    Case("gemma3:4b", 8192, slots=4),
    Case("gpt-oss:20b", 32768),
    Case("qwen3:8b", 40960),
    Case("llama3.2:3b", 8192),
)
"""One case of each model: every kind of layer, the defaults of this project first."""
MORE_CASES = (
    Case("qwen3:8b", 40960, kv_type=KvType.Q8_0),
    Case("gemma3:4b", 65536),
    Case("llama2:7b", 2048, slots=4),
    Case("mistral:7b", 4096),
    Case("gpt-oss:20b", 8192, slots=4),
    Case("llama3.2:3b", 131072),
    Case("gemma3:4b", 4096, slots=16),
    Case("llama3.2:3b", 131072, kv_type=KvType.Q8_0),
    Case("qwen3:8b", 4096),
    Case("gpt-oss:20b", 131072),
    Case("llama3.2:3b", 32768, kv_type=KvType.Q4_0),
    Case("mistral:7b", 8192, slots=4),
)
"""What the first cases leave open: slots with sliding windows, quantised caches, short and long contexts."""
DRY_CASES = (
    *(Case(name, 1024 if name != "nomic-embed-text" else 512) for name in SHAPES),
    Case("gemma3:4b", 1024, slots=2),
    Case("qwen3:8b", 1024, kv_type=KvType.Q8_0),
)
PAIR = ("llama2:7b", "mistral:7b")
DRY_LOAD = (
    *("--prompt-words", "8", "--output-tokens", "16", "--concurrency", "2"),
    *("--requests", "3", "--warm-up", "1", "--repeats", "1", "--temperature", "1", "--allow-cpu"),
)
BUILD, BUILD_SECONDS = "build", 60
"""A build is not begun with less; it stops with the call and goes on in the next."""
MODES = ("time-slicing", "mps")


def steps(given: Namespace, folder: Path, machine: Machine) -> list[Step]:
    """All steps of a call with these arguments, the most useful first: what the time does not reach is the least loss.

    The proofs of the shares come before all: they need no build, and half a minute.
    """
    state = machine.gpu()
    capability = str(state["compute_capability"]) if state else None
    build = Build(given.llama_cpp, given.llama_cpp_version, folder / "build", capability, given.cmake, given.jobs)
    files, logs = Files(folder / "models"), folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    known = {name: shrunk(shape) for name, shape in SHAPES.items()} if given.dry_run else SHAPES
    load = DRY_LOAD if given.dry_run else LOAD
    pair = Pair(given.ollama, build.programs, folder / "ollama", files, machine, given.packages, load)
    total = state["total_mib"] if state else 0

    def memory(case: Case) -> Step:
        shape = known[case.model]
        title = f"Memory of {case.model}, context {case.context}, {case.slots} slots, {case.kv_type.value}"
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
    first, more = (DRY_CASES, ()) if given.dry_run else (FIRST_CASES, MORE_CASES)
    return [*map(proof, MODES), building, *map(memory, first), *map(bench, MODES), *map(memory, more)]


def check_compute_mode(mode: str, state: Result | None) -> None:
    """Raises `SkipError` where the GPU takes one process only. Under MPS, that is the MPS server."""
    if mode == "time-slicing" and state and state["compute_mode"] == "Exclusive_Process":
        raise SkipError("the GPU is in compute mode EXCLUSIVE_PROCESS, which the tier leaves as it is")
