"""Engines under limits of their own: two at once, and each under its bare prediction and under too small a limit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

from sharing.fit.memory import Need, need
from sharing.hardware.gpus import Gpu
from sharing.models.engine import ModelInEngine
from tests.gpu.engine import Server, free_port, llama_arguments, serving, wait_until_ready
from tests.gpu.machine import Machine, in_catalogue
from tests.gpu.memory import ENVIRONMENT, START_SECONDS, Case, Files, check_all_on_gpu, fill, used_by
from tests.gpu.node_daemon import NodeDaemon, node_daemon
from tests.gpu.progress import FailedError, Result, SkipError
from tests.gpu.readings import read_load
from tests.gpu.shapes import Shape

SERVER_MIB = 66
"""GPU memory of the MPS server; `MOST_MPS_SERVER_MIB` of sharing/modes/modes.py, which needs a package."""
TOO_SMALL = 0.75
"""Part of the prediction with which no model can load: it is off by a few percent at most (test_results.py)."""
REFUSED = "out of memory"
"""In the engine's log when the driver refuses an allocation. Source: docs/benchmarks, a share that is too small."""


@dataclass(frozen=True)
class Engines:
    """What is needed to start an engine."""

    programs: Path
    files: Files
    machine: Machine
    logs: Path

    @contextmanager
    def running(self, case: Case, shape: Shape, limits: Mapping[str, str], name: str) -> Iterator[Server]:
        """An engine with the model loaded, which has the log of that name. Raises `FailedError`."""
        served, port = case.served(shape), free_port()
        command = [str(self.programs / "llama-server"), *llama_arguments(served, self.files.path(shape), port)]
        log = self.logs / f"limits-{name}-{case.model}.log".replace(" ", "-").replace(":", "-")
        with serving(command, port, log, {**ENVIRONMENT, **limits}) as server:
            wait_until_ready(server, "/health", START_SECONDS)
            if self.machine.has_gpu:
                check_all_on_gpu(read_load(server.lines()), log.name)
            yield server


def measure_servers(engines: Engines, cases: Sequence[Case], shapes: Sequence[Shape]) -> Result:
    """All of it. Raises `FailedError` where a model loads under a limit that cannot hold it."""
    if not engines.machine.has_gpu:
        # Only whether two engines run at once.
        return {"together": _together(engines, cases, shapes, [{} for _ in cases]), "tries": []}
    gpu = gpu_of_rules(engines.machine)
    needs = [need(case.served(shape), gpu) for case, shape in zip(cases, shapes, strict=True)]
    bounds = [ceil(each.bound) for each in needs]
    with node_daemon() as daemon:
        together = _together(engines, cases, shapes, [daemon.client(bound) for bound in bounds])
        for row, bound in zip(together["servers"], bounds, strict=True):
            row["limit_mib"] = bound
        tries = [
            _try(engines, daemon, case, shape, each, int(part * each.total))
            for case, shape, each in zip(cases, shapes, needs, strict=True)
            for part in (1, TOO_SMALL)
        ]
    for one in tries:
        if one["loads"] and one["limit_mib"] <= TOO_SMALL * one["predicted_mib"]:
            raise FailedError(
                f"{one['model']} loaded under {one['limit_mib']:,} MiB, and needs {one['predicted_mib']:,.0f}: "
                "the limit is not enforced"
            )
    return {"together": together, "tries": tries}


def _together(
    engines: Engines, cases: Sequence[Case], shapes: Sequence[Shape], limits: Sequence[Mapping[str, str]]
) -> Result:
    """Both with their contexts full, at the same time, each under the limit that the plan gives it at least."""
    with ExitStack() as opened:
        servers = [
            opened.enter_context(engines.running(case, shape, limit, "together"))
            for case, shape, limit in zip(cases, shapes, limits, strict=True)
        ]
        rows = []
        for case, shape, server in zip(cases, shapes, servers, strict=True):
            loaded = used_by(server, engines.machine)
            tokens = fill(server, case.served(shape))
            rows.append({**asdict(case), "filled_tokens": tokens, "loaded_mib": loaded, "server": server})
        for row in rows:
            server = row.pop("server")
            assert isinstance(server, Server)
            if server.process.poll() is not None:
                raise FailedError(
                    f"{row['model']} ended while the other one filled its context:\n{server.last_words()}"
                )
            row["filled_mib"] = used_by(server, engines.machine)
        return {"servers": rows, "gpu_mib": engines.machine.used_mib()}


def _try(engines: Engines, daemon: NodeDaemon, case: Case, shape: Shape, each: Need, limit: int) -> Result:
    """Whether one model loads under a limit, and works with a full context. Raises `FailedError` for other reasons."""
    found: Result = {"model": case.model, "limit_mib": limit, "predicted_mib": round(each.total, 1), "loads": False}
    name = f"{limit}-MiB"
    try:
        with engines.running(case, shape, daemon.client(limit), name) as server:
            found["loads"] = True
            fill(server, case.served(shape))
            found["filled_mib"] = used_by(server, engines.machine)
    except FailedError as error:
        log = engines.logs / f"limits-{name}-{case.model}.log".replace(":", "-")
        said = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        refused = next((line for line in said if REFUSED in line.lower()), None)
        if refused is None:
            raise FailedError(f"{case.model} failed under {limit:,} MiB, but not for its memory: {error}") from None
        found["refused"] = refused
    return found


def gpu_of_rules(machine: Machine) -> Gpu:
    """The GPU as the rules know it. Raises `SkipError`: without a prediction, there is no limit."""
    state = machine.gpu()
    if state is None:
        raise SkipError("a dry run has no GPU")
    if (gpu := in_catalogue(state["name"])) is None:
        raise SkipError(f"the rules do not know what a model takes on {state['name']}")
    return gpu


def limits_of(served: Sequence[ModelInEngine], gpu: Gpu) -> list[int]:
    """The limits that a plan gives to models without `memory-gib`: what each needs, and an equal part of the rest.

    `sharing.fit.own_limits` computes them for pods, with classes that need a package. Raises `SkipError`.
    """
    least = [ceil(need(each, gpu).bound) for each in served]
    left = gpu.cuda_mib - SERVER_MIB - sum(least)
    if left < 0:
        raise SkipError(f"both models need {sum(least):,} MiB, more than this GPU has")
    return [each + left // len(least) for each in least]


def describe_servers(found: Mapping[str, Result]) -> Iterator[str]:
    """The report's section about the engines, of the step's result."""
    if not (result := found.get("servers")):
        return
    yield "\n## Engines under limits of their own\n"
    together = result["together"]
    for row in together["servers"]:
        limit = f"limit {row['limit_mib']:,}" if "limit_mib" in row else "no limit"
        settings = f"{row['model']}, {row['context']:,} tokens"
        yield f"- {settings}, both at once, {limit}: {_mib(row['filled_mib'])} MiB when full."
    for one in result["tries"]:
        if not one["loads"]:
            outcome = f"did not load (`{one['refused']}`)"
        elif "refused" in one:
            outcome = f"loaded, and failed with a full context (`{one['refused']}`)"
        else:
            outcome = f"loaded, {_mib(one['filled_mib'])} MiB when full"
        part = f"{one['limit_mib'] / one['predicted_mib']:.0%}".replace("%", " %")
        yield f"- {one['model']}, alone, limit {one['limit_mib']:,} MiB, {part} of the prediction: {outcome}."


def _mib(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
