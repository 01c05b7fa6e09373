"""`tandem park` and `tandem wake`: their arguments, and what they do. Cheap to import."""

import argparse
import datetime
import re
from typing import TYPE_CHECKING

from tandem.arguments import accepted, add_profile, add_stack
from tandem.parser import Commands, add_command
from tandem.terminal import FINE, CallError, open_console, print_json, status

if TYPE_CHECKING:
    from stacks.stack_file.judge import Plan
    from tandem.deployed.aws.parking import PoolNodes
    from tandem.deployed.aws.session import Account

SCHEMA_VERSION = 1
UNITS = {"d": 24 * 60, "h": 60, "m": 1}
"""Minutes."""
LONGEST_MINUTES = 30 * 24 * 60
CODES = {
    0: "EKS accepted the change, or nothing had to change",
    1: "a node group refuses changes, or the stack is refused",
    2: "usage error, unreadable input, or AWS did not answer",
}


def add(commands: Commands) -> None:
    """Adds both commands to the parser of `tandem`."""
    park = add_command(
        commands,
        "park",
        _park,
        description="Remove the GPU nodes of a stack with the section `park` now, or later with --in. They come back "
        "at the next `wake` of the section, or with `tandem wake`.",
        exit_codes=CODES,
    )
    add_stack(park)
    add_profile(park)
    park.add_argument(
        "--in", dest="later", type=minutes, metavar="TIME", help="park once, after this time: 45m, 8h, 1h30m, 2d"
    )
    wake = add_command(
        commands,
        "wake",
        _wake,
        description="Bring back the GPU nodes of a parked stack now. `tandem verify --wait` follows: it shows what is "
        "not ready yet, from the node to the model, until all models answer.",
        exit_codes={**CODES, 0: "all models answer; with --no-wait or --json, EKS accepted the change"},
    )
    add_stack(wake)
    add_profile(wake)
    wake.add_argument("--no-wait", action="store_true", help="end when EKS has accepted the change")


def minutes(text: str) -> int:
    """A duration such as `8h` or `1h30m`, in minutes."""
    parts = re.findall(r"(\d+)([dhm])", text)
    found = sum(int(number) * UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 1 <= found <= LONGEST_MINUTES:
        raise argparse.ArgumentTypeError(f"must be a time from 1m to 30d (for example 8h or 1h30m), not {text!r}")
    return found


def _park(parsed: argparse.Namespace) -> int:
    from tandem.deployed.aws import parking
    from tandem.deployed.aws.session import explained

    plan, account, pools = _deployed(parsed)
    if parsed.later is None:
        return _resize(parsed, plan, account, pools, {pool.name: 0 for pool in pools})
    when = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=parsed.later)).replace(microsecond=0)
    with explained(account.region), status("Adding schedules"):
        names = parking.park_at(account, plan.stack, when)
    if parsed.json:
        print_json({"schema_version": SCHEMA_VERSION, "stack": plan.stack, "at": when.isoformat(), "groups": names})
    else:
        open_console().print(f"{plan.stack} parks at {when:%Y-%m-%d %H:%M} UTC: {', '.join(names)}.")
    return FINE


def _wake(parsed: argparse.Namespace) -> int:
    plan, account, pools = _deployed(parsed)
    code = _resize(parsed, plan, account, pools, {pool.name: pool.most for pool in pools})
    if not (parsed.no_wait or parsed.json):
        parsed.then = ["verify", parsed.stack, "--wait"]
    return code


def _deployed(parsed: argparse.Namespace) -> "tuple[Plan, Account, list[PoolNodes]]":
    """The plan, its account, and the node groups of its pools. Raises `CallError` without the section `park`."""
    plan = accepted(parsed.stack)

    from tandem.deployed.aws import parking
    from tandem.deployed.aws.session import connect, explained

    if plan.setup.park is None:
        raise CallError(f"stack {plan.stack} has no section `park`, so `pulumi up` would undo it. {parking.SECTION}")
    if others := [pool.name for pool in plan.setup.pools if pool.provisioner == "karpenter"]:
        # Their nodes follow the models. A CronJob holds what to do.
        raise CallError(
            f"pool {others[0]} belongs to Karpenter. Run `kubectl create job --namespace ollama "
            f"--from=cronjob/tandem-parking-{parsed.command} {parsed.command}-now`."
        )
    account = connect(plan.config.region, parsed.profile or plan.config.profile, plan.config.assume_roles)
    with explained(account.region), status("Reading the node groups"):
        return plan, account, parking.find_pools(account, plan.stack)


def _resize(
    parsed: argparse.Namespace, plan: "Plan", account: "Account", pools: "list[PoolNodes]", sizes: dict[str, int]
) -> int:
    """Changes the groups whose size differs, if all of them are ready."""
    from tandem.deployed.aws import parking
    from tandem.deployed.aws.session import explained

    changing = [pool for pool in pools if pool.nodes != sizes[pool.name]]
    parking.refuse_unready(changing)
    with explained(account.region):
        for pool in changing:
            parking.resize(account, pool, sizes[pool.name])
    if parsed.json:
        changes = [{"group": pool.name, "was": pool.nodes, "nodes": sizes[pool.name]} for pool in pools]
        print_json({"schema_version": SCHEMA_VERSION, "stack": plan.stack, "groups": changes})
        return FINE
    out = open_console()
    for pool in pools:
        now = f"{pool.nodes} to {sizes[pool.name]} nodes" if pool in changing else f"{pool.nodes} nodes already"
        out.print(f"{pool.pool}: {now} ({pool.name})")
    return FINE
