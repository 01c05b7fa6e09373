"""`tandem verify`: its arguments, and how it answers."""

import argparse

from tandem.arguments import Commands, add_cluster, add_command, add_stack, not_negative
from tandem.terminal import FAILED, FINE, print_json, progress

WAIT_SECONDS = 1800
"""Default of `--wait`: node, image and model may take long on a slow network."""


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "verify",
        _run,
        description="Compare the deployed stack with its configuration: nodes, GPU shares, pods, models. Forward "
        "ports through the Kubernetes API, so nothing has to be public. Under MPS with equal limits, report each model "
        "that runs outside it. With limits per model, compare the variables and the mount of each pod with the plan; "
        "a model outside MPS is only not ready.",
        exit_codes={
            0: "no check fails",
            1: "a check fails, or the stack is refused",
            2: "usage error, unreadable input, or the cluster cannot be reached",
        },
    )
    add_stack(parser)
    add_cluster(parser)
    parser.add_argument(
        "--wait",
        nargs="?",
        type=not_negative,
        const=float(WAIT_SECONDS),
        metavar="SECONDS",
        help=f"retry until every check passes, for up to SECONDS (default: {WAIT_SECONDS})",
    )
    parser.add_argument(
        "--overfill",
        action="store_true",
        help="start one pod more than there are free shares, and check that it stays Pending",
    )


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.deployed import connection
    from tandem.deployed.patience import Patience
    from tandem.verify import screen, verify

    with progress(quiet=parsed.json) as report:
        patience = Patience(parsed.wait or 0, tell=report)
        with connection.reached(parsed, patience) as connected:
            verdict = verify.verify(connected, patience=patience, overfill=parsed.overfill)
    if parsed.json:
        print_json(verdict.as_dict())
    else:
        screen.verdict(verdict)
    return FINE if verdict.holds else FAILED
