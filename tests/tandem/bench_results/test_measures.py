"""The definitions of the measures, for samples with known figures."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.bench.prompts import TASK, moments, prompt
from tandem.bench_results import measures
from tandem.bench_results.result import Row
from tandem.bench_results.summary import Goals, Sharing, Workload, summary
from tests.tandem.results import SPILLED, failed, result, row, run, server, session, shared, steady

CLOSED = Workload(64, "closed", 4.0)


def test_percentiles_of_known_samples_are_exact() -> None:
    sample = [15.0, 20.0, 35.0, 40.0, 50.0]
    assert [measures.percentile(sample, percent) for percent in (5, 30, 40, 50, 95)] == [16.0, 23.0, 29.0, 35.0, 48.0]
    assert [measures.percentile([*reversed(range(101))], percent) for percent in (1, 50, 95, 99)] == [1, 50, 95, 99]
    assert measures.percentile([7.0], 99) == 7.0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 99))
def test_percentiles_match_numpy(sample: list[float], percent: int) -> None:
    numpy = pytest.importorskip("numpy")
    assert measures.percentile(sample, percent) == pytest.approx(float(numpy.percentile(sample, percent)))


def test_a_request_has_the_times_of_its_definition() -> None:
    one = row([200.0, 230.0, 300.0], tokens=5)
    assert measures.ttft_ms(one) == 200.0
    assert measures.latency_ms(one) == 300.0
    assert measures.itl_ms(one) == 25.0  # five tokens in three pieces: four intervals
    assert measures.gaps_ms(one) == [30.0, 70.0]
    assert not measures.has_itl(row([200.0]))
    assert measures.has_itl(row([200.0, 210.0]))


def test_throughput_counts_all_tokens_between_the_first_request_and_the_last_answer() -> None:
    first = row([500.0, 1000.0], tokens=4)
    second = row([500.0, 1000.0], sent_ms=1000.0, tokens=4)
    filler = row([500.0, 1000.0, 1500.0], sent_ms=500.0, counted=False, tokens=0, error="stopped")
    assert measures.tokens_per_s([first, second]) == pytest.approx(8 / 2.0)
    assert measures.tokens_per_s([first, second, filler]) == pytest.approx(11 / 2.0)
    late = row([500.0, 5000.0], counted=False, error="stopped")
    assert measures.tokens_per_s([row([500.0, 1000.0]), late]) == pytest.approx(3 / 1.0)
    assert measures.tokens_per_s([failed()]) == 0.0


def test_goodput_requires_both_goals() -> None:
    rows = [row([100.0, 150.0]), row([300.0, 350.0]), row([100.0, 200.0]), failed(sent_ms=0.0), row([100.0, 1000.0])]
    assert measures.goodput(rows, 200.0, 60.0) == pytest.approx(1 / 1.0)
    assert measures.goodput(rows, 300.0, 60.0) == pytest.approx(2 / 1.0)
    assert measures.goodput(rows, 200.0, 100.0) == pytest.approx(2 / 1.0)


@pytest.mark.parametrize(
    ("shares", "index"), [([1, 1], 1.0), ([1, 0], 0.5), ([3, 1], 0.8), ([1, 0, 0, 0], 0.25), ([0, 0], 0.0)]
)
def test_jains_index_of_known_shares(shares: list[float], index: float) -> None:
    assert measures.jain(shares) == pytest.approx(index)


def test_dollars_for_a_million_tokens() -> None:
    assert measures.usd_per_million(0.36, 100.0) == pytest.approx(1.0)


def test_speed_together_is_compared_with_speed_alone() -> None:
    [one] = summary(shared("mps", (20.0, 40.0), (40.0, 60.0), usd_per_hour=0.36)).sharing
    assert one.workload == CLOSED
    assert one.slowdown == pytest.approx({"a": 2.0, "b": 1.5})
    assert one.speed == pytest.approx(math.sqrt(0.5 * (2 / 3)))
    assert one.ttft_ratio == pytest.approx({"a": 1.5, "b": 1.5})
    alone = 101 / 2.1 + 101 / 4.1  # tokens over 100 ms and a hundred intervals
    together = [101 / 4.15, 101 / 6.15]
    assert one.tokens_per_s == pytest.approx(sum(together))
    assert one.throughput_ratio == pytest.approx(sum(together) / alone)
    kept = [together[0] / (101 / 2.1), together[1] / (101 / 4.1)]
    assert one.fairness == pytest.approx(sum(kept) ** 2 / (2 * (kept[0] ** 2 + kept[1] ** 2)))
    assert one.usd_per_million == pytest.approx(100 / sum(together))


def test_requests_of_all_repeats_are_one_sample_and_throughput_is_the_median_repeat() -> None:
    runs = [run(["a"], steady("a", 100.0, time), repeat=n) for n, time in enumerate((10.0, 20.0, 60.0), start=1)]
    [one] = summary(result("x", runs)).figures
    assert one.repeats == 3
    assert one.requests == 12
    assert one.itl_ms is not None
    assert one.itl_ms.p50 == pytest.approx(20.0)
    assert one.tokens_per_s is not None
    assert one.tokens_per_s.median == pytest.approx(101 / 2.1)
    assert one.tokens_per_s.lowest == pytest.approx(101 / 6.1)


def test_a_spilled_run_is_named_and_not_compared() -> None:
    whole = shared("mps", (20.0, 40.0), (40.0, 60.0))
    spilled = [
        replace(one, memory_end={**one.memory_end, "b": SPILLED}) if len(one.endpoints) > 1 else one
        for one in whole.runs
    ]
    shown = summary(replace(whole, runs=spilled))
    assert shown.sharing == []
    assert not any(one.together for one in shown.figures)
    assert [name for name, _ in shown.excluded] == [f"a + b, 64 words, 4 at a time, repeat {n}" for n in (1, 2, 3)]
    assert shown.excluded[0][1] == ["b was partly on the CPU: 75% of its 4,096 MiB was on the GPU"]


def test_a_run_without_a_place_or_an_answer_is_not_compared() -> None:
    [(_, reasons)] = summary(result("x", [run(["a"], steady("a", 1.0, 1.0), memory=None)])).excluded
    assert reasons == ["the memory of a is unknown: its server did not list it as loaded"]
    shown = summary(result("x", [run(["a"], [failed(), failed()])]))
    assert shown.excluded[0][1] == ["a answered no request"]
    assert shown.errors == {"503: server busy": 2}


NOW, LATER, AT_ONCE = row([0.0]), row([10.0, 20.0]), row([10.0, 10.0])
"""An answer of no duration, one with a pace, and one whose pieces all came at one moment."""


def shares(a: Row, b: Row, together: Row) -> Sharing:
    """What one repeat says in which each model gets one answer alone, and the same one as the other together."""
    both = [replace(together, endpoint=name) for name in "ab"]
    runs = [run(["a"], [a]), run(["b"], [replace(b, endpoint="b")]), run(["a", "b"], both)]
    [one] = summary(result("x", runs, usd_per_hour=0.36)).sharing
    return one


def test_answers_without_a_pace_or_a_duration_are_in_no_ratio() -> None:
    one = shares(AT_ONCE, LATER, LATER)
    assert (one.slowdown, one.speed, one.span("speed")) == ({"b": 1.0}, None, None)
    one = shares(LATER, LATER, AT_ONCE)
    assert (one.slowdown, one.speed) == ({}, None)
    one = shares(NOW, LATER, LATER)
    assert (one.ttft_ratio, one.fairness) == ({"b": 1.0}, 1.0)
    assert one.throughput_ratio == pytest.approx(2.0)


def test_without_any_throughput_there_is_no_ratio_and_no_price() -> None:
    assert shares(NOW, NOW, LATER).throughput_ratio == 0.0
    none = shares(LATER, LATER, NOW)
    assert (none.tokens_per_s, none.throughput_ratio, none.fairness, none.usd_per_million) == (0.0, 0.0, 0.0, None)


def test_a_repeat_without_all_of_its_runs_is_in_no_comparison() -> None:
    whole = shared("mps", (20.0, 40.0), (40.0, 60.0))
    shown = summary(replace(whole, runs=[one for one in whole.runs if (one.repeat, one.endpoints) != (2, ["b"])]))
    assert len(shown.sharing[0].repeats) == 2
    assert len(shown.figures) == 4


def test_one_model_shares_with_no_other() -> None:
    alone = session(servers=[server("a", "m")])
    assert summary(result("x", [run(["a"], steady("a", 100.0, 10.0))], sessions=[alone])).sharing == []


def test_failed_requests_are_counted_and_in_no_time() -> None:
    [one] = summary(result("x", [run(["a"], [*steady("a", 100.0, 10.0), failed(), failed()])])).figures
    assert (one.requests, one.errors) == (6, 2)
    assert one.ttft_ms is not None
    assert one.ttft_ms.p99 == pytest.approx(100.0)


def test_goals_give_goodput() -> None:
    [one] = summary(result("x", [run(["a"], steady("a", 100.0, 10.0))]), Goals(100.0, 10.0)).figures
    assert one.goodput is not None
    assert one.goodput.median == pytest.approx(4 / 4.4)


def test_prompts_have_their_length_and_begin_differently() -> None:
    texts = [prompt(64, "salt", number) for number in range(200)]
    assert {len(text.removesuffix(f". {TASK}").split()) for text in texts} == {64}
    assert len({tuple(text.split()[:4]) for text in texts}) == 200
    assert prompt(64, "salt", 1) == texts[1]
    assert prompt(64, "other", 1) != texts[1]


def test_arrivals_are_poisson_at_their_rate_and_reproducible() -> None:
    draw = moments(5.0, 1, "a")
    found = [next(draw) for _ in range(20000)]
    gaps = [later - earlier for earlier, later in pairwise(found)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.2, rel=0.03)
    spread = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert spread == pytest.approx(0.04, rel=0.1)  # an exponential's variance is its mean squared
    again = moments(5.0, 1, "a")
    assert [next(again) for _ in range(3)] == found[:3]
