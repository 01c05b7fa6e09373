"""Reads the tables of `sharing/data`: CSV files that begin with their source and date."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

Row = Mapping[str, str]
READERS: dict[Any, Callable[[str], Any]] = {
    int: lambda cell: int(cell or 0),
    float: lambda cell: float(cell or 0),
    str: str,
}
"""Parsers of a cell, by the type of its field."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one CSV file."""

    name: str
    source: str
    date: str
    """ISO date of the source."""
    rows: tuple[Row, ...]


@cache
def read(name: str) -> Table:
    """The table `sharing/data/<name>.csv`."""
    head: dict[str, str] = {}
    lines = files("sharing").joinpath("data", f"{name}.csv").read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("#"):
        key, _, value = lines.pop(0).removeprefix("#").partition(":")
        head[key.strip()] = value.strip()
    return Table(name=name, source=head["source"], date=head["date"], rows=tuple(csv.DictReader(lines)))


def cells_of(row: Row, kind: type) -> dict[str, Any]:
    """The cells of a row that are fields of the dataclass `kind`: text and numbers; an empty one is 0."""
    return {
        field.name: READERS[field.type](row[field.name])
        for field in fields(kind)
        if field.name in row and field.type in READERS
    }
