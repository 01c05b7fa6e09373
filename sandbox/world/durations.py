"""How long AWS takes for a type, in minutes: sharing/data/durations.csv."""

from functools import cache

from sharing import tables

OTHERS = 0.02
"""Minutes for a type that the table does not have: a call that only writes something down."""


@cache
def _table() -> dict[str, float]:
    return {row["type"]: float(row["minutes"]) for row in tables.read("durations").rows}


def minutes(token: str) -> float:
    """Typical minutes of a creation, taken for updates and deletions too."""
    return _table().get(token, OTHERS)
