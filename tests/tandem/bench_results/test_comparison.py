"""Which target is cheaper, for samples with a known answer."""

import math
import random

import pytest

from tandem.bench_results.comparison import compare, t_quantile

TABLE = {
    0.975: {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 8: 2.306, 10: 2.228, 30: 2.042},
    0.995: {1: 63.657, 2: 9.925, 3: 5.841, 4: 4.604, 7: 3.499},
    0.95: {1: 6.314, 2: 2.920, 4: 2.132, 9: 1.833},
    # With one degree of freedom it is Cauchy's distribution (1.3.6.6.3), whose quantiles are tan(pi (p - 1/2)).
    0.6: {1: 0.3249},
}
"""NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t distribution."""


def test_quantiles_are_those_of_the_printed_table() -> None:
    for probability, values in TABLE.items():
        for freedom, value in values.items():
            assert t_quantile(probability, freedom) == pytest.approx(value, abs=6e-4), (probability, freedom)


def test_an_interval_by_hand() -> None:
    # Logarithms 0, 1, 2 and 4, 5, 6: means 1 and 5, variances 1. Welch: 4 degrees of freedom, sqrt(1/3 + 1/3).
    [one] = compare({"a": [math.exp(n) for n in (4, 5, 6)], "b": [math.exp(n) for n in (0, 1, 2)]})
    reach = 2.776 * math.sqrt(2 / 3)
    assert (one.best, one.other, one.decided) == ("b", "a", True)
    assert math.log(one.ratio) == pytest.approx(-4)
    assert one.lowest is not None
    assert one.highest is not None
    assert math.log(one.lowest) == pytest.approx(-4 - reach, abs=1e-3)
    assert math.log(one.highest) == pytest.approx(-4 + reach, abs=1e-3)


def test_unequal_variances_have_fewer_degrees_of_freedom_rounded_down() -> None:
    # Variances 1 and 4 over 3 and 2 values: (1/3 + 2)^2 / ((1/9)/2 + 4/1) = 1.34, so 1: a t of 12.706.
    [one] = compare({"a": [math.exp(n) for n in (0, 1, 2)], "b": [math.exp(n) for n in (30, 30 + math.sqrt(8))]})
    assert one.highest is not None
    middle = 1 - (30 + math.sqrt(8) / 2)
    assert math.log(one.highest) == pytest.approx(middle + 12.706 * math.sqrt(1 / 3 + 2), abs=1e-3)


def rounds(generator: random.Random, pace: dict[str, float], noise: float, often: int, repeats: int = 3) -> list[bool]:
    """Whether any target was declared cheaper than another one, this many times."""
    found = []
    for _ in range(often):
        costs = {
            label: [middle * math.exp(generator.gauss(0, noise)) for _ in range(repeats)]
            for label, middle in pace.items()
        }
        found.append(any(one.decided for one in compare(costs)))
    return found


@pytest.mark.parametrize("targets", ["ab", "abc"])
def test_equal_targets_get_a_winner_in_at_most_one_of_twenty_cases(targets: str) -> None:
    won = rounds(random.Random(54), dict.fromkeys(targets, 1.0), noise=0.1, often=300)
    assert sum(won) <= 0.05 * len(won)


def test_a_difference_of_ten_times_the_noise_is_found() -> None:
    won = rounds(random.Random(54), {"a": 1.0, "b": 1.2}, noise=0.015, often=100)
    assert sum(won) >= 95


def test_repeats_without_any_variation_are_distinguished_and_equal_ones_are_not() -> None:
    [apart] = compare({"a": [2.0, 2.0], "b": [1.0, 1.0]})
    assert (apart.best, apart.lowest, apart.ratio, apart.highest) == pytest.approx(("b", 0.5, 0.5, 0.5))
    [equal] = compare({"a": [1.0, 1.0], "b": [1.0, 1.0]})
    assert not equal.decided


@pytest.mark.parametrize("costs", [[1.0], [1.0, 1.0, 1.0]])
def test_one_repeat_does_not_show_the_noise(costs: list[float]) -> None:
    [one] = compare({"a": [9.0], "b": costs})
    assert (one.lowest, one.highest, one.decided) == (None, None, False)


def test_three_targets_share_the_error_of_their_three_pairs() -> None:
    sample = {"a": [1.0, 1.1, 1.2], "b": [2.0, 2.1, 2.2]}
    [alone] = compare(sample)
    [among, *_] = compare({**sample, "c": [3.0, 3.1, 3.2]})
    assert among.highest is not None
    assert alone.highest is not None
    assert among.highest > alone.highest


def test_every_pair_is_compared_and_the_cheaper_target_comes_first() -> None:
    found = compare({"a": [4.0, 4.0], "b": [1.0, 1.0], "c": [2.0, 2.0]})
    assert [(one.best, one.other) for one in found] == [("b", "c"), ("b", "a"), ("c", "a")]
    assert [one.ratio for one in found] == pytest.approx([0.5, 0.25, 0.5])


def test_extreme_repeats_have_a_finite_interval() -> None:
    [one] = compare({"a": [1e-200, 1e200], "b": [1.0, 1e100]})
    assert one.highest is not None
    assert 1e300 < one.highest < math.inf
    assert not one.decided
