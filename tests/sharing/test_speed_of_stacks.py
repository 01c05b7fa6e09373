"""The speed of the models of a stack, what its tokens cost, and what hosts ask."""

from dataclasses import replace

import pytest

from sharing.cost.hosted import hosted_price
from sharing.models.share import Share
from sharing.modes.modes import Exclusive, Mps, TimeSlicing
from sharing.sections.config import Circumstances, StackConfig
from sharing.speed.community import Figures
from sharing.speed.estimate import Estimate
from sharing.speed.forecast import Speed
from sharing.speed.measured import Measurement
from sharing.verdict.quick import judge_quickly
from sharing.verdict.speed import usd_per_million_tokens
from tests.sharing.builders import TODAY, served, stack

PAIR = served("llama2:7b"), served("mistral:7b")
BUSY = Measurement(
    file="result.json",
    model="llama2:7b",
    gpu="t4",
    mode="timeslice",
    sharers=2,
    profile="",
    busy=2,
    slots=1,
    tokens_per_s=None,
    busy_tokens_per_s=Estimate(23, 22, 24),
    full_tokens_per_s=None,
    first_token_ms=None,
)


def speeds(config: StackConfig) -> list[Speed | None]:
    return [fit.speed for fit in judge_quickly(config).fits]


def test_an_embedding_neighbour_takes_no_time_for_tokens() -> None:
    alone, embedding = speeds(
        stack("g4dn.xlarge", TimeSlicing(), served("llama2:7b"), served("nomic-embed-text:latest"))
    )
    assert embedding is None
    assert alone
    assert alone.busy_tokens_per_s == alone.tokens_per_s


@pytest.mark.parametrize(
    "other", [{}, {"gpu": "l4"}, {"mode": "mps"}, {"sharers": 3}, {"busy": 1}, {"slots": 2}, {"model": "llama2:13b"}]
)
def test_a_measurement_replaces_the_forecast_of_the_same_setup_only(other: dict[str, object]) -> None:
    config = stack("g4dn.xlarge", TimeSlicing(), *PAIR)
    measured = replace(BUSY, **other)  # type: ignore[arg-type]
    before, after = (
        speeds(each)[0] for each in (config, config.under(Circumstances(today=TODAY, measured=(measured,))))
    )
    assert before
    assert after
    if other:
        assert after == before
    else:
        measured_figures = frozenset({"busy_tokens_per_s"})
        assert after == replace(before, busy_tokens_per_s=Estimate(23, 22, 24), measured=measured_figures)
        assert (before.basis, after.basis) == ("forecast", "measured")


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        ({"mode": "mps-per-model", "threads_percent": 60}, True),
        ({"mode": "mps-per-model", "threads_percent": 100}, False),
        # Under equal limits, each has half of the threads.
        ({"mode": "mps"}, False),
    ],
)
def test_a_measurement_counts_for_the_same_limits_only(other: dict[str, object], counts: bool) -> None:
    limited = PAIR[0].changed(share=Share(compute_percent=60)), PAIR[1]
    config = stack("g4dn.xlarge", Mps(limits="per-model"), *limited)
    measured = replace(BUSY, **other)  # type: ignore[arg-type]
    speed = speeds(config.under(Circumstances(today=TODAY, measured=(measured,))))[0]
    assert speed
    assert (speed.busy_tokens_per_s == BUSY.busy_tokens_per_s) is counts
    if counts:
        assert measured.setup == "t4, mps-per-model with 60 % of the threads, 2 of 2 shares in use, slots: 1"
    equal = stack("g4dn.xlarge", Mps(), *PAIR).under(Circumstances(today=TODAY, measured=(measured,)))
    first = speeds(equal)[0]
    assert first
    assert bool(first.measured) is (other == {"mode": "mps"})


def test_a_model_with_a_part_of_the_threads_is_slower_alone() -> None:
    limited = PAIR[0].changed(share=Share(compute_percent=50))
    whole, half = (
        speeds(stack("g4dn.xlarge", Mps(limits="per-model"), first, PAIR[1]))[0] for first in (PAIR[0], limited)
    )
    assert whole
    assert half
    assert half.tokens_per_s.value < whole.tokens_per_s.value


