"""`tandem watch`: its arguments, and how it answers."""

import argparse
from contextlib import closing, suppress

from tandem.arguments import Commands, add_cluster, add_command, add_stack, not_negative
from tandem.terminal import FINE, print_json

REFRESH_SECONDS = 2.0


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "watch",
        _run,
        description="Show memory, context and expiry of each model, memory and utilization of each GPU, and the "
        "state of the pods. Under MPS with equal limits, report each model that runs outside it. With limits per "
        "model, such a model is only not ready.",
        json="print one JSON object per refresh instead",
        exit_codes={
            0: "ended by Ctrl-C or --once",
            2: "usage error, unreadable input, or the cluster cannot be reached",
            130: "interrupted before the first refresh",
        },
    )
    add_stack(parser)
    add_cluster(parser)
    parser.add_argument("--once", action="store_true", help="print one snapshot and exit")
    parser.add_argument(
        "--interval",
        type=not_negative,
        default=REFRESH_SECONDS,
        metavar="SECONDS",
        help=f"pause between two refreshes (default: {REFRESH_SECONDS:g})",
    )
    parser.add_argument(
        "--probe", action="store_true", help="measure tokens/s with a short prompt on every refresh (uses GPU time)"
    )


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.deployed import connection
    from tandem.watch import screen, watch

    with connection.reached(parsed) as connected:
        looks = watch.looks(connected, probe=parsed.probe, interval=parsed.interval, once=parsed.once)
        # Users leave it with Ctrl-C.
        with suppress(KeyboardInterrupt), closing(looks):
            if parsed.json:
                for look in looks:
                    print_json(look.as_dict(), compact=True)
            else:
                screen.live(looks)
    return FINE
