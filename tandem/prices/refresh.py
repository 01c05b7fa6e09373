"""`make refresh`: writes the tables of offers and GPU prices in `sharing/data/` from AWS's current answers.

For maintainers: it needs credentials of any account, and reads only. China, GovCloud, and regions that the account has
not enabled keep their rows.
"""

import csv
import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sharing import tables
from sharing.aws.partitions import HOME_REGION
from sharing.hardware.gpus import instance_types
from sharing.hardware.offerings import family
from tandem.aws.session import Account, AccountError, connect, explained
from tandem.price_cache import Kept
from tandem.prices import reading
from tandem.terminal import print_line

DATA = Path(tables.__file__).parent / "data"
READ = "AWS, read with `make refresh`; older rows: "
APART = 0.0005
"""Sizes whose price is this far from the family's proportions get a row of their own: AWS rounds prices at 0.03 %."""


@dataclass(frozen=True, slots=True)
class Answers:
    """AWS's answers by region, and the regions without an answer."""

    kept: dict[str, Kept]
    failures: list[str]


def read_regions(account: Account, now: datetime.datetime, regions: Sequence[str] = ()) -> Answers:
    """Reads offers and prices of `regions`, by default of all regions enabled in the account."""
    with explained(account.region):
        enabled = [raw["RegionName"] for raw in account.client("ec2").describe_regions()["Regions"]]
    answers = Answers({}, [])
    for region in regions or sorted(enabled):
        try:
            answers.kept[region] = reading.read(replace(account, region=region), now)
        except AccountError as error:
            answers.failures.append(f"{region}: {error}")
    return answers


def write_tables(kept: Mapping[str, Kept], folder: Path = DATA) -> list[Path]:
    """Writes the tables for these regions; returns their files. Prices need the home region: the others refer to it."""
    written = [
        _write(folder, "offerings", kept, [_offering(prices) for prices in kept.values()]),
        _write(folder, "spot_prices", kept, [row for prices in kept.values() for row in _spot(prices)]),
    ]
    if home := kept.get(HOME_REGION):
        others = {region: prices for region, prices in kept.items() if prices is not home}
        at_home = [[HOME_REGION, name, f"{usd:.10g}"] for name, usd in _offered(home).items()]
        elsewhere = [row for prices in others.values() for row in _fewest_prices(prices, home)]
        written.append(_write(folder, "gpu_prices", {HOME_REGION: home}, at_home))
        written.append(_write(folder, "regional_prices", others, elsewhere))
    return written


def _offering(kept: Kept) -> list[str]:
    """The row of a region: its families, and the sizes of these that it lacks."""
    here = set(kept.offered or ())
    catalogue = [each.name for each in instance_types().values() if each.gpu.vendor == "nvidia"]
    families = sorted({family(name) for name in catalogue if name in here})
    lacks = [name for name in catalogue if family(name) in families and name not in here]
    return [kept.region, " ".join(families), " ".join(lacks), "", str(kept.read_at.date())]


def _offered(kept: Kept) -> Mapping[str, float]:
    """On-demand prices of the GPU types that the region offers: the price list has retired types, too."""
    here = set(kept.offered or ())
    return {name: usd for name, usd in sorted(kept.on_demand.items()) if name in here}


def _fewest_prices(kept: Kept, home: Kept) -> Iterable[list[str]]:
    """One size of each family, and those that are not in its proportions at home."""
    here = _offered(kept)
    largest: dict[str, str] = {}
    for name in sorted(here, key=lambda name: (-here[name], name)):
        if name in home.on_demand:
            largest.setdefault(family(name), name)
    for name, usd in here.items():
        size = largest.get(family(name))
        if size and name in home.on_demand and name != size:
            expected = here[size] * home.on_demand[name] / home.on_demand[size]
            if abs(expected / usd - 1) <= APART:
                continue
        yield [kept.region, name, f"{usd:.10g}"]


def _spot(kept: Kept) -> Iterable[list[str]]:
    for name, zones in sorted(kept.spot.items()):
        least, most = min(zones.values()), max(zones.values())
        yield [kept.region, name, f"{most:.4f}", f"{least:.4f}", str(len(zones)), str(kept.read_at.date())]


def _write(folder: Path, name: str, kept: Mapping[str, Kept], rows: Iterable[Sequence[str]]) -> Path:
    """Replaces the rows of these regions. The table is as old as its oldest row."""
    old = tables.read(name)
    stay = [list(row.values()) for row in old.rows if row["region"] not in kept]
    days = [str(prices.read_at.date()) for prices in kept.values()]
    date = min([*days, *([old.date] if stay else [])])
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# source: {READ}{old.source.removeprefix(READ)}\n# date: {date}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(old.rows[0])
        writer.writerows(sorted([*stay, *map(list, rows)]))
    return path


def main(regions: Sequence[str]) -> int:
    """Refreshes the tables for `regions`, by default for all regions enabled in the account; returns the exit code."""
    account = connect(HOME_REGION)
    answers = read_regions(account, datetime.datetime.now(datetime.UTC), regions)
    for failure in answers.failures:
        print_line(failure, sys.stderr)
    for path in write_tables(answers.kept):
        print_line(f"wrote {path}", sys.stdout)
    return 1 if answers.failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
