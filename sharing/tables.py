"""Reads the tables of `sharing/data`: CSV files whose first lines say where they come from and when."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one CSV file."""

    name: str
    source: str
    date: str
    """ISO date on which the source said so."""
    rows: tuple[Row, ...]


@cache
def read(name: str) -> Table:
    """The table `sharing/data/<name>.csv`; raises `ValueError` when it does not say its source and date."""
    head: dict[str, str] = {}
    lines = files("sharing").joinpath("data", f"{name}.csv").read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("#"):
        key, _, value = lines.pop(0).removeprefix("#").partition(":")
        head[key.strip()] = value.strip()
    if not head.get("source") or not head.get("date"):
        raise ValueError(f"{name}.csv must begin with '# source: …' and '# date: …'")
    return Table(name=name, source=head["source"], date=head["date"], rows=tuple(csv.DictReader(lines)))
