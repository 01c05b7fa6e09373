"""Numbers on the command line, with what is wrong with one told in a line."""

import argparse
import math


def count(text: str) -> int:
    """A whole number from 1 up."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1 (got {text})")
    return number


def amount(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"must be a number above 0 (got {text})")
    return number


def budget(text: str) -> float:
    """Dollars per hour; also of an amount per month, e.g. `300/month`."""
    from sharing.cost import HOURS_PER_MONTH

    number, slash, unit = text.partition("/")
    if slash and unit not in ("hour", "month"):
        raise argparse.ArgumentTypeError(f"must be per hour or per month, e.g. 300/month (got {text})")
    usd = amount(number)
    return usd / HOURS_PER_MONTH if unit == "month" else usd


def counts(text: str) -> list[int]:
    """Whole numbers from 1 up, with commas between: in order, each once."""
    return sorted({count(part.strip()) for part in text.split(",")})


def amounts(text: str) -> list[float]:
    """Numbers above 0, with commas between: in order, each once."""
    return sorted({amount(part.strip()) for part in text.split(",")})
