"""What limits the figures of a report, and what its words mean."""

from collections.abc import Iterator, Sequence

from tandem.bench_results.measures import GOOD_REPEATS
from tandem.bench_results.result import Result, Run
from tandem.bench_results.summary import Goals, Summary
from tandem.terminal import count, in_words

GOOD_REQUESTS = 300
"""A p99 of them rests on the three slowest."""
FASTER = 1.005
"""The least speed that is shown as above 100%."""


def caveats(results: Sequence[Result], shown: Sequence[Summary]) -> Iterator[str]:
    """What a reader must know before relying on the figures."""
    for result, summary in zip(results, shown, strict=True):
        yield from (f"{result.label}: {caveat}" for caveat in _of_target(result, summary))
    for what, values in (
        ("Ollama's version", [{server.ollama for server in result.servers} for result in results]),
        ("The quantization", [{(server.id, server.quantization) for server in result.servers} for result in results]),
        ("The model file", [{(server.id, server.digest) for server in result.servers} for result in results]),
        (
            "The client's machine",
            [(result.session.machine.processor, result.session.machine.cpus) for result in results],
        ),
    ):
        if any(value != values[0] for value in values):
            yield f"{what} differs between the targets."
    requests = results[0].load.requests * results[0].load.repeats
    if requests < GOOD_REQUESTS:
        yield f"With {requests} requests, p99 is essentially the maximum. Use hundreds for a meaningful p99."
    yield "Times are measured at the client and include network latency."
    yield "Intervals cover the variation between repeats of one benchmark. Another node or day may differ by more."


def _of_target(result: Result, summary: Summary) -> Iterator[str]:
    if summary.excluded:
        yield f"{len(summary.excluded)} of {count(summary.runs, 'run')} excluded (see above)."
    if not result.complete:
        yield "stopped before its last run."
    if summary.errors:
        kinds = "; ".join(f"{often} × {error}" for error, often in sorted(summary.errors.items()))
        yield f"failed requests (excluded from latency figures): {kinds}."
    if few := [figure for figure in summary.figures if figure.repeats < GOOD_REPEATS]:
        rows = count(len(summary.figures), "row")
        yield f"{len(few)} of {rows} have fewer than {GOOD_REPEATS} repeats."
    if summary.first_token_warning:
        yield summary.first_token_warning
    if any(shared.speed and shared.speed > FASTER for shared in summary.sharing):
        yield (
            "a speed above 100% means that models were faster together than alone. Sharing cannot cause that; "
            "run-to-run variation can."
        )
    if moved := {endpoint for run in result.runs for endpoint in run.endpoints if _moved(run, endpoint)}:
        yield f"the memory of {in_words(sorted(moved))} changed during a run: it was reloaded."


def _moved(run: Run, endpoint: str) -> bool:
    before, after = run.memory_start.get(endpoint), run.memory_end.get(endpoint)
    return before is not None and after is not None and before != after


def meanings(goals: Goals | None, *, parts: bool) -> Iterator[tuple[str, str]]:
    """The words of the report; `parts`: with those of the time to first token."""
    yield "Target", "what one result measured, usually a sharing mode."
    yield "First token", "from sending a request to its first piece of text, or of thinking."
    if parts:
        yield (
            "Waiting",
            "the part of the first token in which the server had no free slot, or evaluated the prompt of another "
            "request.",
        )
        yield "Prompt", "the part from the start of the prompt's evaluation, as the server reports it."
        yield (
            "Rest",
            "what remains, such as the network, loading, or copies of prompt states. Above a third, the figures show "
            "more than the model's speed.",
        )
    yield (
        "Between tokens",
        "inter-token latency: (request - first token) / (output tokens - 1), for each request.",
    )
    yield "Gap", "the time between two consecutive pieces, which a reader sees as stutter."
    yield "Request", "from sending a request to its last piece of text."
    yield "Tokens/s", "output tokens divided by the time from the first request to the last answer."
    yield (
        "Speed",
        "inter-token latency alone divided by together (median of a repeat, geometric mean of the models). Medians of "
        "the repeats are shown, so the average may lie outside those of the models.",
    )
    yield "Of the sum alone", "combined tokens/s divided by the sum of all models' tokens/s alone on the target."
    yield "Fairness", "Jain's index of the part of its tokens/s that each model keeps. 100% means equal parts."
    yield "$ per million tokens", "hourly price divided by combined tokens per hour."
    yield (
        "Beyond run-to-run variation",
        "the confidence interval of the costs' ratio does not include 100%. It is Welch's t-interval of the repeats' "
        "logarithms. The intervals hold jointly at 95% confidence.",
    )
    if goals:
        yield "Good requests", f"first token within {goals.ttft_ms:g} ms and {goals.itl_ms:g} ms between tokens."
