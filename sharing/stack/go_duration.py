"""Durations as Go writes them: Pulumi's AWS provider reads `aws:assumeRoles[].duration` with `time.ParseDuration`."""

import re
from fractions import Fraction

# Go 1.26 time/format.go, ParseDuration and unitMap; both spellings of µ: U+00B5 and U+03BC.
NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
LONGEST = 100
"""Characters. Go takes more, but no time needs them, and Python refuses to read a number of 4,301 digits."""
PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def nanoseconds(text: str) -> int | None:
    """The duration, e.g. 5,400,000,000,000 for `1h30m` and `1.5h`; None if Go cannot read it."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    parts = PART.findall(unsigned)
    if len(text) > LONGEST:
        return None
    if unsigned != "0" and (not parts or "".join(number + unit for number, unit in parts) != unsigned):
        return None
    # Go drops what is smaller than a nanosecond.
    total = sum(int(Fraction(number.rstrip(".")) * NANOSECONDS[unit]) for number, unit in parts)
    return -total if text.startswith("-") else total
