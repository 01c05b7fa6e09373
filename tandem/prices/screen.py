"""The screen of `tandem prices`. It needs no `boto3`, so `--kept` works without it."""

import datetime
from pathlib import Path

from sharing.hardware.gpus import instance_types
from sharing.hardware.prices import spot
from tandem.price_cache import Kept
from tandem.terminal import count, in_markup, new_table, open_console


def show(kept: Kept, path: Path, now: datetime.datetime) -> None:
    """Prices of a region's GPU types, with the spot price of the zones or an estimate of it."""
    console = open_console()
    origin = "read from AWS" if kept.advice is None else "AWS's public files"
    last = ("spot, cheapest", "most expensive") if kept.advice is None else ("saving", "spot, about")
    table = new_table(f"{kept.region}: $ per hour, {origin} {age(kept.read_at, now)}")
    table.add_column("type", no_wrap=True)
    table.add_column("GPU")
    for heading in ("on-demand", *last):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, kind in instance_types().items():
        cells = _of_zones(kept, name) if kept.advice is None else _advised(kept, name)
        if name not in kept.on_demand and not cells[0]:
            continue
        full = f"{kept.on_demand[name]:.4f}" if name in kept.on_demand else ""
        table.add_row(name, f"{kind.gpus} × {kind.gpu.title}", full, *cells)
    console.print(table)
    if kept.advice is not None:
        console.print(
            f"No AWS credentials: a spot price is the on-demand price less the Spot Advisor's mean saving "
            f"({kept.advised}). One without a saving is from the built-in tables."
        )
    others = sum(name not in instance_types() for name in kept.on_demand)
    console.print(f"Also {others} types for system nodes. Stored in {in_markup(str(path))}", soft_wrap=True)


def _of_zones(kept: Kept, name: str) -> list[str]:
    by_price = sorted((usd, zone.removeprefix(kept.region)) for zone, usd in kept.spot.get(name, {}).items())
    return [f"{usd:.4f} {zone}" for usd, zone in (by_price[0], by_price[-1])] if by_price else ["", ""]


def _advised(kept: Kept, name: str) -> list[str]:
    seen = spot(name, kept.region, kept.book)
    return [seen.note.rpartition(" of ")[2], f"{seen.usd_per_hour:.4f}"] if seen else ["", ""]


def age(then: datetime.datetime, now: datetime.datetime) -> str:
    """How long ago, in words."""
    hours = round((now - then).total_seconds() / 3600)
    if hours < 1:
        return "just now"
    return f"{count(hours, 'hour') if hours < 48 else count(round(hours / 24), 'day')} ago"
