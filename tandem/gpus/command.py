"""`tandem gpus`: the GPU instance types of the catalogue."""

import argparse
from collections.abc import Sequence
from typing import Any

from sharing import tables
from sharing.hardware import offerings, prices
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.problems import did_you_mean
from tandem.arguments import Commands, add_command
from tandem.lookup import require_region
from tandem.terminal import FINE, CallError, has_room, hint_at_columns, new_table, open_console, print_json, say, short

# rich is imported where it is used: `--help` and errors do without it.

SCHEMA_VERSION = 1


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
        "schema_version": SCHEMA_VERSION,
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


def show(listed: Sequence[InstanceType], region: str) -> None:
    """A line for each type; a narrow terminal gets neither memory nor processors."""
    console = open_console()
    sizes = ("MiB each", "vCPU", "GiB") if has_room(console) else ()
    table = new_table("")
    table.box, table.padding = None, (0, 1, 0, 0)
    for name in ("type", "GPUs", "GPU", *sizes, "on demand", "spot"):
        table.add_column(name, no_wrap=name != "GPU", justify="left" if name in ("type", "GPU") else "right")
    for instance in listed:
        row = _row(instance, region)
        memory = f"{row['cuda_mib'] or row['nvml_mib']:,}"
        size = (memory, str(row["vcpu"]), f"{row['memory_mib'] / 1024:.0f}") if sizes else ()
        title = instance.gpu.title.partition(" slice")[0]
        table.add_row(instance.name, str(row["gpus"]), title, *size, *_prices(row))
    console.print(table)
    console.print()
    meaning = " MiB: usable by CUDA on each GPU." if sizes else ""
    say(console, f"$ per hour in {region}; - is unknown.{meaning}", fold=console.is_terminal)
    hint_at_columns(console)


def _prices(row: dict[str, Any]) -> tuple[str, str]:
    """On demand and spot, or why there are no prices."""
    if row["retired"]:
        return "retired", ""
    if row["offered"] != "yes":
        return {"no": "not offered", "unknown": "offer unknown"}[row["offered"]], ""
    on_demand, spot = row["on_demand_usd_per_hour"], row["spot_usd_per_hour"]
    return ("-" if on_demand is None else f"{on_demand:.2f}", "-" if spot is None else f"{spot:.2f}")
