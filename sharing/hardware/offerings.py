"""Regions in which AWS offers an instance type: yes, no, or unknown; by family in `sharing/data/offerings.csv`."""

import datetime
import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sharing import tables
from sharing.aws.partitions import partition_of
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.prices import Book, on_demand
from sharing.problems import did_you_mean, near

Offer = Literal["yes", "no", "unknown"]
PAGE = "docs/reference/regions.md"
"""Lists every region."""


@dataclass(frozen=True, slots=True)
class _Region:
    """The row of one region."""

    families: frozenset[str]
    lacks: frozenset[str]
    """Types of these families that the region does not have."""
    unknown: frozenset[str]
    """Types of these families that it may or may not have."""
    date: str


def offered(instance_type: str, region: str, book: Book | None = None) -> Offer:
    """Whether `region` offers the type, from the answer of AWS if `book` has it, else from the tables."""
    if book and book.offered is not None:
        return "yes" if instance_type in book.offered else "no"
    here = _regions().get(region)
    if here is None or instance_type in here.unknown:
        return "unknown"
    if family(instance_type) in here.families:
        return "no" if instance_type in here.lacks else "yes"
    return "no" if retired(instance_type) or family(instance_type) in _families() else "unknown"


def retired(instance_type: str) -> datetime.date | None:
    """A day on which EC2 no longer listed the type; None for a current one."""
    rows = {row["family"]: row["retired"] for row in tables.read("retired_types").rows}
    day = rows.get(family(instance_type))
    return datetime.date.fromisoformat(day) if day else None


def known_since(region: str, book: Book | None = None) -> str:
    """The date of the data about the region's offers; empty if there is none."""
    if book and book.offered is not None:
        return str(book.date)
    here = _regions().get(region)
    return here.date if here else ""


def nearest(instance_type: str, region: str) -> str | None:
    """The nearest region that offers the type to accounts of `region`; None if there is none."""
    return nearest_of([instance_type], region)


def nearest_of(types: Collection[str], region: str) -> str | None:
    """The nearest region that offers any of these types to accounts of `region`; None if there is none."""
    here = _places().get(region)
    others = [
        place
        for place in _regions()
        if place != region
        and partition_of(place) == partition_of(region)
        and any(offered(kind, place) == "yes" for kind in types)
    ]
    if here is None or not others:
        return None
    return min(others, key=lambda place: _angle(here, _places()[place]))


def regions_beside(region: str) -> list[str]:
    """Every region with known offers that an account of `region` can use."""
    return [place for place in _regions() if partition_of(place) == partition_of(region)]


def suggest_region(word: str) -> str:
    """The region that an unknown one was probably meant to be: by its place, as in Frankfurt, or by its name."""
    rows = tables.read("regions").rows
    places = {row["region"]: row["price_location"].rpartition("(")[2].rstrip(")") for row in rows}
    names = {place.lower(): place for place in places.values() if place}
    text = word.strip().lower()
    known = [name for name in names if text in re.split(r"\W+", name)]
    if not known and not near(word, places):
        known = near(word, names)
    if known:
        at = [region for region, place in places.items() if place.lower() == known[0]]
        return f"{names[known[0]]} is {' or '.join(at)}."
    hint = did_you_mean(word, places)
    return hint if "…" not in hint else f"Write us-east-1 or eu-central-1, for example. All: {PAGE}."


def sells_gpus(region: str) -> bool:
    """Whether the region is known to offer any type of the catalogue."""
    return any(offered(name, region) == "yes" for name in instance_types())


def cheapest_first(region: str, book: Book | None = None) -> Iterator[InstanceType]:
    """The types of the catalogue that the region is not known to lack, by on-demand price of a node there."""
    here = [kind for kind in instance_types().values() if offered(kind.name, region, book) != "no"]
    return iter(sorted(here, key=lambda kind: on_demand(kind.name, region, book).usd_per_hour))


def examples(names: Iterable[str], region: str, book: Book | None = None, most: int = 2) -> str:
    """The first of `names` that the region is not known to lack, in words: `g6.xlarge or g6e.xlarge`."""
    here = [name for name in names if offered(name, region, book) != "no"]
    return " or ".join(here[:most])


def family(instance_type: str) -> str:
    """`g4dn` of `g4dn.xlarge`."""
    return instance_type.partition(".")[0]


@cache
def _regions() -> dict[str, _Region]:
    by_name = {}
    for row in tables.read("offerings").rows:
        families, lacks, unknown = (frozenset(row[key].split()) for key in ("families", "lacks", "unknown"))
        by_name[row["region"]] = _Region(families, lacks, unknown, row["date"])
    return by_name


@cache
def _families() -> frozenset[str]:
    """Every family in the table. A family that it lacks may be newer than the table."""
    return frozenset().union(*(region.families for region in _regions().values()))


@cache
def _places() -> dict[str, tuple[float, float]]:
    """Latitude and longitude of each region in radians."""
    rows = [row for row in tables.read("regions").rows if row["latitude"]]
    return {
        row["region"]: (math.radians(float(row["latitude"])), math.radians(float(row["longitude"]))) for row in rows
    }


def _angle(here: tuple[float, float], there: tuple[float, float]) -> float:
    """The angle between two places on the globe."""
    cosine = math.sin(here[0]) * math.sin(there[0]) + math.cos(here[0]) * math.cos(there[0]) * math.cos(
        here[1] - there[1]
    )
    return math.acos(min(1.0, cosine))
