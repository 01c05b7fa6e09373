"""`tandem open`: its arguments."""

import argparse

from tandem.arguments import Commands, add_cluster, add_command, add_stack
from tandem.terminal import FINE

PORT = 8080
"""Always the same, because a browser keeps a log-in by address and port."""


def add(commands: Commands) -> None:
    """Registers `open`."""
    parser = add_command(
        commands,
        "open",
        _run,
        description="Open the web page of a stack with the section `ui` in the browser. It is reachable at a local "
        "port until you press Ctrl-C.",
        json="print the addresses as one JSON object, and open no browser",
        exit_codes={
            0: "ended by Ctrl-C",
            1: "the page does not answer, or the stack is refused",
            2: "usage error, unreadable input, or the cluster cannot be reached",
            130: "interrupted before the page answered",
        },
    )
    add_stack(parser)
    add_cluster(parser)
    parser.add_argument(
        "--port", type=port, default=PORT, metavar="PORT", help=f"the local port (default: {PORT}; 0: any free port)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def port(text: str) -> int:
    """A TCP port, or 0."""
    if not (text.isascii() and text.isdecimal() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, not {text!r}")
    return int(text)


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.ui.page import show

    show(parsed)
    return FINE
