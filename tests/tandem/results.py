"""Results of benchmarks that never ran: every figure is chosen."""

from dataclasses import replace
from typing import Any

from tandem.bench_results.result import Load, Machine, Memory, Result, Row, Run, Server, ServerTimes, Session

GIB = 2**30
NO_TIMES = ServerTimes(total_ns=0, load_ns=0, prompt_eval_ns=0, eval_ns=0)
WHOLE = Memory(size=4 * GIB, size_vram=4 * GIB, context_length=2048)
SPILLED = Memory(size=4 * GIB, size_vram=3 * GIB, context_length=2048)


def row(
    arrivals_ms: list[float], *, endpoint: str = "a", sent_ms: float = 0.0, tokens: int | None = None, **changes: Any
) -> Row:
    """A request whose pieces arrived at those times."""
    fields: dict[str, Any] = {
        "endpoint": endpoint, "counted": True, "scheduled_us": None, "sent_us": round(sent_ms * 1000),
        "arrivals_us": [round(arrival * 1000) for arrival in arrivals_ms],
        "tokens": len(arrivals_ms) if tokens is None else tokens, "prompt_tokens": 70, "done_reason": "length",
        "server": NO_TIMES, "error": None,
    }  # fmt: skip
    return Row(**{**fields, **changes})


def failed(endpoint: str = "a", **changes: Any) -> Row:
    """A request without an answer."""
    return row([], endpoint=endpoint, error="503: server busy", **changes)


def steady(endpoint: str, first_ms: float, next_ms: float, *, tokens: int = 101, requests: int = 4) -> list[Row]:
    """Sequential requests with this time between tokens."""
    arrivals = [first_ms + next_ms * number for number in range(tokens)]
    return [row(arrivals, endpoint=endpoint, sent_ms=number * arrivals[-1]) for number in range(requests)]


def run(
    endpoints: list[str], rows: list[Row], *, repeat: int = 1, memory: Memory | None = WHOLE, **changes: Any
) -> Run:
    """A closed run at four at a time."""
    places = dict.fromkeys(endpoints, memory)
    fields: dict[str, Any] = {
        "repeat": repeat, "endpoints": endpoints, "prompt_words": 64,
        "loop": "closed", "level": 4.0, "seconds": 10.0,
        "memory_start": places, "memory_end": places, "client_cpu_s": 0.1, "rows": rows,
    }  # fmt: skip
    return Run(**{**fields, **changes})


def server(id: str, model: str) -> Server:
    """A server of 0.32.15."""
    return Server(
        id=id, url=f"http://127.0.0.1/{id}", model=model, ollama="0.32.15", digest="d", family="llama",
        parameter_size="7B", quantization="Q4_0",
    )  # fmt: skip


def session(label: str = "x", **changes: Any) -> Session:
    """A call that found the models a and b."""
    fields: dict[str, Any] = {
        "begun": "2026-11-21T10:00:00+00:00", "command": ["tandem", "bench", label],
        "versions": {"tandem": "0.1", "httpx": "0.28"},
        "machine": Machine(system="Linux 6", processor="Xeon", cpus=4, python="3.12"), "salt": "s",
        "servers": [server("a", "llama2:7b"), server("b", "mistral:7b")],
    }  # fmt: skip
    return Session(**{**fields, **changes})


def result(label: str, runs: list[Run], **changes: Any) -> Result:
    """A result of the models a and b."""
    load = Load(
        prompt_words=[64], output_tokens=101, concurrency=[4], rates=[], requests=4, warmup=1, repeats=3, seed=1,
        temperature=0.0, timeout_s=300.0,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "label": label, "complete": True, "ended": "2026-11-21T10:30:00+00:00", "load": load,
        "sessions": [session(label)], "usd_per_hour": None, "runs": runs,
    }  # fmt: skip
    return Result(**{**fields, **changes})


def shared(label: str, alone_ms: tuple[float, float], together_ms: tuple[float, float], **changes: Any) -> Result:
    """Three repeats; the times between tokens of a and b, alone and together."""
    runs = []
    for repeat in (1, 2, 3):
        a, b = (steady(name, 100.0, time) for name, time in zip("ab", alone_ms, strict=True))
        both = [one for name, time in zip("ab", together_ms, strict=True) for one in steady(name, 150.0, time)]
        runs += [run(["a"], a, repeat=repeat), run(["b"], b, repeat=repeat), run(["a", "b"], both, repeat=repeat)]
    return result(label, changes.pop("runs", runs), **changes)


def timed(untimed: Result, prompt_ms: float) -> Result:
    """The same from servers that report their times, and this one for each prompt."""

    def times(one: Row) -> ServerTimes:
        first, *_, last = one.arrivals_us
        return ServerTimes(
            total_ns=last * 1000, load_ns=0, prompt_eval_ns=round(1e6 * prompt_ms), eval_ns=(last - first) * 1000
        )

    return replace(
        untimed,
        runs=[replace(run, rows=[replace(one, server=times(one)) for one in run.rows]) for run in untimed.runs],
    )


def paced(label: str, together_ms: tuple[float, ...], **changes: Any) -> Result:
    """A repeat for each time between tokens of both models together; alone each has 10 ms. Nothing else takes time."""
    runs = []
    for repeat, time in enumerate(together_ms, start=1):
        runs += [run([name], steady(name, 0.0, 10.0, tokens=100, requests=1), repeat=repeat) for name in "ab"]
        both = [one for name in "ab" for one in steady(name, 0.0, time, tokens=100, requests=1)]
        runs.append(run(["a", "b"], both, repeat=repeat))
    return result(label, runs, **changes)


PLAN = {
    "pools": [{"nodes": 1, "gpu": {"name": "t4"}}],
    "models": [
        {"id": "a", "needs_mib": 5193, "share_mib": 7680},
        {"id": "b", "needs_mib": 4947, "share_mib": None},
    ],
}


def mps(**changes: Any) -> Result:
    return shared("mps", (20.0, 40.0), (40.0, 60.0), **{"usd_per_hour": 0.46, "plan": PLAN, **changes})


def exclusive(**changes: Any) -> Result:
    return shared("exclusive", (20.0, 40.0), (20.0, 40.0), **{"usd_per_hour": 0.69, **changes})
