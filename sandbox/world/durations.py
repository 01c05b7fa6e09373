"""Durations of AWS's operations by type, from sharing/data/durations.csv."""

from functools import cache

from sharing import tables

OTHERS = 0.02
"""Minutes for a type that is not in the table, because AWS only stores a record."""


@cache
def _table() -> dict[str, float]:
    return {row["type"]: float(row["minutes"]) for row in tables.read("durations").rows}


def minutes(token: str) -> float:
    """Typical duration of a creation in minutes. It is also used for updates and deletions."""
    return _table().get(token, OTHERS)
