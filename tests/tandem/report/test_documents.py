"""Reports of results that never ran, word for word. `--regen` writes `tests/golden/reports`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tandem.bench_results.result import Memory, Result
from tandem.bench_results.summary import Goals, summary
from tandem.report.command import name_models
from tandem.report.document import document
from tandem.report.figures import draw
from tests.conftest import Golden
from tests.tandem.report.test_figures import printed
from tests.tandem.results import PLAN, SPILLED, exclusive, failed, mps, paced, result, run, session, timed

Results = tuple[Result, ...]


def many_loads() -> Results:
    """Also open ones, in one repeat."""
    first, second = printed("mps", 1.0, 0.5754), printed("exclusive", 0.05, 1.1)
    for one in (first, second):
        words, levels = [64, 512, 2048], [1, 8]
        one.load = replace(one.load, prompt_words=words, concurrency=levels, rates=[0.5], requests=200, repeats=2)
    plan: Any = {"pools": [{"nodes": 1, "gpu": {"name": "t4"}}, {"nodes": 2, "gpu": {"name": "l4"}}], "models": []}
    second.plan = plan
    return first, second


def noise() -> Results:
    return tuple(
        paced(label, pace, usd_per_hour=0.36)
        for label, pace in (("one", (40.0, 44.0, 36.0)), ("other", (41.0, 37.0, 42.5)), ("faster", (30.0, 30.2, 29.9)))
    )


def decided() -> Results:
    """Three targets make three pairs. One pair alone would also separate the first from the second."""
    times = {"mps": ((40.0, 44.0, 36.0), 0.46), "timeslice": ((30.0, 30.2, 29.9), 0.46)}
    times["exclusive"] = (times["timeslice"][0], 0.92)
    return tuple(paced(label, pace, usd_per_hour=usd) for label, (pace, usd) in times.items())


def wild() -> Results:
    return paced("wild", (20.0, 4000.0, 50.0), usd_per_hour=0.36), paced("calm", (20.0, 20.0, 20.1), usd_per_hour=0.36)


def without_prices() -> Results:
    return mps(usd_per_hour=None), exclusive(usd_per_hour=None)


def all_spilled() -> Results:
    places: dict[str, Memory | None] = {"a": SPILLED, "b": SPILLED}
    return (mps(runs=[replace(one, memory_start=places, memory_end=places) for one in mps().runs]),)


def alone() -> Results:
    first, *_ = mps().runs
    assert first.memory_start["a"] is not None
    larger = replace(first.memory_start["a"], context_length=4096, size=5 * 2**30, size_vram=5 * 2**30)
    reloaded: dict[str, Memory | None] = {"a": larger}
    errors = [failed(), failed(), replace(failed(), error="timeout")]
    again = replace(first, rows=[*errors, *first.rows], memory_end=reloaded)
    unseen = run(["a"], first.rows, repeat=2, memory=None)
    return (result("x", [again, unseen], plan=PLAN),)


def other_machines() -> Results:
    newer = exclusive()
    servers = [replace(one, ollama="0.35", quantization="Q8_0", digest="e") for one in newer.servers]
    machine = replace(newer.sessions[0].machine, cpus=64)
    newer.sessions = [session("exclusive", servers=servers, machine=machine)]
    return mps(), newer


def escaped() -> Results:
    servers = [replace(one, model="<b>|a`") for one in mps().servers]
    sessions = [session("m", servers=servers, command=["tandem", "bench", "`a`"])]
    return (replace(mps(sessions=sessions), label="*m*\x1b[31m|"),)


def first_tokens() -> Results:
    """The first token takes 100 ms alone and 150 together: in one result far longer than the prompt, in one not."""
    return timed(mps(), 40.0), timed(exclusive(), 100.0)


CASES = (
    many_loads, noise, decided, wild, without_prices, all_spilled, alone, other_machines, escaped,
    first_tokens,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_its_golden(case: Callable[[], Results], golden: Golden) -> None:
    results = case()
    goals = Goals(120.0, 50.0) if case is many_loads else None
    results = tuple(name_models(one) for one in results)
    figures = [summary(one, goals) for one in results]
    said = document(results, figures, draw(figures) if case is many_loads else [], goals)
    golden(f"reports/{case.__name__}.md", said)
