"""The screen of `tandem prices`. It needs no `boto3`, so `--kept` works without it."""

import datetime
from pathlib import Path

from sharing.hardware.gpus import instance_types
from tandem.price_cache import Kept
from tandem.terminal import count, in_markup, new_table, open_console


def show(kept: Kept, path: Path, now: datetime.datetime) -> None:
    """Prices of a region's GPU types, with the cheapest and the most expensive zone."""
    console = open_console()
    table = new_table(f"{kept.region}: $ per hour, read from AWS {age(kept.read_at, now)}")
    table.add_column("type", no_wrap=True)
    table.add_column("GPU")
    table.add_column("on-demand", justify="right", no_wrap=True)
    table.add_column("spot, cheapest", justify="right", no_wrap=True)
    table.add_column("most expensive", justify="right", no_wrap=True)
    for name, kind in instance_types().items():
        zones = kept.spot.get(name, {})
        if name not in kept.on_demand and not zones:
            continue
        full = f"{kept.on_demand[name]:.4f}" if name in kept.on_demand else ""
        by_price = sorted((usd, zone.removeprefix(kept.region)) for zone, usd in zones.items())
        ends = [f"{usd:.4f} {zone}" for usd, zone in (by_price[0], by_price[-1])] if by_price else ["", ""]
        table.add_row(name, f"{kind.gpus} × {kind.gpu.title}", full, *ends)
    console.print(table)
    others = sum(name not in instance_types() for name in kept.on_demand)
    console.print(f"Also {others} types for system nodes. Stored in {in_markup(str(path))}", soft_wrap=True)


def age(then: datetime.datetime, now: datetime.datetime) -> str:
    """How long ago, in words."""
    hours = round((now - then).total_seconds() / 3600)
    if hours < 1:
        return "just now"
    return f"{count(hours, 'hour') if hours < 48 else count(round(hours / 24), 'day')} ago"
