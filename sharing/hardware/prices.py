"""Prices per hour from dated tables; if a table lacks one, the nearest substitute, marked as such.

Prices that were read from AWS are passed as a `Book`, which takes precedence over the tables.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from sharing import tables
from sharing.aws.partitions import HOME_REGION
from sharing.hardware.gpus import instance_types
from sharing.hardware.system_instances import system_types

FRESH_DAYS = 7
"""Spot prices drift by the week: older ones that were read from AWS are used with a warning."""

Source = Literal["tables", "aws"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price and its origin."""

    usd_per_hour: float
    region: str
    """Region of the price."""
    date: str
    note: str = ""
    """Why this is not the exact price; empty if it is."""
    source: Source = "tables"
    own: bool = True
    """Whether it is the price in the requested region; otherwise that of another region, or an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Prices of one region as AWS reported them on one day, in USD per hour (Linux)."""

    region: str
    date: datetime.date
    on_demand: Mapping[str, float]
    """By instance type: GPU types and types of system nodes."""
    spot: Mapping[str, Mapping[str, float]]
    """By GPU instance type, then zone; a type without any is not sold as spot."""
    offered: frozenset[str] | None = None
    """The GPU instance types that the region offers; None if they were not read."""

    def age_days(self, today: datetime.date) -> int:
        """Days since the prices were read; 0 also for the day ahead that UTC can be."""
        return max((today - self.date).days, 0)

    def price(self, usd_per_hour: float) -> Price:
        """A price from this book."""
        return Price(usd_per_hour=usd_per_hour, region=self.region, date=self.date.isoformat(), source="aws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Where GPU nodes are bought, and whether at spot prices."""

    region: str = HOME_REGION
    is_spot: bool = False
    book: Book | None = None

    def find_price(self, instance_type: str) -> tuple[float, str]:
        """USD per hour and the kind of price: `on demand` also if no spot price is known."""
        if self.is_spot and (seen := spot(instance_type, self.region, self.book)):
            return seen.usd_per_hour, "spot"
        return on_demand(instance_type, self.region, self.book).usd_per_hour, "on demand"


HOME = Market()
"""On demand in the region with the best-known prices."""


def on_demand(instance_type: str, region: str, book: Book | None = None) -> Price:
    """On-demand price of a GPU instance type (Linux). Every type of the catalogue has one, if need be an estimate."""
    if book and instance_type in book.on_demand:
        return book.price(book.on_demand[instance_type])
    if book:
        return _unlisted(on_demand(instance_type, region))
    table = tables.read("gpu_prices")
    by_region = _by_region("gpu_prices")
    if (region, instance_type) in by_region:
        return Price(usd_per_hour=by_region[region, instance_type], region=region, date=table.date)
    regional = _by_region("regional_prices")
    if (region, instance_type) in regional:
        date = tables.read("regional_prices").date
        return Price(usd_per_hour=regional[region, instance_type], region=region, date=date)
    if (HOME_REGION, instance_type) not in by_region:
        return _estimate(instance_type)
    at_home = by_region[HOME_REGION, instance_type]
    if size := _known_size(instance_type, region):
        usd = regional[region, size] * at_home / by_region[HOME_REGION, size]
        date, note = tables.read("regional_prices").date, f"computed from the price of {size} in this region"
        return Price(usd_per_hour=round(usd, 5), region=region, date=date, note=note)
    return Price(
        usd_per_hour=at_home, region=HOME_REGION, date=table.date, note=_elsewhere(region), own=region == HOME_REGION
    )


def spot(instance_type: str, region: str, book: Book | None = None) -> Price | None:
    """Spot price as last seen in the region's most expensive zone; None if it is unknown."""
    if book:
        zones = book.spot.get(instance_type)
        return book.price(max(zones.values())) if zones else None
    row = _spot_rows().get((region, instance_type))
    return Price(usd_per_hour=float(row["usd_per_hour"]), region=region, date=row["date"]) if row else None


def system_node(instance_type: str, region: str, book: Book | None = None) -> Price:
    """On-demand price of a type for system nodes."""
    if book and instance_type in book.on_demand:
        return book.price(book.on_demand[instance_type])
    if book:
        return _unlisted(system_node(instance_type, region))
    usd, date = system_types()[instance_type].usd_per_hour, tables.read("system_instances").date
    return Price(usd_per_hour=usd, region=HOME_REGION, date=date, note=_elsewhere(region), own=region == HOME_REGION)


@cache
def service(item: str, region: str) -> Price:
    """Price of one unit of a service, in the unit that `service_prices.csv` names for it."""
    table = tables.read("service_prices")
    rows = {(row["region"], row["item"]): float(row["usd"]) for row in table.rows}
    place = region if (region, item) in rows else HOME_REGION
    note = "" if place == region else _elsewhere(region)
    return Price(usd_per_hour=rows[place, item], region=place, date=table.date, note=note, own=place == region)


def _unlisted(price: Price) -> Price:
    """A price of the tables for a type that AWS does not list in the region: probably not available."""
    note = "; ".join(part for part in ("not in AWS's list of the region", price.note) if part)
    return replace(price, note=note)


def _elsewhere(region: str) -> str:
    return "" if region == HOME_REGION else f"price of {HOME_REGION}"


def _estimate(instance_type: str) -> Price:
    """The price of a type that has none anywhere (p5e): the highest price per GPU of types with that GPU."""
    wanted, table, by_region = instance_types()[instance_type], tables.read("gpu_prices"), _by_region("gpu_prices")
    kin = [
        other
        for other in instance_types().values()
        if other.gpu == wanted.gpu and (HOME_REGION, other.name) in by_region
    ]
    highest = max(kin, key=lambda other: by_region[HOME_REGION, other.name] / other.gpus)
    usd = by_region[HOME_REGION, highest.name] / highest.gpus * wanted.gpus
    return Price(
        usd_per_hour=usd, region=HOME_REGION, date=table.date, note=f"estimate, from {highest.name}", own=False
    )


@cache
def _known_size(instance_type: str, region: str) -> str | None:
    """A size of the type's family whose price in the region is known; the others have the proportions of home."""
    family = instance_type.partition(".")[0]
    sizes = (name for place, name in _by_region("regional_prices") if place == region)
    return next((name for name in sizes if name.partition(".")[0] == family), None)


@cache
def _spot_rows() -> dict[tuple[str, str], tables.Row]:
    return {(row["region"], row["instance_type"]): row for row in tables.read("spot_prices").rows}


@cache
def _by_region(name: str) -> dict[tuple[str, str], float]:
    return {(row["region"], row["instance_type"]): float(row["usd_per_hour"]) for row in tables.read(name).rows}
