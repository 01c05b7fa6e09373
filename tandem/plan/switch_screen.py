"""A switch for people: which models stop, the steps in order, and how long they take."""

from rich.console import Console

from tandem.plan.switch import NODE_GROUP, NODE_POOL, Downtime, Restart, Step, Switch, Switches
from tandem.terminal import print_rows, say

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
        say(console, f"pool {name} is new: no model stops")
    for name in switches.gone:
        say(console, f"pool {name} is deleted, with its nodes and models")
    for id in switches.gone_models:
        say(console, f"{id} is not in the stack file: it is deleted")
    if not switches.pools:
        say(console, NOTHING, "bold")
    for restart in switches.restarts:
        _restart(console, restart)
    say(console, OUTPUTS)


def _switch(console: Console, switch: Switch) -> None:
    say(console, f"Switch of pool {switch.pool}: {switch.before} → {switch.after}", "bold")
    say(console, f"stops: {', '.join(switch.stops) or 'none of the planned models runs there'}")
    rows = [(f"{step.minutes:.1f}", _state(switch, step), step.what) for step in switch.steps]
    print_rows(console, [("minutes", "models", "step"), *rows], [0])
    say(console, f"replaced: {', '.join(NAMES[type] for type in switch.replaced) or 'nothing'}")
    if switch.downtimes:
        first, *others = switch.downtimes
        shown = [_downtime(first, " minutes"), *map(_downtime, others)]
        say(console, f"Estimated downtime: about {', '.join(shown)}", "bold")
    elif switch.stops:
        say(console, "Downtime: until the pool has nodes again", "bold")
    if switch.vcpus:
        needed = "; ".join(f"{each.quota.title} {each.most}" for each in switch.vcpus)
        say(console, f"vCPU quota needed by this pool meanwhile: {needed}")
    console.print()


def _restart(console: Console, restart: Restart) -> None:
    away = restart.downtime
    limits = f"{restart.before_mib:,} → {restart.after_mib:,} MiB"
    about = f"unavailable for about {away.minutes:.1f} minutes (± {away.plus_minus:.1f})"
    say(console, f"{away.model} restarts, as its limit changes: {limits}; {about}")


def _state(switch: Switch, step: Step) -> str:
    """Whether the models of the pool are available during the step; empty if none runs."""
    if not switch.stops:
        return ""
    if step.model and step.model not in switch.stops:
        return "new"
    return "unavailable" if step.away else "available"


def _downtime(downtime: Downtime, unit: str = "") -> str:
    return f"{downtime.minutes:.0f}{unit} (± {downtime.plus_minus:.0f}) for {downtime.model}"
