"""`tandem watch`: its arguments, and how it answers."""

import argparse
from contextlib import closing, suppress

from tandem.arguments import add_cluster, add_stack, seconds
from tandem.terminal import FINE, Commands, add_command, print_json_line

REFRESH_SECONDS = 2.0


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "watch",
        _run,
        description="Shows memory, context and expiry of each model, memory and use of each GPU, and the state of the "
        "pods.",
        json="print one JSON object per look instead",
        exit_codes="Exit codes: 0 ended by Ctrl-C or --once, 1 the file is refused, 2 wrong call, or cluster not "
        "reached.",
    )
    add_stack(parser)
    add_cluster(parser)
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.add_argument(
        "--interval",
        type=seconds,
        default=REFRESH_SECONDS,
        metavar="SECONDS",
        help=f"pause between two looks (default: {REFRESH_SECONDS:g})",
    )
    parser.add_argument(
        "--probe", action="store_true", help="measure tokens/s with a tiny prompt at each look: takes GPU time"
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
                    print_json_line(look.as_dict())
            else:
                screen.live(looks)
    return FINE
