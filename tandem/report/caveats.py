"""What limits the figures of a report, and what its words mean."""

from collections.abc import Iterator, Sequence

from sharing.printable import counted
from tandem.bench_results.equal_load import EqualLoad
from tandem.bench_results.measures import GOOD_REPEATS
from tandem.bench_results.result import Result, Run
from tandem.bench_results.summary import EXCLUSIVE, Goals, Summary
from tandem.terminal import in_words

GOOD_REQUESTS = 300
"""A p99 of them rests on the three slowest."""
FASTER = 1.005
"""The least part of a model's own GPU that is shown as above 100%."""
ALL_OF_THE_GPU = (EXCLUSIVE, "timeslice")
"""Modes in which a model alone has all of the GPU."""


def caveats(results: Sequence[Result], shown: Sequence[Summary], rows: Sequence[EqualLoad]) -> Iterator[str]:
    """What a reader must know before relying on the figures."""
    for result, summary in zip(results, shown, strict=True):
        own = [row for row in rows if row.target == result.label]
        yield from (f"{result.label}: {caveat}" for caveat in _of_target(result, summary, own))
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


def _of_target(result: Result, summary: Summary, rows: Sequence[EqualLoad]) -> Iterator[str]:
    if summary.excluded:
        yield f"{len(summary.excluded)} of {counted(summary.runs, 'run')} excluded (see above)."
    if not result.complete:
        yield "stopped before its last run."
    if summary.errors:
        kinds = "; ".join(f"{often} × {error}" for error, often in sorted(summary.errors.items()))
        yield f"failed requests (excluded from latency figures): {kinds}."
    if few := [figure for figure in summary.figures if figure.repeats < GOOD_REPEATS]:
        yield f"{len(few)} of {counted(len(summary.figures), 'row')} have fewer than {GOOD_REPEATS} repeats."
    if summary.first_token_warning:
        yield summary.first_token_warning
    if summary.mode not in ALL_OF_THE_GPU and any(row.compared_with == summary.label for row in rows):
        yield (
            "it is compared with its own models alone. Under mps and mig they have only a part of the GPU, so its "
            f"percentages are too high. Add a result of {EXCLUSIVE}, on the same GPU."
        )
    if any(row.of_dedicated and row.remark for row in rows):
        yield (
            "rows with more requests than slots are not at equal load: one model works on fewer requests than several "
            "do, so sharing looks better than it is. Give the models more slots."
        )
    if any(model.of_own_gpu and model.of_own_gpu.median > FASTER for row in rows for model in row.models):
        yield (
            "over 100% of a model's own GPU means that it was faster together than alone. Sharing cannot cause that; "
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
        "Of the dedicated GPU",
        "tokens/s, compared with one model that has the GPU and all of its requests. Models may differ, so each is "
        "compared with itself, and the percentages are added up.",
    )
    yield (
        "Of its own GPU",
        "the tokens/s of a model among the others, compared with those alone on a GPU with its own requests only. The "
        "rest to 100% is what the model loses.",
    )
    yield "$ per million tokens", "hourly price divided by combined tokens per hour."
    yield (
        "Beyond run-to-run variation",
        "the confidence interval of the costs' ratio does not include 100%. It is Welch's t-interval of the repeats' "
        "logarithms. The intervals hold jointly at 95% confidence.",
    )
    if goals:
        yield "Good requests", f"first token within {goals.ttft_ms:g} ms and {goals.itl_ms:g} ms between tokens."
