"""The definitions of the measures, for samples with known figures."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tandem.bench.prompts import TASK, moments, prompt
from tandem.bench_results import measures
from tandem.bench_results.summary import Goals, summary
from tests.tandem.results import SPILLED, failed, result, row, run, shared, steady


def test_percentiles_of_known_samples_are_exact() -> None:
    sample = [15.0, 20.0, 35.0, 40.0, 50.0]
    assert [measures.percentile(sample, percent) for percent in (5, 30, 40, 50, 95)] == [16.0, 23.0, 29.0, 35.0, 48.0]
    assert [measures.percentile([*reversed(range(101))], percent) for percent in (1, 50, 95, 99)] == [1, 50, 95, 99]
    assert measures.percentile([7.0], 99) == 7.0


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


def test_dollars_for_a_million_tokens() -> None:
    assert measures.usd_per_million(0.36, 100.0) == pytest.approx(1.0)


def test_a_run_may_begin_at_any_time() -> None:
    rows = [row([1000.0, 2000.0], sent_ms=3000.0), row([500.0, 1000.0], sent_ms=5000.0)]
    assert measures.tokens_per_s(rows) == pytest.approx(4 / 3.0)
    # Pieces of uncounted requests before, at and after both ends: two of them count.
    others = [row([999.0, 1000.0, 4000.0, 4001.0], sent_ms=2000.0, counted=False, tokens=0)]
    assert measures.tokens_per_s([*rows, *others]) == pytest.approx(6 / 3.0)
    assert measures.goodput(rows, 1000.0, 1000.0) == pytest.approx(2 / 3.0)


def test_only_several_tokens_in_several_pieces_have_a_time_between_them() -> None:
    answers = (row([1.0, 2.0]), row([1.0, 2.0], tokens=1), row([1.0], tokens=5))
    assert [measures.has_itl(one) for one in answers] == [True, False, False]


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
    assert one.tokens_per_s_by_repeat == pytest.approx([101 / 1.1, 101 / 2.1, 101 / 6.1])


def test_each_model_alone_comes_before_all_together() -> None:
    """Also where the first run that counts is one of all."""
    of_load = [run([name], steady(name, 1.0, 1.0), prompt_words=words) for words in (64, 8) for name in "ab"]
    both = [*steady("a", 1.0, 1.0), *steady("b", 1.0, 1.0)]
    found = summary(result("x", [run(["a", "b"], both), *of_load, run(["a", "b"], both, prompt_words=8)])).figures
    each = ["a alone", "b alone", "a together", "b together"]
    assert [f"{one.endpoint} {one.company}" for one in found] == each * 2
    assert [one.workload.prompt_words for one in found] == [8] * 4 + [64] * 4


def test_a_spilled_run_is_named_and_not_compared() -> None:
    whole = shared("mps", (20.0, 40.0), (40.0, 60.0))
    spilled = [
        replace(one, memory_end={**one.memory_end, "b": SPILLED}) if len(one.endpoints) > 1 else one
        for one in whole.runs
    ]
    shown = summary(replace(whole, runs=spilled))
    assert not any(one.together for one in shown.figures)
    assert [name for name, _ in shown.excluded] == [f"a + b, 64 words, 4 at a time, repeat {n}" for n in (1, 2, 3)]
    assert shown.excluded[0][1] == ["b was partly on the CPU: 75% of its 4,096 MiB was on the GPU"]


def test_a_run_without_a_place_or_an_answer_is_not_compared() -> None:
    [(_, reasons)] = summary(result("x", [run(["a"], steady("a", 1.0, 1.0), memory=None)])).excluded
    assert reasons == ["the memory of a is unknown: its server did not list it as loaded"]
    shown = summary(result("x", [run(["a"], [failed(), failed()])]))
    assert shown.excluded[0][1] == ["a answered no request"]
    assert shown.errors == {"503: server busy": 2}


def test_failed_requests_are_counted_and_in_no_time() -> None:
    [one] = summary(result("x", [run(["a"], [*steady("a", 100.0, 10.0), failed(), failed()])])).figures
    assert (one.requests, one.errors) == (6, 2)
    assert one.ttft_ms is not None
    assert one.ttft_ms.p99 == pytest.approx(100.0)


def test_goals_give_goodput() -> None:
    [one] = summary(result("x", [run(["a"], steady("a", 100.0, 10.0))]), Goals(100.0, 10.0)).figures
    assert one.goodput is not None
    assert one.goodput.median == pytest.approx(4 / 4.4)
    assert [measures.goodput(rows, 100.0, 10.0) for rows in ([failed()], [row([0.0])])] == [0.0, 0.0], (
        "no time has passed"
    )


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
    # The first one is as long after the start as the others after the one before them.
    assert sum(next(moments(5.0, mark)) for mark in range(2000)) / 2000 == pytest.approx(0.2, rel=0.1)
    again = moments(5.0, 1, "a")
    assert [next(again) for _ in range(3)] == found[:3]
