"""A number with its range."""

from dataclasses import dataclass
from math import exp, hypot, log


@dataclass(frozen=True, slots=True)
class Estimate:
    """A forecast, and the range in which nine of ten readings lie."""

    value: float
    low: float
    high: float

    def times(self, factor: "Estimate | float") -> "Estimate":
        """The product with a factor, whose range is independent of this one."""
        other = Estimate(factor, factor, factor) if isinstance(factor, (int, float)) else factor
        value = self.value * other.value
        below = hypot(log(self.value / self.low), log(other.value / other.low))
        above = hypot(log(self.high / self.value), log(other.high / other.value))
        return Estimate(value, value * exp(-below), value * exp(above))

    def inverse(self) -> "Estimate":
        """Its reciprocal."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low)


def within(value: float, spread: float) -> Estimate:
    """A value whose readings differ by the factor exp(`spread`) at most, in nine of ten cases."""
    return Estimate(value, value * exp(-spread), value * exp(spread))
