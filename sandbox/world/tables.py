"""The tables of `sandbox/data`."""

import csv
from functools import cache
from importlib.resources import files

Row = dict[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """A table's rows, without the lines that name its source."""
    lines = files("sandbox").joinpath("data", f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))
