"""The screen of `tandem prices`. It needs no `boto3`, so `--kept` works without it."""

import datetime
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from sharing.hardware.gpus import instance_types
from sharing.hardware.prices import spot
from sharing.printable import counted
from tandem.columns import Column, print_table
from tandem.price_cache import Kept
from tandem.terminal import open_console, print_line, say


def show(kept: Kept, path: Path, now: datetime.datetime) -> None:
    """Prices of a region's GPU types, with the spot price of the zones or an estimate of it."""
    console = open_console()
    origin, last, of_spot = "read from AWS", ("spot from", "spot to"), _of_zones
    if kept.advice is not None:
        origin, last, of_spot = "AWS's public files", ("saving", "spot, about"), _advised
    say(console, f"{kept.region}: $ per hour, {origin} {age(kept.read_at, now)}", "bold")
    heads = ("type", "GPU", "on-demand", *last)
    columns: list[Column[Sequence[str]]] = [Column(head, itemgetter(at), at > 1) for at, head in enumerate(heads)]
    rows = [
        (name, f"{kind.gpus} × {kind.gpu.title}", f"{usd:.4f}" if usd else "", *of_spot(kept, name))
        for name, kind in instance_types().items()
        for usd in [kept.on_demand.get(name)]
    ]
    print_table(console, columns, [row for row in rows if any(row[2:])])
    console.print()
    if kept.advice is not None:
        advisor = f"the on-demand price less the Spot Advisor's mean saving ({kept.advised})"
        say(
            console, f"No AWS credentials: a spot price is {advisor}. One without a saving is from the built-in tables."
        )
    others = sum(name not in instance_types() for name in kept.on_demand)
    print_line(f"Also {others} types for system nodes. Stored in {path}", sys.stdout)


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
    return f"{counted(hours, 'hour') if hours < 48 else counted(round(hours / 24), 'day')} ago"
