"""`docs/reference/regions.md`: which regions have data about offers and prices."""

from sharing import tables
from sharing.hardware import offerings, prices
from sharing.hardware.gpus import instance_types
from sharing.tables import Row

OPENING = """# Regions

`make docs` writes this page from `sharing/data/`.

For each region, `tandem plan` knows whether it offers an instance type: *yes*, *no* (an error) or *unknown* (a
warning, which `--strict` refuses). The prices are AWS's for Linux, in US dollars. If a region has no price for a
type, the plan shows the price of us-east-1, says so, and does not judge the budget. A spot price is always one of the
region itself. `tandem prices --region REGION` reads the offers and prices of today for `tandem plan --live-prices`.
`make refresh` reads them into the tables, and `make prices` does so every week from AWS's public price files.

AWS may now offer a type that this page does not list for a region. Then write `check-offers: false` under the pool: the
error becomes a warning, and `pulumi up` asks AWS in which zones it sells the type.

| region | offers (NVIDIA) | without | unknown | as of | types with on-demand price | with spot price |
| --- | --- | --- | --- | --- | --- | --- |
"""
CLOSING = """
The offers of these regions are unknown: {unknown}.

Retired types are refused wherever AWS no longer lists them. EC2 no longer listed them on this day: {retired}.

Sources:

{sources}
"""
TABLES = (
    "offerings",
    "retired_types",
    "gpu_prices",
    "regional_prices",
    "spot_prices",
    "system_prices",
    "service_prices",
)


def document() -> str:
    """The whole page."""
    known = {row["region"]: row for row in tables.read("offerings").rows}
    every = [row["region"] for row in tables.read("regions").rows]
    retired = (f"{row['family']} ({row['retired']})" for row in tables.read("retired_types").rows)
    closing = CLOSING.format(
        unknown=", ".join(region for region in every if region not in known),
        retired=", ".join(retired),
        sources="\n".join(f"- `{name}.csv`, {tables.read(name).date}: {tables.read(name).source}." for name in TABLES),
    )
    return OPENING + "".join(_line(known[region]) for region in every if region in known) + closing


def _line(row: Row) -> str:
    region = row["region"]
    here = [name for name in instance_types() if offerings.offered(name, region) == "yes"]
    priced = sum(prices.on_demand(name, region).own for name in here)
    spot = sum(prices.spot(name, region) is not None for name in here)
    cells = (
        region,
        row["families"] or "nothing",
        row["lacks"],
        row["unknown"],
        row["date"],
        f"{priced} of {len(here)}",
        str(spot),
    )
    return f"| {' | '.join(cells)} |\n"
