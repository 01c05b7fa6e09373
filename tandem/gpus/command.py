"""`tandem gpus`: the GPU instance types of the catalogue."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tandem.arguments import Commands, add_command
from tandem.terminal import FINE, CallError, print_json, short

# The rules and rich are imported where they are used: `tandem plan` reads this file, too.
if TYPE_CHECKING:
    from sharing.hardware.gpus import InstanceType

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
    from sharing.hardware.gpus import instance_types
    from sharing.problems import did_you_mean
    from tandem.lookup import require_region

    require_region(parsed.region)
    wanted = parsed.filter.lower()
    found = [each for each in instance_types().values() if wanted in each.name or wanted in each.gpu.title.lower()]
    if not found:
        raise CallError(
            f"no GPU instance type matches '{short(parsed.filter)}'. {did_you_mean(parsed.filter, instance_types())}"
        )
    if parsed.json:
        print_json(as_dict(found, parsed.region))
    else:
        show(found, parsed.region)
    return FINE


def as_dict(found: Sequence["InstanceType"], region: str) -> dict[str, Any]:
    """The list for `--json`; a price is null if the region's own is unknown."""
    from sharing import tables

    return {
        "schema_version": SCHEMA_VERSION,
        "region": region,
        "price_date": tables.read("gpu_prices").date,
        "instance_types": [_row(instance, region) for instance in found],
    }


def _row(instance: "InstanceType", region: str) -> dict[str, Any]:
    from sharing.hardware import offerings, prices

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


def show(found: Sequence["InstanceType"], region: str) -> None:
    """A line for each type."""
    from rich.text import Text

    from sharing.hardware.gpus import instance_types
    from tandem.terminal import has_room, hint_at_columns, open_console

    console = open_console()
    sizes = f"{'MiB each':>8}{'vCPU':>6}{'GiB':>6}" if has_room(console) else ""
    head = f"{'type':<16}{'GPUs':>4}  {'GPU':<20}{sizes}{'on demand':>11}{'spot':>7}"
    console.print(Text(head, style="bold"), soft_wrap=True)
    for row in (_row(instance, region) for instance in found):
        title = instance_types()[row["instance_type"]].gpu.title.partition(" slice")[0]
        memory = f"{row['cuda_mib'] or row['nvml_mib']:,}"
        size = f"{memory:>8}{row['vcpu']:>6}{row['memory_mib'] / 1024:>6.0f}" if has_room(console) else ""
        line = f"{row['instance_type']:<16}{row['gpus']:>4}  {title:<20}{size}{_prices(row)}"
        console.print(Text(line.rstrip()), soft_wrap=True)
    said = f"$ per hour in {region}; - is unknown." + " MiB: usable by CUDA on each GPU." * has_room(console)
    console.print(Text(f"\n{said}"), soft_wrap=not console.is_terminal)
    hint_at_columns(console)


def _prices(row: dict[str, Any]) -> str:
    """The prices of the type, or why there are none."""
    if row["retired"] or row["offered"] != "yes":
        why = {"no": "not offered", "unknown": "offer unknown"}
        return f"{'retired' if row['retired'] else why[row['offered']]:>18}"
    on_demand, spot = row["on_demand_usd_per_hour"], row["spot_usd_per_hour"]
    return f"{'-' if on_demand is None else f'{on_demand:.2f}':>11}{'-' if spot is None else f'{spot:.2f}':>7}"
