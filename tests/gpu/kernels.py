"""How long the driver compiles the engine's kernels, and whether its cache saves that at the next start (0158)."""

import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.gpu.engine import free_port, llama_arguments, serving, wait_until_ready
from tests.gpu.memory import ENVIRONMENT, START_SECONDS, Case, Files, fill
from tests.gpu.progress import Result, SkipError, Step
from tests.gpu.shapes import Shape

CASE = Case("llama3.2:3b", context=2048)
KERNELS = "kernels"
"""The key of the step, and of its result."""
STARTS = ("empty cache", "filled cache")
COMPILE_SECONDS = 300
"""More than the 57 s and the 4 minutes of the reports in decision 0158."""


def kernel_step(shapes: Mapping[str, Shape], programs: Path, files: Files, cache: Path, logs: Path, after: str) -> Step:
    """The step of the tier; the last one, because the tier's own build has machine code."""
    title = "Start with an empty and with a filled cache of compiled kernels"
    run = partial(time_kernels, CASE, shapes[CASE.model], programs, files, cache, logs)
    return Step(KERNELS, title, COMPILE_SECONDS + 60, lambda _: run(), after)


def time_kernels(case: Case, shape: Shape, programs: Path, files: Files, cache: Path, logs: Path) -> Result:
    """Starts the engine twice with one cache, and fills the context: long prompts have kernels of their own.

    Raises `SkipError` for an engine with machine code for this GPU, which leaves the cache empty.
    """
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    environment = {**ENVIRONMENT, "CUDA_CACHE_PATH": str(cache)}
    starts = {}
    for start in STARTS:
        port, served = free_port(), case.served(shape)
        command = [str(programs / "llama-server"), *llama_arguments(served, files.path(shape), port)]
        log = logs / f"kernels-{start.replace(' ', '-')}.log"
        with serving(command, port, log, environment) as server:
            ready = wait_until_ready(server, "/health", START_SECONDS + COMPILE_SECONDS)
            begun = time.monotonic()
            fill(server, served)
            starts[start] = {"ready_seconds": round(ready, 1), "prompt_seconds": round(time.monotonic() - begun, 1)}
        stored = [file.stat().st_size for file in cache.rglob("*") if file.is_file()]
        if not stored:
            raise SkipError("the engine has machine code for this GPU: build it with PTX to measure this")
        starts[start] |= {"cache_files": len(stored), "cache_mib": round(sum(stored) / 2**20, 1)}
    return {"model": case.model, "context": served.effective_context, "starts": starts}


def describe_kernels(found: Result) -> Iterator[str]:
    """The report's section, of the step's result."""
    if not found:
        return
    yield "\n## Compiled kernels\n"
    yield f"{found['model']}, two starts with one cache of the driver. The prompt fills the context.\n"
    yield "| start | ready after, s | prompt, s | cache, MiB |"
    yield "| --- | --- | --- | --- |"
    for start, one in found["starts"].items():
        yield f"| {start} | {one['ready_seconds']:.1f} | {one['prompt_seconds']:.1f} | {one['cache_mib']:.1f} |"
