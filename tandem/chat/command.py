"""`tandem chat`: its arguments."""

import argparse

from tandem.arguments import add_servers, amount, count
from tandem.terminal import Commands

OPENING = "Introduce yourself in two sentences, then ask me a question about sharing things."
TURNS = 6
MAX_TOKENS = 400
TIMEOUT = 300.0
"""Seconds: a server's first answer may have to wait until gigabytes of a model are loaded."""


def add(commands: Commands) -> None:
    """Registers `chat`."""
    parser = commands.add_parser(
        "chat",
        description="The two models talk to each other. What they say is kept in a Markdown file.",
        epilog="Exit codes: 0 all turns done, 1 a model failed, the disk is full, or the file is refused, 2 wrong "
        "call, 130 stopped with Ctrl-C.",
    )
    add_servers(parser)
    parser.add_argument("--prompt", default=OPENING, metavar="TEXT", help="prompt of the first model")
    parser.add_argument("--turns", type=count, default=TURNS, metavar="N", help=f"answers in all (default: {TURNS})")
    parser.add_argument("--system", metavar="TEXT", help="system prompt for both")
    parser.add_argument("--temperature", type=float, metavar="T", help="the models' own when absent")
    parser.add_argument("--seed", type=int, metavar="N", help="with the same seed the same models say the same")
    parser.add_argument(
        "--max-tokens",
        type=count,
        default=MAX_TOKENS,
        metavar="N",
        help=f"at which an answer is cut (default: {MAX_TOKENS})",
    )
    parser.add_argument(
        "--timeout",
        type=amount,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"give up on a server that sends nothing new for this long (default: {TIMEOUT:.0f})",
    )
    parser.add_argument("--transcript", metavar="FILE", help="where to write (default: chat-DATE-TIME.md)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end instead")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.chat.conversation import converse

    return converse(parsed)