def test_a_measurement_says_what_it_measured() -> None:
    slice_ = replace(BUSY, gpu="h100", mode="mig", sharers=1, profile="3g.40gb", busy=1)
    assert slice_.setup == "h100, mig 3g.40gb, 1 of 1 shares in use, slots: 1"


@pytest.mark.parametrize("name", ["tokens_per_s", "busy_tokens_per_s", "full_tokens_per_s", "first_token_ms"])
def test_each_figure_of_a_measurement_replaces_the_same_one_of_the_forecast(name: str) -> None:
    [before] = speeds(stack("g4dn.xlarge", Exclusive(), PAIR[0]))
    assert before
    seen = {"busy_tokens_per_s": None, name: Estimate(2, 1, 3)}
    after = replace(BUSY, **seen).correct(before)  # type: ignore[arg-type]
    assert after == replace(before, measured=frozenset({name}), **{name: Estimate(2, 1, 3)})


@pytest.mark.parametrize("numbers", [(5, 6, 7), (5, 4, 4.5), (5, 0, 6), (-5, -6, 7), (5, 4, float("inf"))])
def test_a_shared_figure_lies_in_its_range(numbers: tuple[float, float, float]) -> None:
    figures = {"neighbours": "idle", "at_once": 1, "repeats": 3, "prompt_words": 64, "prompt_tokens": 90}
    none = dict.fromkeys(("total_tokens_per_s", "first_token_ms"))
    for right in (Estimate(5, 4, 6), Estimate(0.5, 0.5, 0.5)):
        assert Figures.model_validate({**figures, **none, "tokens_per_s": right}).tokens_per_s == right
    with pytest.raises(ValueError, match="must be above 0 and in this order"):
        Figures.model_validate({**figures, **none, "tokens_per_s": Estimate(*numbers)})


def test_the_last_of_two_measurements_counts() -> None:
    newer = replace(BUSY, busy_tokens_per_s=Estimate(25, 24, 26))
    config = stack("g4dn.xlarge", TimeSlicing(), *PAIR).under(Circumstances(today=TODAY, measured=(BUSY, newer)))
    first = speeds(config)[0]
    assert first
    assert first.busy_tokens_per_s.value == 25


def test_tokens_cost_the_price_of_an_hour_over_the_tokens_of_an_hour() -> None:
    verdict = judge_quickly(stack("g4dn.xlarge", TimeSlicing(), *PAIR))
    known = [replace(speed, full_tokens_per_s=Estimate(25, 20, 50)) for fit in verdict.fits if (speed := fit.speed)]
    assert verdict.cost
    usd = usd_per_million_tokens(known, replace(verdict.cost, awake_usd_per_hour=0.36))
    assert usd
    # 50 tokens per second are 180,000 per hour: $0.36 buys 0.18 million.
    assert (usd.value, usd.low, usd.high) == pytest.approx((2.0, 1.0, 2.5))
    tenth = usd_per_million_tokens(known, verdict.cost, 0.1)
    full = usd_per_million_tokens(known, verdict.cost)
    assert tenth
    assert full
    assert tenth.value == pytest.approx(10 * full.value)


def test_tokens_have_no_price_where_none_are_generated_or_the_bill_is_unknown() -> None:
    embedding = judge_quickly(stack("g4dn.xlarge", Exclusive(), served("nomic-embed-text:latest")))
    assert usd_per_million_tokens([fit.speed for fit in embedding.fits], embedding.cost) is None
    pair = judge_quickly(stack("g4dn.xlarge", Mps(), *PAIR))
    assert usd_per_million_tokens([fit.speed for fit in pair.fits], None) is None


def test_a_hosted_model_has_the_prices_of_its_hosts() -> None:
    """Amazon Bedrock asks $0.22 for Llama 3.1 8B (its offer file of us-east-1, which litellm names as the source)."""
    llama = hosted_price("llama3.1:8b")
    assert llama
    assert llama.highest == 0.22
    assert llama.providers[-1] == "AWS Bedrock"
    assert llama.lowest < llama.highest
    assert hosted_price("llama2:7b") is None
