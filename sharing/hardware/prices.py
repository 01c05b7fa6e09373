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


@dataclass(frozen=True, slots=True)
class Advice:
    """What the Spot Advisor says of a type in a region."""

    range: int
    """Index of its ranges of reclaimed capacity, from 0 (under 5 % in a month) to 4 (over 20 %)."""
    savings_percent: int
    """Mean of the last month and of all zones, against the on-demand price."""


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
    advice: Mapping[str, Advice] | None = None
    """By GPU instance type, if the spot prices of the zones could not be read (without credentials)."""
    advised: datetime.date = datetime.date.min
    """The day of the advice."""

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
    at_home = _gpus_at_home()
    if seen := _regional("regional_prices", instance_type, region, at_home):
        return seen
    return _at_home(at_home[instance_type], table, region) if instance_type in at_home else _estimate(instance_type)


def spot(instance_type: str, region: str, book: Book | None = None) -> Price | None:
    """Spot price as last seen in the region's most expensive zone; None if it is unknown.

    Where the zones could not be read, the newer of an estimate from the Spot Advisor's saving and the tables' price.
    """
    if book and book.advice is None:
        zones = book.spot.get(instance_type)
        return book.price(max(zones.values())) if zones else None
    row = _spot_rows().get((region, instance_type))
    seen = Price(usd_per_hour=float(row["usd_per_hour"]), region=region, date=row["date"]) if row else None
    advised = _advised(instance_type, book) if book else None
    return max(filter(None, (advised, seen)), key=lambda price: price.date, default=None)


def system_node(instance_type: str, region: str, book: Book | None = None) -> Price:
    """On-demand price of a type for system nodes."""
    if book and instance_type in book.on_demand:
        return book.price(book.on_demand[instance_type])
    if book:
        return _unlisted(system_node(instance_type, region))
    at_home = {name: kind.usd_per_hour for name, kind in system_types().items()}
    home = _at_home(at_home[instance_type], tables.read("system_instances"), region)
    return _regional("system_prices", instance_type, region, at_home) or home


@cache
def service(item: str, region: str) -> Price:
    """Price of one unit of a service, in the unit that `service_prices.csv` names for it."""
    rows = {(row["region"], row["item"]): row for row in tables.read("service_prices").rows}
    place = region if (region, item) in rows else HOME_REGION
    note, row = "" if place == region else _elsewhere(region), rows[place, item]
    return Price(usd_per_hour=float(row["usd"]), region=place, date=row["date"], note=note, own=place == region)


def _unlisted(price: Price) -> Price:
    """A price of the tables for a type that AWS does not list in the region: probably not available."""
    note = "; ".join(part for part in ("not in AWS's list of the region", price.note) if part)
    return replace(price, note=note)


def _advised(instance_type: str, book: Book) -> Price | None:
    """An estimate of the spot price. A saving of 0 or less is no guide: retired types have it, too."""
    advice = (book.advice or {}).get(instance_type)
    if advice is None or advice.savings_percent <= 0 or instance_type not in book.on_demand:
        return None
    usd = round(book.on_demand[instance_type] * (100 - advice.savings_percent) / 100, 5)
    note = f"estimate: the Spot Advisor's mean saving of {advice.savings_percent} %"
    return replace(book.price(usd), date=book.advised.isoformat(), note=note)


def _regional(table: str, instance_type: str, region: str, at_home: Mapping[str, float]) -> Price | None:
    """The price of a table with one size of a family in each region: the others have the proportions of home."""
    regional, date = _by_region(table), tables.read(table).date
    if (region, instance_type) in regional:
        return Price(usd_per_hour=regional[region, instance_type], region=region, date=date)
    size = _known_size(table, instance_type, region)
    if size not in at_home or instance_type not in at_home:
        return None
    usd = regional[region, size] * at_home[instance_type] / at_home[size]
    note = f"computed from the price of {size}"
    return Price(usd_per_hour=round(usd, 5), region=region, date=date, note=note)


def _at_home(usd: float, table: tables.Table, region: str) -> Price:
    note = _elsewhere(region)
    return Price(usd_per_hour=usd, region=HOME_REGION, date=table.date, note=note, own=region == HOME_REGION)


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
def _known_size(table: str, instance_type: str, region: str) -> str:
    """A size of the type's family whose price in the region is known; empty if there is none."""
    family = instance_type.partition(".")[0]
    sizes = (name for place, name in _by_region(table) if place == region)
    return next((name for name in sizes if name.partition(".")[0] == family), "")


@cache
def _spot_rows() -> dict[tuple[str, str], tables.Row]:
    return {(row["region"], row["instance_type"]): row for row in tables.read("spot_prices").rows}


@cache
def _gpus_at_home() -> Mapping[str, float]:
    return {name: usd for (place, name), usd in _by_region("gpu_prices").items() if place == HOME_REGION}


@cache
def _by_region(name: str) -> dict[tuple[str, str], float]:
    return {(row["region"], row["instance_type"]): float(row["usd_per_hour"]) for row in tables.read(name).rows}
