"""Prices that `tandem prices` read from AWS, kept in the user's cache, a file for each region. No network."""

import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from sharing.files import user_cache, write_whole
from sharing.hardware.prices import Advice, Book
from stacks.stack_file.errors import UnreadableError
from tandem.lookup import regions

Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Kept(BaseModel):
    """The file: prices of one region in USD per hour, and the time of AWS's answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    region: str
    read_at: AwareDatetime
    on_demand: dict[str, Dollars]
    spot: dict[str, dict[str, Dollars]]
    offered: list[str] | None = None
    """The GPU types that the region offers; None in a file of an older version, which did not ask, and where
    the public files were read."""
    advice: dict[str, Advice] | None = None
    """The Spot Advisor's, by GPU type; None where the spot prices of the zones were read."""
    advised: datetime.date = datetime.date.min
    """Its day."""

    @property
    def book(self) -> Book:
        """The prices in the form that the rules take."""
        offered = None if self.offered is None else frozenset(self.offered)
        date = self.read_at.date()
        return Book(
            region=self.region,
            date=date,
            on_demand=self.on_demand,
            spot=self.spot,
            offered=offered,
            advice=self.advice,
            advised=self.advised,
        )


def home() -> Path:
    """The folder of the files."""
    return user_cache("prices")


def of_region(region: object) -> Book | None:
    """The prices for a stack file's `aws:region`; None if it is not a region, which `judge` reports.

    Raises `UnreadableError` when they are missing, broken, or dated after today.
    """
    if not isinstance(region, str) or region not in regions():
        return None
    return load(region, datetime.date.today()).book


def load(region: str, today: datetime.date) -> Kept:
    """The kept prices of `region`; raises `UnreadableError`, with the fix."""
    path = home() / f"{region}.json"
    again = f"`tandem prices --region {region}` reads them from AWS."
    try:
        kept = Kept.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UnreadableError(f"there are no prices of {region} in {path.parent}. {again}") from None
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror}. {again}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableError(f"{path} is broken ({where + ': ' if where else ''}{first['msg']}). {again}") from None
    # UTC may be a day ahead of the local date.
    if (kept.read_at.date() - today).days > 1:
        raise UnreadableError(f"{path} is dated {kept.read_at.date()}, after today. {again}")
    return kept


def keep(kept: Kept) -> Path:
    """Writes all prices or none; returns the file. Raises `OSError`."""
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kept.region}.json"
    write_whole(path, kept.model_dump_json())
    return path
