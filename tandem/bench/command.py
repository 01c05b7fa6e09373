"""`tandem bench`: its arguments."""

import argparse

from tandem.arguments import add_servers, amount, amounts, count, counts
from tandem.terminal import Commands

PROMPT_WORDS = "64,512"
FEWEST_WORDS = 8
"""From a vocabulary of 200 words, so that no two of many thousand prompts are equal."""
CONCURRENCY = "1,4"
OUTPUT_TOKENS, REQUESTS, WARM_UP, REPEATS = 128, 12, 1, 3
TIMEOUT = 300.0


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = commands.add_parser(
        "bench",
        description="Puts the same load on each model alone, then on all at once, and keeps every request's times in a "
        "JSON file, which `tandem report` reads. The file is whole after each run.",
        epilog="Exit codes: 0 all requests answered, 1 some failed, or a model is not on the GPU, or the disk is full, "
        "2 wrong call, 130 stopped with Ctrl-C.",
    )
    add_servers(parser)
    load = parser.add_argument_group("the load; results are compared only if it is the same")
    load.add_argument(
        "--prompt-words",
        type=_prompt_words,
        default=counts(PROMPT_WORDS),
        metavar="N,N",
        help=f"words of a prompt, at least {FEWEST_WORDS} ({PROMPT_WORDS})",
    )
    load.add_argument(
        "--output-tokens", type=count, default=OUTPUT_TOKENS, metavar="N", help=f"at most ({OUTPUT_TOKENS})"
    )
    load.add_argument(
        "--concurrency",
        type=counts,
        default=counts(CONCURRENCY),
        metavar="N,N",
        help=f"closed loop: requests at a time for each model ({CONCURRENCY})",
    )
    load.add_argument(
        "--rate",
        type=amounts,
        default=[],
        metavar="R,R",
        help="open loop: requests a second for each model, at random moments (none; a rate above what the "
        "server can do measures its queue)",
    )
    load.add_argument(
        "--requests", type=count, default=REQUESTS, metavar="N", help=f"of a run, for each model ({REQUESTS})"
    )
    load.add_argument(
        "--warm-up",
        type=count,
        default=WARM_UP,
        metavar="N",
        help=f"before each run, uncounted, at least 1 ({WARM_UP})",
    )
    load.add_argument("--repeats", type=count, default=REPEATS, metavar="N", help=f"({REPEATS}; fewer prove little)")
    load.add_argument("--seed", type=int, default=1, metavar="N", help="(1)")
    load.add_argument("--temperature", type=float, default=0.0, metavar="T", help="(0)")
    load.add_argument(
        "--timeout", type=amount, default=TIMEOUT, metavar="SECONDS", help=f"of a request ({TIMEOUT:.0f})"
    )
    parser.add_argument("--label", help="what reports call this target (default: the stack's mode)")
    parser.add_argument(
        "--usd-per-hour", type=amount, metavar="X", help="what the target costs (default: the stack's plan)"
    )
    parser.add_argument(
        "--salt", help="the prompts of an earlier result; servers may have seen them (default: new ones)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the result (default: bench-LABEL-DATE-TIME.json)")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted benchmark")
    parser.add_argument(
        "--allow-cpu", action="store_true", help="measure models outside the GPU, too; reports do not compare them"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    parser.set_defaults(run=_run)


def _prompt_words(text: str) -> list[int]:
    words = counts(text)
    if words[0] < FEWEST_WORDS:
        raise argparse.ArgumentTypeError(f"must be at least {FEWEST_WORDS} (got {words[0]})")
    return words


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.bench.measuring import measure

    return measure(parsed)
