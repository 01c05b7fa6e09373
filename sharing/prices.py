"""What things cost an hour, from dated tables; where a table has no answer, the nearest one, marked."""

from dataclasses import dataclass
from functools import cache

from sharing import tables
from sharing.gpus import instance_types
from sharing.system import system_types

HOME_REGION = "us-east-1"
"""The region whose prices are known best; others are planned at its prices where their own are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price and how well it is known."""

    usd_per_hour: float
    region: str
    """Region whose table it stands in."""
    date: str
    note: str = ""
    """Why this is not the exact price; empty when it is."""


def on_demand(instance_type: str, region: str) -> Price:
    """On-demand price of a GPU instance type (Linux). Every type of the catalogue has one, if need be an estimate."""
    table = tables.read("gpu_prices")
    known = _by_region("gpu_prices")
    for place in (region, HOME_REGION):
        if (place, instance_type) in known:
            note = "" if place == region else f"price of {place}"
            return Price(usd_per_hour=known[place, instance_type], region=place, date=table.date, note=note)
    return _estimate(instance_type)


def spot(instance_type: str, region: str) -> Price | None:
    """Spot price as last seen, or None where none is known: then on-demand is the safe plan."""
    known = _spot_rows()
    own = region in {place for place, _ in _by_region("gpu_prices")}
    for place in (region,) if own else (region, HOME_REGION):
        if row := known.get((place, instance_type)):
            note = "" if place == region else f"price of {place}"
            return Price(usd_per_hour=float(row["usd_per_hour"]), region=place, date=row["date"], note=note)
    return None


def system_node(instance_type: str, region: str) -> Price:
    """On-demand price of a type for system nodes."""
    usd, date = system_types()[instance_type].usd_per_hour, tables.read("system_instances").date
    return Price(usd_per_hour=usd, region=HOME_REGION, date=date, note=_elsewhere(region))


def service(item: str, region: str) -> Price:
    """Price of one unit of a service, in the unit that `service_prices.csv` names for it."""
    table = tables.read("service_prices")
    known = {(row["region"], row["item"]): float(row["usd"]) for row in table.rows}
    place = region if (region, item) in known else HOME_REGION
    note = "" if place == region else _elsewhere(region)
    return Price(usd_per_hour=known[place, item], region=place, date=table.date, note=note)


def _elsewhere(region: str) -> str:
    return "" if region == HOME_REGION else f"price of {HOME_REGION}"


def _estimate(instance_type: str) -> Price:
    """A type with no price anywhere (p5e) is planned at what its kind of GPU costs in other types, per GPU."""
    wanted, table, known = instance_types()[instance_type], tables.read("gpu_prices"), _by_region("gpu_prices")
    kin = [
        other for other in instance_types().values() if other.gpu == wanted.gpu and (HOME_REGION, other.name) in known
    ]
    dearest = max(kin, key=lambda other: known[HOME_REGION, other.name] / other.gpus)
    usd = known[HOME_REGION, dearest.name] / dearest.gpus * wanted.gpus
    return Price(usd_per_hour=usd, region=HOME_REGION, date=table.date, note=f"estimate, from {dearest.name}")


@cache
def _spot_rows() -> dict[tuple[str, str], tables.Row]:
    return {(row["region"], row["instance_type"]): row for row in tables.read("spot_prices").rows}


@cache
def _by_region(name: str) -> dict[tuple[str, str], float]:
    return {(row["region"], row["instance_type"]): float(row["usd_per_hour"]) for row in tables.read(name).rows}
