"""`tandem verify`: its arguments, and how it answers."""

import argparse

from tandem.arguments import add_cluster, add_stack, seconds
from tandem.terminal import FAILED, FINE, Commands, add_command, print_json, progress

WAIT_SECONDS = 1800
"""Default of `--wait`: node, image and model may take long on a slow network."""


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "verify",
        _run,
        description="Holds what the plan promises against what is in the cluster: nodes, shares, pods, models. Nothing "
        "has to be public: ports are forwarded through the Kubernetes API.",
        exit_codes="Exit codes: 0 every promise holds, 1 one is broken, 2 wrong call, or the cluster cannot be "
        "reached.",
    )
    add_stack(parser)
    add_cluster(parser)
    parser.add_argument(
        "--wait",
        nargs="?",
        type=seconds,
        const=float(WAIT_SECONDS),
        metavar="SECONDS",
        help=f"look again until every promise holds and the cluster answers (default: {WAIT_SECONDS} s)",
    )
    parser.add_argument(
        "--overfill", action="store_true", help="start one pod more than shares are free, show it Pending, remove it"
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
