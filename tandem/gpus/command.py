"""`tandem gpus`: the GPU instance types of the catalogue."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from sharing import tables
from sharing.hardware import offerings, prices
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.problems import did_you_mean
from tandem.arguments import Commands, add_command
from tandem.columns import Column, print_table
from tandem.lookup import require_region
from tandem.terminal import FINE, CallError, hint_at_left_out, open_console, print_json, print_line, short

# rich is imported where it is used: `--help` and errors do without it.


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "gpus",
        run,
        description="List the EC2 instance types with a GPU that tandem knows. Needs no AWS account and no network.",
        exit_codes={1: ""},
    )
    parser.word_hint = "Write `tandem gpus --filter {}`."
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="only types with TEXT in their name or in their GPU's name"
    )
    parser.add_argument(
        "--region", default="us-east-1", metavar="REGION", help="region of offers and prices (default: %(default)s)"
    )


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    require_region(parsed.region)
    wanted = parsed.filter.lower()
    listed = [each for each in instance_types().values() if wanted in each.name or wanted in each.gpu.title.lower()]
    if not listed:
        raise CallError(
            f"no GPU instance type matches '{short(parsed.filter)}'. {did_you_mean(parsed.filter, instance_types())}"
        )
    if parsed.json:
        print_json(as_dict(listed, parsed.region))
    else:
        show(listed, parsed.region)
    return FINE


def as_dict(listed: Sequence["InstanceType"], region: str) -> dict[str, Any]:
    """The list for `--json`; a price is null if the region's own is unknown."""
    return {
        "schema_version": 1,
        "region": region,
        "price_date": tables.read("gpu_prices").date,
        "instance_types": [_row(instance, region) for instance in listed],
    }


def _row(instance: InstanceType, region: str) -> dict[str, Any]:
    on_demand, spot = prices.on_demand(instance.name, region), prices.spot(instance.name, region)
    return {
        "instance_type": instance.name,
        "gpu": instance.gpu.name,
        "gpus": instance.gpus,
        "nvml_mib": instance.gpu.nvml_mib,
        "cuda_mib": instance.gpu.cuda_mib if instance.gpu.vendor == "nvidia" else None,
        "vendor": instance.gpu.vendor,
        "vcpu": instance.vcpu,
        "memory_mib": instance.memory_mib,
        "arch": instance.arch,
        "retired": retired.isoformat() if (retired := offerings.retired(instance.name)) else None,
        "offered": offerings.offered(instance.name, region),
        "on_demand_usd_per_hour": on_demand.usd_per_hour if on_demand.own else None,
        "spot_usd_per_hour": spot.usd_per_hour if spot else None,
    }


Line = tuple[InstanceType, dict[str, Any]]
COLUMNS: tuple[Column[Line], ...] = (
    Column("type", lambda line: line[0].name),
    Column("GPUs", lambda line: f"{line[0].gpus}", True),
    Column("GPU", lambda line: line[0].gpu.title.partition(" slice")[0]),
    Column("MiB each", lambda line: f"{line[1]['cuda_mib'] or line[1]['nvml_mib']:,}", True),
    Column("vCPU", lambda line: f"{line[0].vcpu}", True),
    Column("GiB", lambda line: f"{line[0].memory_mib / 1024:.0f}", True),
    Column("on demand", lambda line: _prices(line[1])[0], True),
    Column("spot", lambda line: _prices(line[1])[1], True),
)
LEAST = ("GiB", "vCPU", "MiB each")
"""What a narrow terminal lacks first."""


def show(listed: Sequence[InstanceType], region: str) -> None:
    """A line for each type; a narrow terminal lacks the processors and memory."""
    console = open_console()
    left_out = print_table(console, COLUMNS, [(each, _row(each, region)) for each in listed], LEAST, gap=" ")
    console.print()
    print_line(f"$ per hour in {region}; - is unknown. MiB: usable by CUDA on each GPU.", sys.stdout)
    hint_at_left_out(console, left_out)


def _prices(row: dict[str, Any]) -> tuple[str, str]:
    """On demand and spot, or why there are no prices."""
    if row["retired"]:
        return "retired", ""
    if row["offered"] != "yes":
        return {"no": "not offered", "unknown": "offer unknown"}[row["offered"]], ""
    on_demand, spot = row["on_demand_usd_per_hour"], row["spot_usd_per_hour"]
    return ("-" if on_demand is None else f"{on_demand:.2f}", "-" if spot is None else f"{spot:.2f}")
