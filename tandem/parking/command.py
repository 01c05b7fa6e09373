"""`tandem park` and `tandem wake`: their arguments, and what they do. Cheap to import."""

import argparse
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_cluster, add_command, add_profile, add_stack
from tandem.lookup import accepted
from tandem.terminal import FINE, open_console, print_json

if TYPE_CHECKING:
    from tandem.deployed.parking import Verb

SCHEMA_VERSION = 1
CODES = {
    0: "the change was accepted, or nothing had to change",
    1: "a node group refuses changes, or the stack is refused",
    2: "usage error, unreadable input, or AWS or the cluster did not answer",
}


def add(commands: Commands) -> None:
    """Adds both commands to the parser of `tandem`."""
    park = add_command(
        commands,
        "park",
        _park,
        description="Remove the GPU nodes of a stack with the section `park` now. They come back at the scheduled "
        "wake, or with `tandem wake`.",
        exit_codes=CODES,
    )
    add_stack(park)
    add_profile(park)
    add_cluster(park)
    wake = add_command(
        commands,
        "wake",
        _wake,
        description="Bring back the GPU nodes of a parked stack now. `tandem verify --wait` follows: it shows what is "
        "not ready yet, from the node to the model, until all models answer.",
        exit_codes={**CODES, 0: "all models answer; with --no-wait or --json, the change was accepted"},
    )
    add_stack(wake)
    add_profile(wake)
    add_cluster(wake)
    wake.add_argument("--no-wait", action="store_true", help="end when the change was accepted")


def _park(parsed: argparse.Namespace) -> int:
    return _resize(parsed, "park")


def _wake(parsed: argparse.Namespace) -> int:
    code = _resize(parsed, "wake")
    if not (parsed.no_wait or parsed.json):
        cluster = [word for option in ("kubeconfig", "context") for word in _given(parsed, option)]
        parsed.then = ["verify", parsed.stack, "--wait", *cluster]
    return code


def _given(parsed: argparse.Namespace, option: str) -> list[str]:
    value = getattr(parsed, option)
    return [f"--{option}", value] if value is not None else []


def _resize(parsed: argparse.Namespace, verb: "Verb") -> int:
    plan = accepted(parsed.stack)
    # Here, so that --help works without the extra.
    from tandem.deployed import parking

    parking.refuse_unparkable(plan)
    done = parking.resize(parsed, plan, verb)
    if parsed.json:
        groups = [{"group": pool.name, "was": pool.nodes, "nodes": nodes} for pool, nodes in done.groups]
        print_json({"schema_version": SCHEMA_VERSION, "stack": plan.stack, "groups": groups, "job": done.job})
        return FINE
    out = open_console()
    for pool, nodes in done.groups:
        now = f"{pool.nodes} to {nodes} nodes" if pool.nodes != nodes else f"{nodes} nodes already"
        out.print(f"{pool.pool}: {now} ({pool.name})")
    if done.job is not None:
        past = "parked" if verb == "park" else "woke"
        out.print(f"Job {done.job} {past} the models. Karpenter's nodes follow.")
    return FINE
