"""`make prices`: writes the price tables in `sharing/data/` from AWS's public price files, without credentials.

The workflow `.github/workflows/prices.yml` runs it every week. China, whose prices are in yuan, keeps its rows, and so
does a region whose files cannot be read.
"""

import datetime
import sys
from pathlib import Path

from sharing import tables
from sharing.aws.partitions import HOME_REGION
from sharing.hardware.gpus import instance_types
from sharing.hardware.offerings import offered
from sharing.hardware.prices import Advice
from tandem.price_cache import Kept
from tandem.prices.public import ADVISOR, Files, locations
from tandem.prices.refresh import DATA, PUBLIC, write_on_demand, write_table
from tandem.terminal import CallError, print_line

LEAST_REGIONS = 25
"""A file of the Spot Advisor with fewer is not whole (as alexei-led/spotinfo checks it)."""
RISK = f"{ADVISOR}, read with `make prices`, dated by its server; Linux; range: index of its ranges"
Found = list[tuple[str, float, datetime.date]]


def main(folder: Path = DATA, files: Files | None = None) -> int:
    """Writes what can be read; returns the exit code: 1 if a file could not."""
    files, failures = files or Files(), []
    kept: dict[str, Kept] = {}
    services: dict[str, Found] = {}
    for region in locations():
        try:
            on_demand, day = files.on_demand(region)
            here = [name for name in instance_types() if offered(name, region) == "yes"]
            at = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
            kept[region] = Kept(region=region, read_at=at, on_demand=on_demand, spot={}, offered=here)
            services[region] = list(files.services(region))
        except CallError as error:
            failures.append(f"{region}: {error}")
    written = [*write_on_demand(kept, folder, PUBLIC)] if HOME_REGION in kept else []
    written.append(_write_services(services, folder))
    try:
        written.append(_write_risk(*files.advice(), folder))
    except CallError as error:
        failures.append(str(error))
    for failure in failures:
        print_line(failure, sys.stderr)
    for path in written:
        print_line(f"wrote {path}", sys.stdout)
    return 1 if failures else 0


def _write_services(services: dict[str, Found], folder: Path) -> Path:
    """Replaces the prices that have changed. The others keep their rows, so that a difference shows nothing else."""
    old = tables.read("service_prices")
    rows = {(row["region"], row["item"]): list(row.values()) for row in old.rows}
    units = {row["item"]: row["unit"] for row in old.rows}
    for region, found in services.items():
        for item, usd, day in found:
            if (region, item) not in rows or float(rows[region, item][2]) != usd:
                rows[region, item] = [region, item, f"{usd:.10g}", units[item], "AWS's public price files", str(day)]
    return write_table(folder / "service_prices.csv", old.source, old.date, [[*old.rows[0]], *rows.values()])


def _write_risk(by_region: dict[str, dict[str, Advice]], day: datetime.date, folder: Path) -> Path:
    """Replaces the whole table: the Spot Advisor's file is one answer about every region."""
    if len(by_region) < LEAST_REGIONS:
        raise CallError(f"{ADVISOR} has fewer than {LEAST_REGIONS} regions. The table stays as it is.")
    rows = [
        [region, name, types[name].range, types[name].savings_percent]
        for region, types in sorted(by_region.items())
        for name in instance_types()
        if name in types
    ]
    heading = ["region", "instance_type", "range", "savings_percent"]
    return write_table(folder / "spot_risk.csv", RISK, str(day), [heading, *rows])


if __name__ == "__main__":
    raise SystemExit(main())
