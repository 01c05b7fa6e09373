"""`tandem park` and `tandem wake`: their arguments, and what they do. Cheap to import."""

import argparse
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_cluster, add_command, add_profile, add_stack
from tandem.lookup import accepted, existing
from tandem.terminal import FINE, CallError, open_console, print_json, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from stacks.stack_file.judge import Plan
    from tandem.aws.parked_nodes import PoolNodes
    from tandem.aws.session import Account

SCHEMA_VERSION = 1
KARPENTER = "karpenter"
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
    return _scale(parsed, _planned(parsed), lambda pool: 0)


def _wake(parsed: argparse.Namespace) -> int:
    code = _scale(parsed, _planned(parsed), lambda pool: pool.most)
    if not (parsed.no_wait or parsed.json):
        cluster = [word for option in ("kubeconfig", "context") for word in _given(parsed, option)]
        parsed.then = ["verify", parsed.stack, "--wait", *cluster]
    return code


def _given(parsed: argparse.Namespace, option: str) -> list[str]:
    value = getattr(parsed, option)
    return [f"--{option}", value] if value is not None else []


def _planned(parsed: argparse.Namespace) -> "Plan":
    """The plan of the stack. Raises `CallError` without the section `park`, or in an account that its file excludes."""
    plan = accepted(parsed.stack)

    from tandem.aws import parked_nodes

    if plan.config.scale_to_zero.enabled:
        raise CallError(
            f"stack {plan.stack} scales its models to zero. Send a request to a URL of `pulumi stack output "
            "endpoints` to start a model."
        )
    if plan.config.park is None:
        raise CallError(
            f"stack {plan.stack} has no section `park`, so `pulumi up` would undo it. {parked_nodes.SECTION}"
        )
    if _provisioners(plan) == {KARPENTER} and plan.config.allowed_account_ids:
        # Nothing else asks AWS for such a stack: its cluster does all the work.
        _account(parsed, plan)
    return plan


def _provisioners(plan: "Plan") -> set[str]:
    return {pool.provisioner for pool in plan.config.pools}


def _account(parsed: argparse.Namespace, plan: "Plan") -> "Account":
    """The account of the stack. Raises `WrongAccountError` if its file excludes it."""
    from tandem.aws.stack_account import identity

    return identity(existing(parsed.stack), parsed.profile).connect(plan.config.region)


def _scale(parsed: argparse.Namespace, plan: "Plan", size: "Callable[[PoolNodes], int]") -> int:
    """Changes the size of node groups, and the models of Karpenter's pools, whose nodes follow."""
    provisioners = _provisioners(plan)
    changes = _resize(parsed, plan, size) if provisioners != {KARPENTER} else []
    job = None
    if KARPENTER in provisioners:
        from tandem.parking.models import scale_models

        job = scale_models(parsed, parsed.command)
    if parsed.json:
        groups = [{"group": pool.name, "was": pool.nodes, "nodes": nodes} for pool, nodes in changes]
        print_json({"schema_version": SCHEMA_VERSION, "stack": plan.stack, "groups": groups, "job": job})
        return FINE
    out = open_console()
    for pool, nodes in changes:
        now = f"{pool.nodes} to {nodes} nodes" if pool.nodes != nodes else f"{nodes} nodes already"
        out.print(f"{pool.pool}: {now} ({pool.name})")
    if job is not None:
        done = "parked" if parsed.command == "park" else "woke"
        out.print(f"Job {job} {done} the models. Karpenter's nodes follow.")
    return FINE


def _resize(
    parsed: argparse.Namespace, plan: "Plan", size: "Callable[[PoolNodes], int]"
) -> "list[tuple[PoolNodes, int]]":
    """Changes the groups whose size differs, if all of them are ready. Returns all groups with their new sizes."""
    from tandem.aws import parked_nodes
    from tandem.aws.session import explained

    account = _account(parsed, plan)
    with explained(account.region):
        with status("Reading the node groups"):
            there = plan.config.cluster.existing
            found = parked_nodes.find_pools(account, plan.stack, there.name if there else None)
            sizes = [(pool, size(pool)) for pool in found]
        changing = [(pool, nodes) for pool, nodes in sizes if pool.nodes != nodes]
        parked_nodes.refuse_unready([pool for pool, _ in changing])
        for pool, nodes in changing:
            parked_nodes.resize(account, pool, nodes)
    return sizes
