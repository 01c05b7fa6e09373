"""`tandem bench`: its arguments."""

import argparse

from tandem.arguments import Commands, add_command, add_servers, amount, amounts, count, counts, not_negative, whole

PROMPT_WORDS = "64,512"
FEWEST_WORDS = 8
"""With a vocabulary of 200 words, no two of many thousand prompts are equal."""
CONCURRENCY = "1,2,4,8"
"""Each level has its double: two models at 4 are compared with one model at 8."""
OUTPUT_TOKENS, REQUESTS, WARM_UP, REPEATS = 128, 12, 1, 3
TIMEOUT = 300.0


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "bench",
        _run,
        description="Put the same load on each model alone, then on all models at once. Write the times of every "
        "request to a JSON file for `tandem report`. The file is valid after every run.",
        exit_codes={
            0: "all requests were answered",
            1: "requests failed, a model is not on the GPU, the stack is refused, or full disk",
            130: "interrupted",
        },
        json="print the summary as one JSON object",
    )
    add_servers(parser)
    load = parser.add_argument_group("load (reports compare only results of the same load)")
    load.add_argument(
        "--prompt-words",
        type=_prompt_words,
        default=counts(PROMPT_WORDS),
        metavar="N,N",
        help=f"words per prompt, at least {FEWEST_WORDS} (default: {PROMPT_WORDS})",
    )
    load.add_argument(
        "--output-tokens",
        type=count,
        default=OUTPUT_TOKENS,
        metavar="N",
        help=f"maximum tokens per reply (default: {OUTPUT_TOKENS})",
    )
    load.add_argument(
        "--concurrency",
        type=counts,
        default=counts(CONCURRENCY),
        metavar="N,N",
        help=f"closed loop: requests in flight per model (default: {CONCURRENCY})",
    )
    load.add_argument(
        "--rate",
        type=amounts,
        default=[],
        metavar="R,R",
        help="open loop: requests per second and model, at random moments (default: no open loop). A rate above the "
        "server's capacity measures its queue",
    )
    load.add_argument(
        "--requests",
        type=count,
        default=REQUESTS,
        metavar="N",
        help=f"requests per run and model (default: {REQUESTS})",
    )
    load.add_argument(
        "--warm-up",
        type=count,
        default=WARM_UP,
        metavar="N",
        help=f"uncounted requests before each run, at least 1 (default: {WARM_UP})",
    )
    load.add_argument(
        "--repeats",
        type=count,
        default=REPEATS,
        metavar="N",
        help=f"repeats of each run; fewer than {REPEATS} prove little (default: {REPEATS})",
    )
    load.add_argument("--seed", type=whole, default=1, metavar="N", help="seed of all random choices (default: 1)")
    load.add_argument(
        "--temperature", type=not_negative, default=0.0, metavar="T", help="sampling temperature (default: 0)"
    )
    load.add_argument(
        "--timeout",
        type=amount,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"longest time that a request may take (default: {TIMEOUT:.0f})",
    )
    parser.add_argument("--label", metavar="TEXT", help="name of this target in reports (default: the stack's mode)")
    parser.add_argument(
        "--usd-per-hour", type=amount, metavar="USD", help="price of the target per hour (default: the stack's plan)"
    )
    parser.add_argument(
        "--salt",
        metavar="TEXT",
        help="reuse the prompts of an earlier result; the server may have cached them (default: new prompts)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the result (default: bench-LABEL-DATE-TIME.json)")
    parser.add_argument(
        "--export",
        choices=["vllm"],
        metavar="FORMAT",
        help="also write a file per model, beside r.json as r-MODEL.vllm.jsonl: vllm = as `vllm bench serve` does",
    )
    parser.add_argument(
        "--share",
        action="store_true",
        help="also write an anonymous file for the project, beside r.json as r.share.json; needs a stack",
    )
    parser.add_argument(
        "--allow-cpu", action="store_true", help="also measure models outside the GPU; reports do not compare them"
    )


def _prompt_words(text: str) -> list[int]:
    words = counts(text)
    if words[0] < FEWEST_WORDS:
        raise argparse.ArgumentTypeError(f"must be at least {FEWEST_WORDS}, not {words[0]}")
    return words


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.bench.measuring import measure

    return measure(parsed)
