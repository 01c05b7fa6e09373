"""A switch for people: which models stop, the steps in order, and how long they take."""

from rich.console import Console

from tandem.plan.switch import NODE_GROUP, NODE_POOL, Downtime, Restart, Step, Switch, Switches
from tandem.terminal import in_markup, new_table

NAMES = {NODE_GROUP: "the node group", NODE_POOL: "Karpenter's pool, with its nodes"}
"""Replaced resources in words."""
NOTHING = "no pool changes its mode"
OUTPUTS = "Based on the stack's last outputs. If the last `up` failed, some steps may already be done."


def show(console: Console, switches: Switches) -> None:
    """Prints the changes to the running stack."""
    console.print()
    for switch in switches.pools:
        _switch(console, switch)
    for name in switches.new:
        console.print(f"pool {in_markup(name)} is new: no model stops")
    for name in switches.gone:
        console.print(f"pool {in_markup(name)} is deleted, with its nodes and models")
    for id in switches.gone_models:
        console.print(f"{in_markup(id)} is not in the stack file: it is deleted")
    if not switches.pools:
        console.print(f"[bold]{NOTHING}[/]")
    for restart in switches.restarts:
        _restart(console, restart)
    console.print(OUTPUTS)


def _switch(console: Console, switch: Switch) -> None:
    console.print(
        f"[bold]Switch of pool {in_markup(switch.pool)}: {in_markup(switch.before)} → {in_markup(switch.after)}[/]"
    )
    console.print(f"stops: {', '.join(map(in_markup, switch.stops)) or 'none of the planned models runs there'}")
    steps = new_table("")
    steps.add_column("step")
    steps.add_column("minutes", justify="right", no_wrap=True)
    steps.add_column("models")
    for step in switch.steps:
        steps.add_row(in_markup(step.what), f"{step.minutes:.1f}", _state(switch, step))
    console.print(steps)
    console.print(f"replaced: {', '.join(NAMES[type] for type in switch.replaced) or 'nothing'}")
    if switch.downtimes:
        first, *others = switch.downtimes
        shown = [_downtime(first, " minutes"), *map(_downtime, others)]
        console.print(f"[bold]Estimated downtime: about {', '.join(shown)}[/]")
    elif switch.stops:
        console.print("[bold]Downtime: until the pool has nodes again[/]")
    if switch.vcpus:
        needed = "; ".join(f"{each.quota.title} {each.most}" for each in switch.vcpus)
        console.print(f"vCPU quota needed by this pool meanwhile: {needed}", highlight=False)
    console.print()


def _restart(console: Console, restart: Restart) -> None:
    away = restart.downtime
    limits = f"{restart.before_mib:,} → {restart.after_mib:,} MiB"
    about = f"unavailable for about {away.minutes:.1f} minutes (± {away.plus_minus:.1f})"
    console.print(f"{in_markup(away.model)} restarts, as its limit changes: {limits}; {about}", highlight=False)


def _state(switch: Switch, step: Step) -> str:
    """Whether the models of the pool are available during the step; empty if none runs."""
    if not switch.stops:
        return ""
    if step.model and step.model not in switch.stops:
        return "new"
    return "unavailable" if step.away else "available"


def _downtime(downtime: Downtime, unit: str = "") -> str:
    return f"{downtime.minutes:.0f}{unit} (± {downtime.plus_minus:.0f}) for {in_markup(downtime.model)}"
