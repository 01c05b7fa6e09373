"""`tandem modes`: every sharing mode on every instance type, what it costs there or why it is refused."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sharing.aws.partitions import HOME_REGION
from sharing.sections.provisioners import PROVISIONERS
from tandem.arguments import BY, WAYS, Commands, add_command, add_measured, add_region
from tandem.lookup import existing, require_region
from tandem.terminal import FINE, CallError, print_json, short

# The rules and rich are imported where they are used: help and completion do without them.
if TYPE_CHECKING:
    from sharing.sections.config import StackConfig
    from sharing.verdict.matrix import Cell


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "modes",
        run,
        description="Plan the models of a stack, or two example models (llama2:7b and mistral:7b, context 4096), in "
        "every sharing mode on every GPU instance type. Needs no AWS account and no network.",
        exit_codes={1: ""},
    )
    parser.add_argument(
        "stack", nargs="?", metavar="STACK|FILE", help="plan the models of this stack (default: the example models)"
    )
    parser.add_argument(
        "--type", metavar="INSTANCE-TYPE", help="show one instance type in detail, with reasons and alternatives"
    )
    parser.add_argument("--all", action="store_true", help="show every instance type, not only the cheapest per GPU")
    parser.add_argument("--mode", choices=WAYS, help="show only this sharing mode")
    parser.add_argument(
        "--by",
        choices=BY,
        default="price",
        help="show in each mode the price of the cheapest nodes; or, on these, tokens per second of the slowest model "
        "while all are busy; or the price per million tokens at full load (default: price)",
    )
    parser.add_argument("--provisioner", choices=PROVISIONERS, help="show only this node provisioner")
    add_region(parser, f"the stack file's, or {HOME_REGION}")
    add_measured(parser)


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    from sharing.verdict import matrix

    config = _config(parsed)
    if parsed.measured:
        from tandem.bench_results import measurements

        measured = measurements.read_measured(parsed.measured)
        config = config.under(replace(config.circumstances, measured=measured))
    types = [parsed.type] if parsed.type else None
    ways = [way for way in matrix.WAYS if parsed.mode in (None, way) or way.startswith(f"{parsed.mode}-")]
    provisioners = (parsed.provisioner,) if parsed.provisioner else PROVISIONERS
    tried = list(matrix.cells(config, types=types, ways=ways, provisioners=provisioners))
    if parsed.measured:
        measurements.warn_of_unused(tried)
    if parsed.json:
        print_json(as_dict(config, tried))
        return FINE

    from tandem.modes import screen as show_modes

    if parsed.type:
        show_modes.row(config, tried)
    elif parsed.all:
        show_modes.grid(config, tried, parsed.by)
    else:
        show_modes.overview(config, tried, parsed.by)
    return FINE


def _config(parsed: argparse.Namespace) -> "StackConfig":
    """The models of the stack, or the example models, on the day of the price table."""
    import datetime

    from sharing import tables
    from sharing.hardware.gpus import instance_types
    from sharing.problems import did_you_mean
    from tandem.search import base_stack

    name, day = parsed.type, datetime.date.fromisoformat(tables.read("gpu_prices").date)
    if name is not None and name not in instance_types():
        raise CallError(f"unknown GPU instance type '{short(name)}'. {did_you_mean(name, instance_types())}")
    if parsed.region:
        require_region(parsed.region)
    if parsed.stack:
        return base_stack.of_file(existing(parsed.stack), {}, parsed.region, {}, day).config
    pair = [{"name": "llama2:7b"}, {"name": "mistral:7b"}]
    return base_stack.of_values({"models": pair}, parsed.region or HOME_REGION, day).config


def as_dict(config: "StackConfig", tried: Sequence["Cell"]) -> dict[str, Any]:
    """The matrix for `--json`: one entry per cell; dollars are for all GPU nodes of the cell."""
    return {
        "schema_version": 1,
        "region": config.region,
        "price_date": config.today.isoformat(),
        "models": [served.model.name for served in config.models],
        "cells": [_cell(cell) for cell in tried],
    }


def _cell(cell: "Cell") -> dict[str, Any]:
    from tandem.plan_json.speed import speed_fields

    instance, sharing = cell.instance, cell.pool.sharing
    return {
        "instance_type": instance.name,
        "gpu": instance.gpu.name,
        "gpus": instance.gpus,
        "way": cell.way,
        "provisioner": cell.pool.provisioner,
        "verdict": "plans" if cell.plans else "refused",
        "sharing": sharing.model_dump(by_alias=True, exclude_none=True),
        "nodes": cell.nodes,
        "capacity": "spot" if cell.is_spot else "on-demand",
        "usd_per_hour": round(cell.usd_per_hour, 4),
        "on_demand_usd_per_hour": round(cell.on_demand_usd_per_hour, 4),
        **speed_fields(cell.verdict.fits, cell.usd_per_million_tokens),
        "shares": [
            {
                "resource": shares.resource,
                "profile": shares.profile,
                "per_gpu": shares.per_gpu,
                "memory_mib": shares.memory_mib,
                "enforced": shares.enforced,
                "own_limits": shares.own_limits,
            }
            for shares in cell.pool.offers
        ],
        "rule": cell.broken,
        "problem": cell.problem.as_dict() if cell.problem else None,
        "warnings": [warning.as_dict() for warning in cell.warnings],
    }
