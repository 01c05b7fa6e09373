"""The comparison at equal load, against figures that NVIDIA published and others reckoned by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tandem.bench_results.equal_load import EqualLoad, compare_costs, equal_load, reference
from tandem.bench_results.measures import Span
from tandem.bench_results.result import Result, Run
from tandem.bench_results.summary import Workload, summary
from tests.tandem.results import SPILLED, result, row, run, server, session, steady

TOKENS = 1000
SHARED = {"total": 2, "per_gpu": 2}


def plan(gpu: str, *shares: Mapping[str, int], mode: str = "mps") -> dict[str, Any]:
    """The plan of a stack with a pool for each of these."""
    return {
        "pools": [{"nodes": 1, "gpu": {"name": gpu}, "shares": [each], "mode": mode} for each in shares],
        "models": [],
    }


def loaded(models: str, level: float, speed: float, *, repeat: int = 1) -> Run:
    """Each of these models at a level of requests, which have `speed` tokens per second together."""
    gap = level * 1000 * TOKENS / speed / (TOKENS - 1)
    one = [each for name in models for each in steady(name, 0.0, gap, tokens=TOKENS, requests=1)]
    return run([*models], one * int(level), repeat=repeat, level=level)


def measured(
    label: str, alone: Mapping[float, float], together: Mapping[float, float | Sequence[float]], **changes: Any
) -> Result:
    """Of two equal models: tokens per second by level, of one alone and of each of both, for one repeat or several."""
    runs = [loaded(name, level, speed) for level, speed in alone.items() for name in "ab"]
    for level, speeds in together.items():
        each = [speeds] if isinstance(speeds, float) else speeds
        runs += [loaded("ab", level, speed, repeat=number) for number, speed in enumerate(each, start=1)]
    return result(label, runs, **changes)


def rows(*results: Result) -> list[EqualLoad]:
    return equal_load([summary(each) for each in results])


# Requests on the GPU; tokens/s of one model, of two that share it by time-slicing and by MPS with half of the SMs each;
# and what these keep. NVIDIA, "Interpreting GPU Sharing Results" (ai-dynamo/dynamo, 2026): Qwen3-4B on an A100.
NVIDIA = [
    (2.0, 227.5, 101.1, 0.445, 144.4, 0.635),
    (4.0, 429.1, 193.0, 0.450, 259.2, 0.604),
    (8.0, 671.2, 343.9, 0.512, 456.1, 0.680),
    (16.0, 929.2, 572.0, 0.616, 722.8, 0.778),
    (32.0, 1141.8, 831.4, 0.728, 1003.4, 0.879),
]
ONE_ALONE = 891 / 8
"""Eight models on eight GPUs, one request each. With 16 models there, 809 and 1155: 45 % and 65 % for each model."""


def test_nvidias_published_table_comes_out() -> None:
    levels = {load[0]: load for load in NVIDIA}
    dedicated = measured("exclusive", {1.0: ONE_ALONE} | {level: load[1] for level, load in levels.items()}, {})
    targets = [
        measured(label, {}, {level / 2: load[column] / 2 for level, load in levels.items()})
        for label, column in (("timeslice", 2), ("mps", 4))
    ]
    found = rows(*targets, dedicated)
    assert [(each.target, each.on_gpu and each.on_gpu.level) for each in found] == [
        (target, level) for level in levels for target in ("timeslice", "mps")
    ]
    parts = [(each.target, each.of_dedicated) for each in found]
    for target, column in (("timeslice", 3), ("mps", 5)):
        medians = [part.median for name, part in parts if name == target and part]
        assert medians == pytest.approx([load[column] for load in NVIDIA], abs=0.001)
    assert [each.tokens_per_s and round(each.tokens_per_s.median, 1) for each in found[:2]] == [101.1, 144.4]
    kept = [model.of_own_gpu and round(model.of_own_gpu.median, 2) for each in found[:2] for model in each.models]
    assert kept == [0.45, 0.45, 0.65, 0.65]
    assert {each.compared_with for each in found} == {"exclusive"}


def test_models_of_different_speeds_are_compared_each_with_itself() -> None:
    """a does 50 of 200 tokens/s and b 20 of 40: together three quarters of a GPU, not 70 of 120 or of 240."""
    alone = [
        loaded(name, level, speed) for name, level, speed in [("a", 1, 80), ("b", 1, 25), ("a", 2, 200), ("b", 2, 40)]
    ]
    both = loaded("a", 1, 50).rows + loaded("b", 1, 20).rows
    [one] = rows(result("timeslice", [*alone, run(["a", "b"], both, level=1.0)]))
    assert one.of_dedicated is not None
    assert one.of_dedicated.median == pytest.approx(0.75)
    assert [model.of_own_gpu and model.of_own_gpu.median for model in one.models] == pytest.approx([50 / 80, 20 / 25])


def test_times_stand_beside_those_of_one_model_with_all_requests() -> None:
    """Of the A100 at two requests: 8.61 and 13.2 ms between tokens, 48.6 and 185 ms until the first."""

    def paced(models: str, level: float, first: float, gap: float) -> Run:
        return run([*models], [each for name in models for each in steady(name, first, gap)], level=level)

    alone = [paced(name, level, first, gap) for level, first, gap in ((2, 48.6, 8.61), (1, 30, 8.0)) for name in "ab"]
    [one] = rows(result("timeslice", [*alone, paced("ab", 1, 185, 13.2)]))
    times = [(each.itl_alone_ms, each.itl_ms, each.ttft_alone_ms, each.ttft_ms) for each in one.models]
    assert times == [pytest.approx((8.61, 13.2, 48.6, 185))] * 2


def test_each_repeat_counts_and_gives_the_price() -> None:
    target = measured("mps", {2.0: 100.0}, {1.0: [40.0, 20.0, 25.0]}, usd_per_hour=0.36)
    [one] = rows(target)
    assert one.of_dedicated == pytest.approx(Span(0.5, 0.4, 0.8))
    assert one.tokens_per_s == pytest.approx(Span(50.0, 40.0, 80.0))
    assert one.usd_per_million == pytest.approx(Span(2.0, 1.25, 2.5))  # 0.36 / 3600 / 50 * 1e6
    assert [span.usd_per_million for span in rows(replace(target, usd_per_hour=None))] == [None]


def test_a_load_without_a_partner_says_what_to_measure() -> None:
    found = rows(measured("timeslice", {1.0: 50.0, 2.0: 80.0}, {1.0: 30.0, 2.0: 35.0}))
    assert [(each.remark, each.of_dedicated is None) for each in found] == [
        ("", False), ("no run of each model alone at 4 (--concurrency 4)", True)
    ]  # fmt: skip
    assert [model.of_own_gpu and round(model.of_own_gpu.median, 4) for model in found[1].models] == [35 / 80] * 2
    open_loop = [replace(each, loop="open", level=0.5) for each in measured("x", {}, {1.0: 30.0}).runs]
    assert rows(result("x", open_loop))[0].remark == "no run of each model alone at 1 (--rate 1)"


@pytest.mark.parametrize(("planned", "shown"), [(1, ["1 of 2", "1 of 4"]), (2, ["2 of 4"]), (4, [])])
def test_a_model_alone_with_fewer_slots_than_requests_is_not_at_equal_load(planned: int, shown: list[str]) -> None:
    """It works on its requests one after the other, while each of two models works on one."""
    plan: Any = {"pools": [], "models": [{"id": name, "slots": planned} for name in "ab"]}
    alone = [run([name], steady(name, 0.0, 20.0), level=level) for level in (2.0, 4.0) for name in "ab"]
    both = [run(["a", "b"], [*steady("a", 0.0, 30.0), *steady("b", 0.0, 30.0)], level=level) for level in (1.0, 2.0)]
    found = rows(result("timeslice", [*alone, *both], plan=plan))
    remarks = [each.remark for each in found if each.remark]
    assert remarks == [f"a model alone worked on {some} at a time (slots)" for some in shown]
    assert all(each.of_dedicated for each in found)


def test_a_result_with_a_gpu_for_each_model_is_the_measure_of_those_with_the_same_gpu() -> None:
    shared, other = plan("t4", SHARED), plan("l4", SHARED)
    own: Any = plan("t4", {"total": 2, "per_gpu": 1}, mode="exclusive")
    alone = {1.0: 50.0, 2.0: 100.0}
    results = [
        measured("mps", {2.0: 60.0}, {1.0: 30.0}, plan=shared),
        measured("on an L4", {2.0: 60.0}, {1.0: 30.0}, plan=other),
        measured("two T4", alone, {1.0: 50.0, 2.0: 90.0}, plan=own),
        measured("unplanned", {2.0: 60.0}, {1.0: 30.0}),
    ]
    found = {(each.target, each.workload.level): each for each in rows(*results)}
    shown: dict[Any, Any] = {
        name: (each.compared_with, each.on_gpu and each.on_gpu.level, each.of_dedicated and each.of_dedicated.median)
        for name, each in found.items()
    }
    assert shown == {
        ("two T4", 1): ("two T4", 1, pytest.approx(1.0)),  # of its two GPUs
        ("two T4", 2): ("two T4", 2, pytest.approx(0.9)),
        ("mps", 1): ("two T4", 2, pytest.approx(0.6)),
        ("on an L4", 1): ("on an L4", 2, pytest.approx(1.0)),
        ("unplanned", 1): ("two T4", 2, pytest.approx(0.6)),
    }


def test_models_on_several_shared_gpus_are_not_compared() -> None:
    for shares in ([{"total": 4, "per_gpu": 2}], [SHARED, SHARED]):
        [one] = rows(measured("mps", {2.0: 60.0}, {1.0: 30.0}, plan=plan("t4", *shares)))
        assert (one.on_gpu, one.of_dedicated, one.remark) == (None, None, "the plan has several GPUs")


def test_three_models_are_compared_with_one_at_three_times_the_load() -> None:
    runs = [*(loaded(name, 3, 90) for name in "abc"), loaded("abc", 1, 20)]
    servers = [server(name, name) for name in "abc"]
    [one] = rows(result("timeslice", runs, sessions=[session(servers=servers)]))
    assert one.of_dedicated is not None
    assert one.of_dedicated.median == pytest.approx(2 / 3)


def test_spilled_runs_and_answers_of_no_duration_are_in_no_ratio() -> None:
    whole = measured("timeslice", {2.0: 60.0}, {1.0: 30.0})
    spilled = [replace(each, memory_end={"a": SPILLED}) if each.endpoints == ["a"] else each for each in whole.runs]
    at_once = [run(["a"], [row([0.0])], level=2.0), *whole.runs[1:]]
    for runs in (spilled, at_once):
        [one] = rows(result("timeslice", runs))
        assert (one.of_dedicated, one.tokens_per_s and round(one.tokens_per_s.median)) == (None, 60)


def test_one_model_shares_with_no_other() -> None:
    assert rows(result("x", [loaded("a", 1, 30)], sessions=[session(servers=[server("a", "m")])])) == []


def test_the_headline_is_the_highest_load_that_is_compared_and_so_are_the_costs() -> None:
    alone = {1.0: 50.0, 2.0: 100.0, 4.0: 150.0}
    pair = [
        summary(measured(label, alone, {1.0: [20.0, 20.1], 2.0: [speed, speed + 0.1], 4.0: 20.0}, usd_per_hour=0.36))
        for label, speed in (("mps", 60.0), ("timeslice", 40.0))
    ]
    assert reference(pair) == Workload(64, "closed", 2.0)
    [costs] = compare_costs(pair)
    assert costs.best == "mps"
    assert costs.ratio == pytest.approx(40.05 / 60.05, rel=1e-4)
    lonely = summary(measured("lonely", {}, {4.0: 20.0}))
    assert reference([lonely]) == Workload(64, "closed", 4.0)
    assert reference([summary(measured("alone", alone, {}))]) is None
