"""What the commands about the account print for people."""

import datetime
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sharing.gpus import instance_types
from tandem.account.deletion import Outcome
from tandem.deployed.aws.leftovers import Inventory
from tandem.deployed.aws.quota import Answer
from tandem.deployed.aws.session import Account
from tandem.planned.kept_prices import Kept
from tandem.terminal import in_markup, new_table, open_console

STYLES = {
    "ok": "green",
    "short": "bold red",
    "short at max": "bold red",
    "short while replacing": "yellow",
    "unknown": "yellow",
}

QUOTA_FOR_BOTH = (
    "The stack comes up. An update or replacement of its nodes may fail until the quota is raised; "
    "`replacement: delete-first` under `gpu-nodes` needs no quota for a second GPU group."
)


def inventory(found: Inventory, account: Account, *, deleting: bool = False) -> None:
    """What is left, most expensive first, and what it costs per day; how to delete it, unless that comes next."""
    console = open_console()
    where = f"{in_markup(found.owner.stack)} in account {account.id}, {account.region}"
    if found.things:
        table = new_table(f"Left of {where}")
        table.add_column("kind")
        # At 80 columns there is room for EC2's longest ids, which are to be copied, when the rest is folded.
        table.add_column("id", overflow="fold")
        table.add_column("what", overflow="fold", max_width=max(console.width - 62, 10))
        table.add_column("$/day", justify="right", no_wrap=True)
        for thing in found.things:
            what = ", ".join(part for part in (thing.name, thing.detail) if part)
            usd = "?" if thing.usd_per_day is None else f"{thing.usd_per_day:.3f}"
            table.add_row(thing.kind, in_markup(thing.id), in_markup(what), usd)
        table.add_section()
        unknown = " and what has no known price" if any(thing.usd_per_day is None for thing in found.things) else ""
        table.add_row(f"{len(found.things)} things", "", f"total{unknown}", f"{found.usd_per_day:.3f}")
        console.print(table)
        if not deleting:
            console.print(
                f"`tandem leftovers {in_markup(found.owner.stack)} --delete` deletes them, asking for each kind.",
                soft_wrap=not console.is_terminal,
            )
    elif not found.unseen:
        console.print(f"[green]nothing[/] is left of {where}", soft_wrap=not console.is_terminal)
    for title, why in found.unseen.items():
        console.print(f"[yellow]not looked at[/]: {title}: {in_markup(why)}", soft_wrap=not console.is_terminal)


def outcome(one: Outcome, *, to_stderr: bool) -> None:
    """What became of a thing, in a line."""
    console = open_console(stderr=to_stderr)
    style, why = ("yellow" if one.left else "green"), (f": {one.why}" if one.why else "")
    console.print(f"[{style}]{one.what}[/] {in_markup(one.thing.label + why)}", soft_wrap=not console.is_terminal)


def counts(them: Sequence[Outcome], *, to_stderr: bool) -> None:
    """How many things a deletion deleted, and how many it left for which reason."""
    found = Counter(one.what for one in them)
    open_console(stderr=to_stderr).print(", ".join(f"{count} {what}" for what, count in found.items()))


def quotas(found: Answer, stack: str, account: Account) -> None:
    """Quotas against needs, then what else is wrong, then the commands that help."""
    console = open_console()
    table = new_table(f"Quotas for {in_markup(stack)} in account {account.id}, {account.region}")
    table.add_column("quota", overflow="fold")
    for column in ("limit", "used", "needed", "at max", "replacing"):
        table.add_column(column, justify="right")
    table.add_column("verdict", no_wrap=True)
    for check in found.checks:
        need = check.need
        limit = "?" if check.limit is None else f"{check.limit:,.0f}"
        verdict = f"[{STYLES[check.verdict]}]{check.verdict}[/]"
        quota = f"{need.quota.title} ({need.quota.unit})"
        counts = [f"{count:,}" for count in (check.used, need.now, need.most, need.replacing)]
        table.add_row(in_markup(quota), limit, *counts, verdict)
    table.caption = "Used: by everything but this stack. Replacing: while nodes are updated or replaced."
    table.caption_justify = "left"
    console.print(table)
    for problem in found.problems:
        console.print(f"[bold red]short[/] {in_markup(problem)}", soft_wrap=not console.is_terminal)
    for warning in found.warnings:
        console.print(f"[yellow]warning[/] {in_markup(warning)}", soft_wrap=not console.is_terminal)
    if any(check.verdict == "short while replacing" for check in found.checks):
        console.print(QUOTA_FOR_BOTH, soft_wrap=not console.is_terminal)
    for check in found.checks:
        if check.verdict.startswith("short"):
            # Never folded: it is to be copied.
            console.print(in_markup(check.way_out(account.region)), soft_wrap=True)


def prices(kept: Kept, path: Path, now: datetime.datetime) -> None:
    """Prices of the GPU types of a region, with their cheapest and dearest zone."""
    console = open_console()
    table = new_table(f"{kept.region}, read from AWS {age(kept.read_at, now)}; dollars an hour")
    table.add_column("type", no_wrap=True)
    table.add_column("GPU")
    table.add_column("on-demand", justify="right")
    table.add_column("spot, cheapest zone", justify="right")
    table.add_column("dearest zone", justify="right")
    for name, kind in instance_types().items():
        zones = kept.spot.get(name, {})
        if name not in kept.on_demand and not zones:
            continue
        full = f"{kept.on_demand[name]:.4f}" if name in kept.on_demand else ""
        cheapest, dearest = _extremes(kept.region, zones)
        table.add_row(name, f"{kind.gpus} × {kind.gpu.title}", full, cheapest, dearest)
    console.print(table)
    count = sum(name not in instance_types() for name in kept.on_demand)
    console.print(
        f"And {count} types for system nodes. Kept in {in_markup(str(path))}", soft_wrap=not console.is_terminal
    )


def _extremes(region: str, zones: dict[str, float]) -> tuple[str, str]:
    """The cheapest and the dearest zone with their prices, zones by their letter."""
    if not zones:
        return "", ""
    ordered = sorted(zones, key=lambda zone: (zones[zone], zone))
    cheapest, dearest = (f"{zones[zone]:.4f} {zone.removeprefix(region)}" for zone in (ordered[0], ordered[-1]))
    return cheapest, dearest


def age(then: datetime.datetime, now: datetime.datetime) -> str:
    """How long ago, in words."""
    hours = (now - then).total_seconds() / 3600
    if hours < 1:
        return "just now"
    return f"{hours:.0f} hours ago" if hours < 48 else f"{hours / 24:.0f} days ago"
