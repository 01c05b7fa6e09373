"""`tandem run` and `tandem chat`: their arguments."""

import argparse

from tandem.arguments import (
    Commands,
    add_cluster,
    add_command,
    add_profile,
    add_servers,
    add_stack,
    amount,
    count,
    not_negative,
    whole,
)

OPENING = "Introduce yourself in two sentences, then ask me a question about sharing resources."
TURNS = 6
MAX_TOKENS = 400
TIMEOUT = 300.0
"""Seconds: a server's first answer may have to wait until gigabytes of a model are loaded."""


def add(commands: Commands) -> None:
    """Registers `run` and `chat`."""
    _add_run(commands)
    _add_chat(commands)


def _add_run(commands: Commands) -> None:
    parser = add_command(
        commands,
        "run",
        _run,
        description="Talk to a model of a deployed stack, as `ollama run` does with a local one. With a prompt or "
        "piped text, print one answer. A parked or sleeping model is woken if you agree. At the end, show what the "
        "session cost.",
        exit_codes={
            0: "the prompt was answered, or you left",
            1: "the last answer failed, the model was not woken, or the stack is refused",
            2: "usage error, unreadable input, or the cluster or AWS did not answer",
            130: "interrupted; what is starting keeps starting",
        },
        json="print the answer to one prompt, its tokens and its cost as one JSON object",
    )
    add_stack(parser, default=False)
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL|ID",
        help="a model of the stack, by its tag or `id` (default: the first that generates text)",
    )
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="answer this once (default: the piped text, or a conversation)"
    )
    parser.add_argument("--yes", action="store_true", help="wake a parked or sleeping model without a question")
    add_cluster(parser)
    add_profile(parser)
    parser.add_argument("--system", metavar="TEXT", help="system prompt (default: the model's own)")
    _add_options(parser, of="the model's own", tokens=None)


def _add_chat(commands: Commands) -> None:
    parser = add_command(
        commands,
        "chat",
        _chat,
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
    _add_options(parser, of="the models' own", tokens=MAX_TOKENS)
    parser.add_argument("--transcript", metavar="FILE", help="where to write (default: chat-DATE-TIME.md)")


def _add_options(parser: argparse.ArgumentParser, *, of: str, tokens: int | None) -> None:
    """The arguments of both commands; `of` says whose temperature is the default, `tokens` is that of a reply."""
    parser.add_argument("--temperature", type=not_negative, metavar="T", help=f"sampling temperature (default: {of})")
    parser.add_argument("--seed", type=whole, metavar="N", help="sampling seed: the same seed repeats a conversation")
    parser.add_argument(
        "--max-tokens",
        type=count,
        default=tokens,
        metavar="N",
        help=f"maximum tokens per reply (default: {tokens or 'what the context has room for'})",
    )
    parser.add_argument(
        "--timeout",
        type=amount,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"seconds to wait for the next token (default: {TIMEOUT:.0f})",
    )


def _chat(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.chat.conversation import converse

    return converse(parsed)


def _run(parsed: argparse.Namespace) -> int:
    from tandem.chat.session import run

    return run(parsed)
