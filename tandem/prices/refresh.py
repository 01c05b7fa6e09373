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
from sharing.hardware.system_instances import system_types
from tandem.aws.session import Account, AccountError, connect, explained
from tandem.price_cache import Kept
from tandem.prices import reading
from tandem.terminal import print_line

DATA = Path(tables.__file__).parent / "data"
READ = "AWS, read with `make refresh`; older rows: "
PUBLIC = "AWS's public price files, read with `make prices`; older rows: "


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
    return [*written, *write_on_demand(kept, folder)] if HOME_REGION in kept else written


def write_on_demand(kept: Mapping[str, Kept], folder: Path, origin: str = READ) -> Iterable[Path]:
    """Writes the on-demand prices of these regions, of which one is the home region."""
    at_home = kept[HOME_REGION].on_demand
    in_full = {row["region"] for row in tables.read("gpu_prices").rows}
    whole = {region: prices for region, prices in kept.items() if region in in_full}
    rows = [[region, name, f"{usd:.10g}"] for region in whole for name, usd in _offered(kept[region]).items()]
    yield _write(folder, "gpu_prices", whole, rows, origin)
    others = {region: prices for region, prices in kept.items() if region not in in_full}
    rows = [row for region in others for row in _fewest_prices(region, _offered(kept[region]), at_home)]
    yield _write(folder, "regional_prices", others, rows, origin)
    rows = [row for region in kept for row in _fewest_prices(region, _of_system_nodes(kept[region]), at_home)]
    yield _write(folder, "system_prices", kept, rows, origin)


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


def _of_system_nodes(kept: Kept) -> Mapping[str, float]:
    return {name: usd for name, usd in sorted(kept.on_demand.items()) if name in system_types()}


def _fewest_prices(region: str, here: Mapping[str, float], at_home: Mapping[str, float]) -> Iterable[list[str]]:
    """One size of each family, and those that are not in its proportions at home."""
    largest: dict[str, str] = {}
    for name in sorted(here, key=lambda name: -here[name]):
        if name in at_home:
            largest.setdefault(family(name), name)
    for name, usd in here.items():
        size = largest.get(family(name))
        if size and name in at_home and name != size:
            expected = here[size] * at_home[name] / at_home[size]
            if abs(expected / usd - 1) <= 0.0005:  # AWS rounds prices at 0.03 %
                continue
        yield [region, name, f"{usd:.10g}"]


def _spot(kept: Kept) -> Iterable[list[str]]:
    for name, zones in sorted(kept.spot.items()):
        least, most = min(zones.values()), max(zones.values())
        yield [kept.region, name, f"{most:.4f}", f"{least:.4f}", str(len(zones)), str(kept.read_at.date())]


def _write(
    folder: Path, name: str, kept: Mapping[str, Kept], rows: Iterable[Sequence[str]], origin: str = READ
) -> Path:
    """Replaces the rows of these regions. The table is as old as its oldest row."""
    old = tables.read(name)
    stay = [list(row.values()) for row in old.rows if row["region"] not in kept]
    days = [str(prices.read_at.date()) for prices in kept.values()]
    date = min([*days, *([old.date] if stay else [])])
    source = origin + old.source.removeprefix(READ).removeprefix(PUBLIC)
    return write_table(folder / f"{name}.csv", source, date, [[*old.rows[0]], *sorted([*stay, *map(list, rows)])])


def write_table(path: Path, source: str, date: str, rows: Iterable[Sequence[object]]) -> Path:
    """Writes the file of a table; returns it."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f"# source: {source}\n# date: {date}\n")
        csv.writer(file, lineterminator="\n").writerows(rows)
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
