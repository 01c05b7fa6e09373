"""`tandem modes`: every way of sharing on every instance type, what it costs there or why it is refused."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tandem.calling import EXIT_CODES, FINE, CallError, Commands, print_json

# The rules and rich are imported where they are used: `tandem plan` reads this file, too.
if TYPE_CHECKING:
    from sharing.matrix import Cell
    from sharing.setup import Provisioner, Setup

SCHEMA_VERSION = 1
WAYS = {
    "exclusive": ("exclusive",),
    "timeslice": ("timeslice",),
    "mps": ("mps",),
    "mig": ("mig-single", "mig-mixed"),
    "mig-single": ("mig-single",),
    "mig-mixed": ("mig-mixed",),
}
"""What `--mode` may be, and the ways of sharing (`sharing.matrix.WAYS`) that it means."""
PROVISIONERS: tuple["Provisioner", ...] = ("node-group", "karpenter")
PAIR = ({"name": "llama2:7b", "context": 2048}, {"name": "mistral:7b", "context": 2048})
"""The models of the example stack `timeslice`."""


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = commands.add_parser(
        "modes",
        help="show which way of sharing goes on which instance type, and what it costs",
        description="Tries the two example models (llama2:7b and mistral:7b, context 2048) in every way of sharing, "
        "on every GPU instance type, with every provisioner of nodes. No AWS account, no network.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--type", metavar="TYPE", help="this instance type alone, with reasons and ways out")
    parser.add_argument("--mode", choices=WAYS, help="this way of sharing alone")
    parser.add_argument("--provisioner", choices=PROVISIONERS, help="this provisioner alone")
    parser.add_argument("--region", default="us-east-1", help="region of the prices (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    from sharing.matrix import cells

    if unknown := _unknown(parsed.type, parsed.region):
        raise CallError(unknown)
    setup = example(parsed.region)
    types = [parsed.type] if parsed.type else None
    ways = WAYS[parsed.mode] if parsed.mode else tuple(dict.fromkeys(way for some in WAYS.values() for way in some))
    provisioners = (parsed.provisioner,) if parsed.provisioner else PROVISIONERS
    found = list(cells(setup, types=types, ways=ways, provisioners=provisioners))
    if parsed.json:
        print_json(as_dict(setup, found))
        return FINE

    from tandem import show_modes

    if parsed.type:
        show_modes.row(setup, found)
    else:
        show_modes.grid(setup, found)
    return FINE


def example(region: str) -> "Setup":
    """The example models with all settings at their defaults, on the day of the price table."""
    import datetime

    from sharing import tables
    from stacks.config import StackConfig

    config = StackConfig.model_validate(
        {"aws:region": region, "sharing": {"mode": "timeslice", "replicas": 2}, "models": list(PAIR)}
    )
    return config.setup(datetime.date.fromisoformat(tables.read("gpu_prices").date))


def as_dict(setup: "Setup", found: Sequence["Cell"]) -> dict[str, Any]:
    """The matrix as `--json` prints it: one entry a cell, dollars an hour for all GPU nodes of the cell."""
    return {
        "schema_version": SCHEMA_VERSION,
        "region": setup.region,
        "price_date": setup.today.isoformat(),
        "models": [tenant.served.model.name for tenant in setup.tenants],
        "cells": [_cell(cell) for cell in found],
    }


def _cell(cell: "Cell") -> dict[str, Any]:
    from dataclasses import asdict

    instance, sharing = cell.instance, cell.pool.sharing
    return {
        "instance_type": instance.name,
        "gpu": instance.gpu.name,
        "gpus": instance.gpus,
        "way": cell.way,
        "provisioner": cell.pool.provisioner,
        "verdict": "plans" if cell.plans else "refused",
        "sharing": sharing.model_dump(mode="json", by_alias=True, exclude_none=True),
        "nodes": cell.nodes,
        "capacity": "spot" if cell.is_spot else "on-demand",
        "usd_per_hour": round(cell.usd_per_hour, 4),
        "on_demand_usd_per_hour": round(cell.on_demand_usd_per_hour, 4),
        "shares": [
            {
                "resource": shares.resource,
                "profile": shares.profile,
                "per_gpu": shares.per_gpu,
                "memory_mib": shares.memory_mib,
                "enforced": shares.enforced,
            }
            for shares in cell.pool.offers
        ],
        "rule": cell.broken,
        "problem": asdict(cell.problem) if cell.problem else None,
        "warnings": [asdict(warning) for warning in cell.warnings],
    }


def _unknown(instance_type: str | None, region: str) -> str:
    """What is wrong with the words of the call; empty when nothing is."""
    from sharing import tables
    from sharing.gpus import instance_types
    from sharing.problems import did_you_mean

    if instance_type is not None and instance_type not in instance_types():
        return f"unknown GPU instance type '{instance_type}'. {did_you_mean(instance_type, instance_types())}"
    regions = [row["region"] for row in tables.read("regions").rows]
    if region not in regions:
        return f"unknown region '{region}'. {did_you_mean(region, regions)}"
    return ""
