"""`tandem chat`: its arguments."""

import argparse

from tandem.arguments import Commands, add_command, add_servers, amount, count, not_negative, whole

OPENING = "Introduce yourself in two sentences, then ask me a question about sharing resources."
TURNS = 6
MAX_TOKENS = 400
TIMEOUT = 300.0
"""Seconds: a server's first answer may have to wait until gigabytes of a model are loaded."""


def add(commands: Commands) -> None:
    """Registers `chat`."""
    parser = add_command(
        commands,
        "chat",
        _run,
        description="Let the two models talk to each other, and write the conversation to a Markdown file.",
        exit_codes={
            0: "all replies were received",
            1: "a model failed, the stack is refused, or full disk",
            130: "interrupted; the transcript is kept",
        },
        json="print one JSON object at the end instead",
    )
    add_servers(parser)
    parser.add_argument("--prompt", default=OPENING, metavar="TEXT", help=f"opening prompt (default: {OPENING!r})")
    parser.add_argument(
        "--turns", type=count, default=TURNS, metavar="N", help=f"total number of replies (default: {TURNS})"
    )
    parser.add_argument("--system", metavar="TEXT", help="system prompt of both models (default: the models' own)")
    parser.add_argument(
        "--temperature", type=not_negative, metavar="T", help="sampling temperature (default: the models' own)"
    )
    parser.add_argument("--seed", type=whole, metavar="N", help="sampling seed: the same seed repeats a conversation")
    parser.add_argument(
        "--max-tokens",
        type=count,
        default=MAX_TOKENS,
        metavar="N",
        help=f"maximum tokens per reply (default: {MAX_TOKENS})",
    )
    parser.add_argument(
        "--timeout",
        type=amount,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"seconds to wait for the next token (default: {TIMEOUT:.0f})",
    )
    parser.add_argument("--transcript", metavar="FILE", help="where to write (default: chat-DATE-TIME.md)")


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.chat.conversation import converse

    return converse(parsed)
