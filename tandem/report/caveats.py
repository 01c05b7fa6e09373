"""What limits the figures of a report, and what its words mean."""

from collections.abc import Iterator, Mapping, Sequence

from tandem.bench_results.measures import GOOD_REPEATS
from tandem.bench_results.result import Memory, Result
from tandem.bench_results.summary import Goals, Summary
from tandem.terminal import count, in_words

GOOD_REQUESTS = 300
"""A p99 of them rests on the three slowest."""
FASTER = 1.005
"""The least speed that is shown as above 100%."""


def caveats(results: Sequence[Result], shown: Sequence[Summary]) -> Iterator[str]:
    """What a reader must know before relying on the figures."""
    for result, one in zip(results, shown, strict=True):
        if one.excluded:
            yield f"{result.label}: {len(one.excluded)} of {count(one.runs, 'run')} excluded (see above)."
        if not result.complete:
            yield f"{result.label}: stopped before its last run."
        if one.errors:
            kinds = "; ".join(f"{often} × {error}" for error, often in sorted(one.errors.items()))
            yield f"{result.label}: failed requests (excluded from latency figures): {kinds}."
        few = [figure for figure in one.figures if figure.repeats < GOOD_REPEATS]
        if few:
            rows = count(len(one.figures), "row")
            yield f"{result.label}: {len(few)} of {rows} have fewer than {GOOD_REPEATS} repeats."
        if one.first_token_warning:
            yield f"{result.label}: {one.first_token_warning}"
        if any(shared.speed and shared.speed > FASTER for shared in one.sharing):
            yield (
                f"{result.label}: a speed above 100% means that models were faster together than alone. Sharing cannot "
                "cause that; run-to-run variation can."
            )
        moved = [
            endpoint
            for run in result.runs
            for endpoint in run.endpoints
            if _moved(run.memory_start, run.memory_end, endpoint)
        ]
        if moved:
            yield f"{result.label}: the memory of {in_words(sorted(set(moved)))} changed during a run: it was reloaded."
    for what, values in (
        ("Ollama's version", [{server.ollama for server in result.servers} for result in results]),
        ("The quantization", [{(server.id, server.quantization) for server in result.servers} for result in results]),
        ("The model file", [{(server.id, server.digest) for server in result.servers} for result in results]),
        (
            "The client's machine",
            [{(s.machine.processor, s.machine.cpus) for s in result.sessions} for result in results],
        ),
    ):
        if any(value != values[0] for value in values):
            yield f"{what} differs between the targets."
    requests = results[0].load.requests * results[0].load.repeats
    if requests < GOOD_REQUESTS:
        yield f"With {requests} requests, p99 is essentially the maximum. Use hundreds for a meaningful p99."
    yield "Times are measured at the client and include network latency."
    yield "Intervals cover the variation between repeats of one benchmark. Another node or day may differ by more."


def _moved(start: Mapping[str, Memory | None], end: Mapping[str, Memory | None], endpoint: str) -> bool:
    before, after = start.get(endpoint), end.get(endpoint)
    return before is not None and after is not None and before != after


def meanings(goals: Goals | None, *, parts: bool) -> Iterator[str]:
    """The words of the report; `parts`: with those of the time to first token."""
    yield "**Target**: what one result measured, usually a sharing mode."
    yield "**First token**: from sending a request to its first piece of text, or of thinking."
    if parts:
        yield (
            "**Waiting**: the part of the first token in which the server had no free slot, or evaluated the prompt of "
            "another request."
        )
        yield "**Prompt**: the part from the start of the prompt's evaluation, as the server reports it."
        yield (
            "**Rest**: what remains, such as the network, loading, or copies of prompt states. Above a third, the "
            "figures show more than the model's speed."
        )
    yield "**Between tokens** (inter-token latency): (request - first token) / (output tokens - 1), for each request."
    yield "**Gap**: the time between two consecutive pieces, which a reader sees as stutter."
    yield "**Request**: from sending a request to its last piece of text."
    yield "**Tokens/s**: output tokens divided by the time from the first request to the last answer."
    yield (
        "**Speed**: inter-token latency alone divided by together (median of a repeat, geometric mean of the models). "
        "Medians of the repeats are shown, so the average may lie outside those of the models."
    )
    yield "**Of the sum alone**: combined tokens/s divided by the sum of all models' tokens/s alone on the target."
    yield "**Fairness**: Jain's index of the part of its tokens/s that each model keeps. 100% means equal parts."
    yield "**$ per million tokens**: hourly price divided by combined tokens per hour."
    yield (
        "**Beyond run-to-run variation**: the confidence interval of the costs' ratio does not include 100%. It is "
        "Welch's t-interval of the repeats' logarithms. The intervals hold jointly at 95% confidence."
    )
    if goals:
        yield f"**Good requests**: first token within {goals.ttft_ms:g} ms and {goals.itl_ms:g} ms between tokens."
