"""`tandem choose`: the cheapest setups that hold given models, and the best of them as a stack file."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharing.aws.partitions import HOME_REGION
from tandem.arguments import (
    BY,
    Commands,
    add_command,
    add_hours,
    add_isolation,
    add_measured,
    add_region,
    add_slots,
    add_write,
    amount,
    budget,
    count,
    isolations,
)
from tandem.lookup import ANY_REGION, called, existing, require_region, stack_file
from tandem.terminal import FAILED, FINE, CallError, print_json, print_line, short

# The rules and rich are imported where they are used: help and completion do without them.
if TYPE_CHECKING:
    from sharing.verdict.choices import Choice, Choices
    from tandem.search.base_stack import BaseStack

ROWS = 12
"""Rows that fit a screen of 24 lines with what stands around them."""


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "choose",
        run,
        description="Plan the models on every GPU instance type, in every sharing mode, as spot and on demand, and "
        "rank the setups that fit by the price of the whole stack, or by speed. Needs no AWS account and no network.",
        exit_codes={0: "at least one setup fits", 1: "no setup fits, or invalid stack file"},
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="an Ollama tag, for example llama2:7b")
    parser.add_argument(
        "--stack", metavar="STACK|FILE", help="use the models and the cluster of this stack file instead"
    )
    parser.add_argument(
        "--context",
        type=count,
        metavar="N",
        help="context length of every model, in tokens (default: the stack file's, or 4096)",
    )
    add_slots(parser, "the stack file's, or 1")
    add_region(parser, f"the stack file's, or {HOME_REGION}; any: the best setup of each region")
    parser.add_argument(
        "--capacity", choices=("any", "spot", "on-demand"), default="any", help="how to buy GPU nodes (default: any)"
    )
    add_hours(parser, "always", "for models: ")
    add_isolation(parser)
    parser.add_argument(
        "--budget",
        type=budget,
        metavar="USD",
        help="maximum price of the whole stack: per hour (1), also while nodes are replaced, or per month (350/month), "
        "with its schedule",
    )
    parser.add_argument(
        "--min-tokens-per-second",
        type=amount,
        metavar="N",
        help="leave out setups whose forecast gives a model fewer tokens per second while every model works on one "
        "request; the value counts, not its range; if no setup is left, the error names the fastest",
    )
    parser.add_argument(
        "--by",
        choices=BY,
        default="price",
        help="rank by the price of the stack, by tokens per second of the slowest model while all are busy, or by the "
        "price per token at full load (default: price; at the same price, the faster setup comes first)",
    )
    parser.add_argument(
        "--rows", type=count, default=ROWS, metavar="N", help="number of setups to show (default: %(default)s)"
    )
    parser.add_argument("--live-prices", action="store_true", help="use the prices that `tandem prices` has cached")
    add_measured(parser)
    add_write(parser, "the first setup, or one that is as good and has no warning,")


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    from sharing.hardware.offerings import regions_beside
    from sharing.verdict.choices import choose
    from tandem.search import new_stack_file
    from tandem.search.base_stack import CAPACITIES
    from tandem.search.unit import require_likely

    target = new_stack_file.find_target(parsed)
    base = _base(parsed)
    least = parsed.min_tokens_per_second or 0.0
    if least and all(served.model.encoder for served in base.config.models):
        raise CallError("--min-tokens-per-second is for models that generate text, and these only embed. Leave it out.")
    regions = regions_beside(base.config.region) if parsed.region == ANY_REGION else ()
    isolated = isolations(parsed.isolation)
    capacities = CAPACITIES if parsed.capacity == "any" else (parsed.capacity,)
    choices = choose(base.config, capacities, parsed.by, least, regions, isolated)
    require_likely(parsed.budget, choices)
    if parsed.measured and not regions:  # of each region, only one setup is kept
        from tandem.bench_results.measurements import warn_of_unused

        warn_of_unused([choice.cell for choice in choices.holding])
    overwrites = target is not None and target.exists()
    place = choices.proposed
    chosen = choices.fitting[place] if choices.fitting else None
    written = None
    if target and chosen:
        written = new_stack_file.write(base.in_region(chosen.config.region), chosen, target, "choose")
    if parsed.json:
        print_json(as_dict(base, choices, parsed, written))
    else:
        from tandem.search import screen

        screen.table(base.config, choices, parsed.rows)
        if written:
            plan = f"tandem plan {called(written)}"
            print_line("", sys.stdout)
            over = " (overwritten)" * overwrites
            calm = f" It is setup {place + 1}; the first has a warning." * (place > 0)
            done = f"Wrote {new_stack_file.shown(written)}{over}. Run `{plan}` for the whole plan.{calm}"
            print_line(done, sys.stdout)
    return FINE if choices.fitting else FAILED


def as_dict(base: "BaseStack", choices: "Choices", parsed: argparse.Namespace, written: Path | None) -> dict[str, Any]:
    """The choices as `--json` prints them, the best first; dollars are those of the whole stack."""
    above = choices.nearest
    miss = None if choices.holding else choices.refusal or choices.nearest_miss
    return {
        "schema_version": 1,
        "region": parsed.region if parsed.region == ANY_REGION else base.config.region,
        "capacity": parsed.capacity,
        "by": parsed.by,
        "isolation": parsed.isolation,
        "min_tokens_per_second": parsed.min_tokens_per_second,
        "budget_usd_per_hour": base.config.budget.max_usd_per_hour,
        "budget_usd_per_month": base.config.budget.max_usd_per_month,
        "models": [served.model.name for served in base.config.models],
        "setups": [_choice(choice) for choice in choices.fitting],
        "not_judged": [_choice(choice) for choice in choices.not_judged],
        "cheapest_over_budget": _choice(above) if above and not choices.fitting else None,
        "fastest_too_slow": _choice(choices.too_slow[0]) if choices.too_slow and not choices.fitting else None,
        "nearest_miss": miss.as_dict() if miss else None,
        "written": str(written) if written else None,
    }


def _choice(choice: "Choice") -> dict[str, Any]:
    from dataclasses import asdict

    from tandem.plan_json.speed import speed_fields
    from tandem.search.base_stack import sharing_values

    cell, bill, tightest = choice.cell, choice.bill, choice.tightest
    return {
        "region": choice.config.region,
        "instance_type": cell.instance.name,
        "gpu": cell.instance.gpu.name,
        "gpus": cell.instance.gpus,
        "way": cell.way,
        "sharing": sharing_values(cell.pool.sharing),
        "nodes": cell.nodes,
        "capacity": cell.pool.capacity,
        "spot_risk": asdict(choice.spot_risk) if choice.spot_risk else None,
        "price_note": cell.price_note,
        "price_known": not bill.unpriced,
        "usd_per_hour": round(bill.usd_per_hour, 4),
        "usd_per_month": round(bill.usd_per_month, 2),
        "usd_per_month_unparked": round(bill.usd_per_month_unparked, 2),
        "usd_per_week": round(bill.usd_per_week, 2),
        "replacing_usd_per_hour": round(bill.replacing_usd_per_hour, 4),
        **speed_fields(cell.verdict.fits, choice.usd_per_million_tokens),
        "isolation": choice.isolation,
        "margin_mib": round(tightest.room),
        "margin_of_mib": tightest.unit_mib if tightest.share_mib is None else tightest.share_mib,
        "warnings": [warning.as_dict() for warning in cell.warnings],
    }


def _base(parsed: argparse.Namespace) -> "BaseStack":
    """The stack to try setups for; raises `CallError` for a usage error."""
    import datetime
    from dataclasses import replace

    from sharing.models.catalogue import find
    from tandem.search import base_stack
    from tandem.search.contexts import describe_lowered, with_context, with_slots
    from tandem.search.hours import hours_of, names_timezone, read_hours

    if parsed.models and parsed.stack:
        raise CallError("`choose` takes models or --stack, not both. Leave one out.")
    if not parsed.models and not parsed.stack:
        raise CallError("`choose` needs models or a stack. Write `tandem choose llama2:7b mistral:7b`, for example.")
    for word in parsed.models:
        if find(word) is None and stack_file(word).is_file():
            raise CallError(f"{short(word)} is a stack. Run `tandem choose --stack {shlex.quote(word)}`.")
    today = datetime.date.today()
    slots = {} if parsed.slots is None else {"slots": parsed.slots}
    settings = slots if parsed.context is None else {"context": parsed.context, **slots}
    limits = parsed.budget.settings if parsed.budget else {}
    hours = hours_of(parsed)
    if hours and parsed.stack:
        raise CallError("--nights-off and --hours are for models. Write the section `park` in the stack file.")
    region = None if parsed.region == ANY_REGION else parsed.region
    if region:
        require_region(region)
    elif parsed.region and parsed.live_prices:
        raise CallError("--live-prices are those of one region. Name it, or leave out --live-prices.")
    elif parsed.region and hours and not names_timezone(hours):
        raise CallError("the hours of every region need one time zone. Write --hours '8-20 Europe/Paris', for example.")
    try:
        if parsed.stack:
            base = base_stack.of_file(existing(parsed.stack), settings, region, limits, today)
        else:
            models = with_slots(with_context(parsed.models, parsed.context), parsed.slots)
            if lowered := describe_lowered(models, parsed.context, parsed.slots):
                print_line(lowered, sys.stderr if parsed.json else sys.stdout)
            home = region or HOME_REGION
            others = read_hours(hours, home) if hours else {}
            base = base_stack.of_models(models, home, limits, today, others=others)
    except CallError as error:
        names = {key: f"--{key}" for key in settings} | ({} if parsed.stack else {"name": "MODEL"})
        raise CallError(base_stack.about_arguments(str(error), names)) from None
    around = base.config.circumstances
    if parsed.live_prices:
        from tandem import price_cache

        around = replace(around, book=price_cache.load(base.config.region, today).book)
    if parsed.measured:
        from tandem.bench_results.measurements import read_measured

        around = replace(around, measured=read_measured(parsed.measured))
    return replace(base, config=base.config.under(around))
