"""The commands `verify` and `watch`: what they may be told, and who runs them. Cheap to import."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.calling import FAILED, FINE, Commands, accepted, add_stack, print_json, print_json_line, stack_file
from tandem.connection import NotConnectedError, add_cluster

if TYPE_CHECKING:
    from tandem.cluster.connection import Connected
    from tandem.cluster.patience import Patience

WAIT_SECONDS = 1800
"""How long `--wait` waits unless told: node, image and model come over a slow line."""
REFRESH_SECONDS = 2.0


def add(commands: Commands) -> None:
    """Adds both commands to the parser of `tandem`."""
    verifying = _command(
        commands,
        "verify",
        "after up: prove that the shares are real and that every model is whole on its GPU",
        "Holds what the plan promises against what is in the cluster: nodes, shares, pods, models. Nothing has to be "
        "public: ports are forwarded through the Kubernetes API.",
        "Exit codes: 0 every promise holds, 1 one is broken, 2 wrong call, or the cluster cannot be reached.",
        _verify,
    )
    verifying.add_argument(
        "--wait",
        nargs="?",
        type=_seconds,
        const=float(WAIT_SECONDS),
        metavar="SECONDS",
        help=f"look again until every promise holds and the cluster answers (default: {WAIT_SECONDS} s)",
    )
    verifying.add_argument(
        "--overfill", action="store_true", help="start one pod more than shares are free, show it Pending, remove it"
    )
    watching = _command(
        commands,
        "watch",
        "see live what the models, the GPUs and the pods do",
        "Shows memory, context and expiry of each model, memory and use of each GPU, and the state of the pods.",
        "Exit codes: 0 ended by Ctrl-C or --once, 1 the file is refused, 2 wrong call, or cluster not reached.",
        _watch,
    )
    watching.add_argument("--once", action="store_true", help="look once and end")
    watching.add_argument(
        "--interval",
        type=_seconds,
        default=REFRESH_SECONDS,
        metavar="SECONDS",
        help=f"pause between two looks (default: {REFRESH_SECONDS:g})",
    )
    watching.add_argument(
        "--probe", action="store_true", help="measure tokens/s with a tiny prompt at each look: takes GPU time"
    )


def _command(
    commands: Commands, name: str, what: str, description: str, exits: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=what, description=description, epilog=exits)
    add_stack(parser)
    add_cluster(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.set_defaults(run=run)
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


_seconds.__name__ = "number of seconds"  # argparse's "invalid … value"


def _verify(parsed: argparse.Namespace) -> int:
    from tandem.cluster import screen, verify
    from tandem.cluster.patience import Patience

    with screen.progress(quiet=parsed.json) as tell:
        patience = Patience(parsed.wait or 0, tell=tell)
        with reached(parsed, patience) as connected:
            verdict = verify.verify(connected, patience=patience, overfill=parsed.overfill)
    if parsed.json:
        print_json(verdict.as_dict())
    else:
        screen.verdict(verdict)
    return FINE if verdict.holds else FAILED


def _watch(parsed: argparse.Namespace) -> int:
    from tandem.cluster import screen, watch

    with reached(parsed) as connected:
        looks = watch.looks(connected, probe=parsed.probe, interval=parsed.interval, once=parsed.once)
        # Ctrl-C is how one leaves it.
        with suppress(KeyboardInterrupt), closing(looks):
            if parsed.json:
                for look in looks:
                    print_json_line(look.as_dict())
            else:
                screen.live(looks)
    return FINE


@contextmanager
def reached(parsed: argparse.Namespace, patience: "Patience | None" = None) -> "Iterator[Connected]":
    """The stack that the arguments mean; raises what `tandem.calling.accepted` raises, and `NotConnectedError`."""
    if parsed.context and parsed.kubeconfig is None:
        raise NotConnectedError("--context chooses in a kubeconfig: give --kubeconfig FILE as well.")
    judged = accepted(parsed.stack)

    from tandem.cluster import connection
    from tandem.cluster.promise import promised

    promise = promised(judged)
    if parsed.kubeconfig is not None:
        way = connection.by_kubeconfig(Path(parsed.kubeconfig), parsed.context)
    else:
        way = connection.by_pulumi(judged.stack, stack_file(parsed.stack))
    with connection.connect(promise, way, patience) as connected:
        yield connected
