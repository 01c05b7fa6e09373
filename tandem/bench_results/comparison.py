"""Which of several targets is cheaper, within the noise of the repeats.

Welch's t-interval for the difference of two means, of the logarithms of the repeats: an interval for the ratio. See
docs/decisions/0054-no-winner-inside-the-noise.md.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

CONFIDENCE = 0.95
"""Confidence of all intervals of one report at once."""
LARGEST = 700.0
"""Its exponential is still a number (1e304)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two targets: `best` is the one with the lower cost."""

    best: str
    other: str
    ratio: float
    """Cost of the best over that of the other: geometric means of the repeats."""
    lowest: float | None
    highest: float | None
    """The interval of the ratio; None if a target has only one repeat, so that the noise is unknown."""

    @property
    def decided(self) -> bool:
        """Whether the repeats distinguish the two."""
        return self.highest is not None and self.highest < 1


def compare(costs: Mapping[str, Sequence[float]]) -> list[Comparison]:
    """Each pair of targets, the cheapest first; `costs` has each target's positive costs, one per repeat.

    All pairs share the error (Bonferroni).
    """
    logs = {label: [math.log(cost) for cost in each] for label, each in costs.items()}
    pairs = list(combinations(sorted(logs, key=lambda label: statistics.fmean(logs[label])), 2))
    return [_compare(best, other, logs, (1 - CONFIDENCE) / len(pairs)) for best, other in pairs]


def _compare(best: str, other: str, logs: Mapping[str, Sequence[float]], error: float) -> Comparison:
    difference = statistics.fmean(logs[best]) - statistics.fmean(logs[other])
    reach = _reach(logs[best], logs[other], error)
    return Comparison(
        best=best,
        other=other,
        ratio=_exp(difference),
        lowest=None if reach is None else _exp(difference - reach),
        highest=None if reach is None else _exp(difference + reach),
    )


def _exp(value: float) -> float:
    """Exponential without an error if two wild repeats give an interval beyond all numbers."""
    return math.exp(min(value, LARGEST))


def _reach(best: Sequence[float], other: Sequence[float], error: float) -> float | None:
    """Half the width of the interval: Welch (1947), degrees of freedom by Satterthwaite."""
    if min(len(best), len(other)) < 2:
        return None
    parts = [(statistics.variance(each) / len(each), len(each) - 1) for each in (best, other)]
    total = sum(variance for variance, _ in parts)
    if not total:
        return 0.0
    freedom = total**2 / sum(variance**2 / less for variance, less in parts)
    return t_quantile(1 - error / 2, int(freedom + 1e-9)) * math.sqrt(total)


def t_quantile(probability: float, freedom: int) -> float:
    """The value below which a t-distributed number lies with that probability, from 0.5 up; by bisection."""
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_below(middle, freedom) < probability else (low, middle)
    return high


def _t_below(value: float, freedom: int) -> float:
    """Student's t: a finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(value / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term, inside = (cosine, 0.0) if odd else (1.0, 0.0)
    for number in range(1 + odd, freedom, 2):
        inside += term
        term *= cosine**2 * number / (number + 1)
    inside *= math.sin(angle)
    return 0.5 + ((angle + inside) / math.pi if odd else inside / 2)
