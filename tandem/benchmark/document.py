"""A report in Markdown, for somebody who was not there: the answer first, then what it rests on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tandem.benchmark.measures import GOOD_REPEATS, Span, Spread
from tandem.benchmark.result import Memory, Result
from tandem.benchmark.summary import Figures, Goals, Sharing, Summary, Workload
from tandem.markdown import as_code, change_text, in_markdown

MIB = 2**20


def document(
    results: Sequence[Result], told: Sequence[Summary], plots: Mapping[str, str], goals: Goals | None = None
) -> str:
    """The whole text; `plots` are file names with what they show. A result may come from anybody."""
    results, told = [_in_markdown(result) for result in results], change_text(list(told), in_markdown)
    parts = [
        f"# {_title(results)}",
        *_answer(told),
        "## What was run",
        *_setup(results),
        *_excluded(told),
        *(part for name, title in plots.items() for part in (f"## {title}", f"![{title}]({name})")),
        *_sharing(told),
        *_figures(told, goals),
        *_fit(results),
        "## Before you rely on it",
        _bullets(_doubts(results, told)),
        "## What the words mean",
        _bullets(_meanings(goals)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _in_markdown(result: Result) -> Result:
    """Without the rows, which no text needs and which are many."""
    short = replace(result, runs=[replace(run, rows=[]) for run in result.runs])
    return replace(change_text(short, in_markdown), command=result.command)


def _title(results: Sequence[Result]) -> str:
    models = " and ".join(server.model for server in results[0].servers)
    return f"{models}: {' against '.join(result.label for result in results)}"


def _answer(told: Sequence[Summary]) -> Iterator[str]:
    """One sentence for each target at the same, heaviest closed load, and who is cheaper."""
    common = reference(told)
    if common is None:
        if any(one.figures for one in told):
            yield "Alone and together were not both measured under one load, so this says nothing about sharing."
        else:
            yield "**No run can be compared**, so there is no answer here. Why, stands below."
        return
    shared = [(one.label, next(s for s in one.sharing if s.workload == common)) for one in told]
    yield f"With {common}, for each model:"
    yield _bullets(_sentence(label, one) for label, one in shared)
    yield from _cheaper([(label, one.usd_per_million) for label, one in shared if one.usd_per_million])


def reference(told: Sequence[Summary]) -> Workload | None:
    """The workload that the answer is about: in all results, closed before open, shortest prompts, highest level."""
    common = set.intersection(*({shared.workload for shared in one.sharing} for one in told))
    return min(common, key=lambda one: (one.loop, one.prompt_words, -one.level), default=None)


def _sentence(label: str, one: Sharing) -> str:
    each = ", ".join(f"{endpoint} {1 / slower:.2f}" for endpoint, slower in one.slowdown.items())
    cost = f", ${one.usd_per_million:.2f} per million output tokens" if one.usd_per_million else ""
    speed = f" at **{one.speed:.2f}** of the speed that each has alone ({each})" if one.speed else ""
    return (
        f"**{label}** served the models together{speed}: "
        f"{one.tokens_per_s:.1f} tokens/s in all, {one.throughput_ratio:.2f} of what a GPU for each would give{cost}."
    )


def _cheaper(costs: Sequence[tuple[str, float]]) -> Iterator[str]:
    if len(costs) < 2:
        return
    ordered = sorted(costs, key=lambda cost: cost[1])
    (label, least), others = ordered[0], ordered[1:]
    told = ", ".join(f"{1 - least / cost:.0%} cheaper per token than {other}" for other, cost in others)
    yield f"**{label}** is {told}."


def _setup(results: Sequence[Result]) -> Iterator[str]:
    load = results[0].load
    yield _table(
        ("target", "GPU", "Ollama", "$ an hour", "measured (UTC)", "tandem", "runs"),
        (
            (
                result.label, _gpu(result), ", ".join(sorted({server.ollama for server in result.servers})),
                f"{result.usd_per_hour:.4f}" if result.usd_per_hour else "not given",
                f"{result.begun[:16].replace('T', ' ')} to {result.ended[11:16]}",
                result.versions.get("tandem", ""),
                f"{len(result.runs)}{'' if result.complete else ' (stopped early)'}",
            )
            for result in results
        ),
    )  # fmt: skip
    yield _table(
        ("model", "as", "parameters", "quantization"),
        ((server.model, server.id, server.parameter_size, server.quantization) for server in results[0].servers),
    )
    levels = [
        *(f"{level} requests at a time" for level in load.concurrency),
        *(f"{rate:g} requests a second at random moments" for rate in load.rates),
    ]
    yield (
        f"Load, the same for all: prompts of {_listed(load.prompt_words)} words, different from the first word on; "
        f"at most {load.output_tokens} output tokens; for each model {_listed(levels)}; {load.requests} requests a run "
        f"and {load.warmup} before it to warm up; {load.repeats} repeats; temperature {load.temperature:g}, "
        f"seed {load.seed}. "
        "Each model was asked alone, with the other loaded and idle, then all at once; whichever was done first got "
        "more of the same until the others were done as well."
    )
    for result in results:
        machine = result.machine
        yield (
            f"{result.label}: {as_code(' '.join(result.command))}, from a client with "
            f"{machine.cpus} × {machine.processor}, {machine.system}, Python {machine.python}."
        )


def _gpu(result: Result) -> str:
    pools = (result.plan or {}).get("pools") or []
    return ", ".join(f"{pool['nodes']} × {pool['gpu']['name']}" for pool in pools) or "not said"


def _excluded(told: Sequence[Summary]) -> Iterator[str]:
    if not any(one.excluded for one in told):
        return
    yield "## Runs that are not compared"
    for one in told:
        if one.excluded:
            yield f"{one.label}: {len(one.excluded)} of {one.runs}."
            yield _bullets(f"{name}: {'; '.join(reasons)}" for name, reasons in one.excluded)


def _sharing(told: Sequence[Summary]) -> Iterator[str]:
    rows = [
        (
            one.label, str(shared.workload), f"{shared.speed:.2f}" if shared.speed else "–",
            ", ".join(f"{endpoint} × {ratio:.2f}" for endpoint, ratio in shared.slowdown.items()),
            ", ".join(f"{endpoint} × {ratio:.2f}" for endpoint, ratio in shared.ttft_ratio.items()),
            f"{shared.tokens_per_s:.1f}", f"{shared.throughput_ratio:.2f}", f"{shared.fairness:.3f}",
            f"{shared.usd_per_million:.2f}" if shared.usd_per_million else "–",
        )
        for one in told
        for shared in one.sharing
    ]  # fmt: skip
    if rows:
        yield "## What being together costs"
        yield _table(
            (
                "target", "load", "speed", "inter-token latency", "first token p95", "tokens/s", "of a GPU each",
                "fairness", "$ per million tokens",
            ),
            rows,
        )  # fmt: skip


def _figures(told: Sequence[Summary], goals: Goals | None) -> Iterator[str]:
    workloads = dict.fromkeys(figure.workload for one in told for figure in one.figures)
    for number, workload in enumerate(workloads):
        if number == 0:
            yield "## All figures"
            yield "Milliseconds: p50 / p95 / p99 of the requests of all repeats. Tokens/s: the median of the repeats."
        yield f"### {workload[0]} words, {str(workload).split(', ', 1)[1]}"
        head = ["target", "model", "first token", "between tokens", "gap p99", "request", "tokens/s", "failed"]
        yield _table(
            [*head, *(["good requests/s"] if goals else [])],
            (
                [one.label, *_row(figure, goals)]
                for one in told
                for figure in one.figures
                if figure.workload == workload
            ),
        )


def _row(one: Figures, goals: Goals | None) -> list[str]:
    return [
        f"{one.endpoint} {'together' if one.together else 'alone'}",
        _three(one.ttft_ms),
        _three(one.itl_ms),
        _number(one.gap_ms.p99) if one.gap_ms else "–",
        _three(one.latency_ms),
        _range(one.tokens_per_s),
        f"{one.errors} of {one.requests}",
        *([_range(one.goodput, 2)] if goals else []),
    ]


def _fit(results: Sequence[Result]) -> Iterator[str]:
    rows = [
        (
            result.label, model["id"], f"{model['needs_mib']:,}",
            f"{model['share_mib']:,}" if model["share_mib"] is not None else "the rest of the card",
            *_measured(result, model["id"]),
        )
        for result in results
        for model in (result.plan or {}).get("models") or []
    ]  # fmt: skip
    if rows:
        yield "## The plan beside it"
        yield "MiB. What the plan says a model needs holds the engine's own buffers, which Ollama does not count."
        yield _table(("target", "model", "planned need", "may use", "loaded", "of that on the GPU"), rows)


def _measured(result: Result, endpoint: str) -> tuple[str, str]:
    seen = [
        memory
        for run in result.runs
        for memory in (run.memory_start.get(endpoint), run.memory_end.get(endpoint))
        if memory is not None
    ]
    if not seen:
        return "not seen", "not seen"
    return _between([_size(one.size) for one in seen]), _between([_size(one.size_vram) for one in seen])


def _size(size: int) -> int:
    return round(size / MIB)


def _between(sizes: Sequence[int]) -> str:
    least, most = min(sizes), max(sizes)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _doubts(results: Sequence[Result], told: Sequence[Summary]) -> Iterator[str]:
    for result, one in zip(results, told, strict=True):
        if one.excluded:
            yield f"{result.label}: {len(one.excluded)} of {one.runs} runs are left out (see above)."
        if not result.complete:
            yield f"{result.label}: stopped before its last run."
        if one.errors:
            kinds = "; ".join(f"{often} × {error}" for error, often in sorted(one.errors.items()))
            yield f"{result.label}: failed requests, which are in no time: {kinds}."
        few = [figure for figure in one.figures if figure.repeats < GOOD_REPEATS]
        if few:
            yield f"{result.label}: {len(few)} rows rest on fewer than {GOOD_REPEATS} repeats."
        moved = [
            endpoint
            for run in result.runs
            for endpoint in run.endpoints
            if _moved(run.memory_start, run.memory_end, endpoint)
        ]
        if moved:
            yield f"{result.label}: {_listed(sorted(set(moved)))} was loaded anew during a run: its memory changed."
    for what, values in (
        ("Ollama's version", [{server.ollama for server in result.servers} for result in results]),
        ("the quantization", [{(server.id, server.quantization) for server in result.servers} for result in results]),
        ("the client's machine", [{(result.machine.processor, result.machine.cpus)} for result in results]),
    ):
        if any(value != values[0] for value in values):
            yield f"{what[0].upper()}{what[1:]} differs between the targets."
    requests = results[0].load.requests * results[0].load.repeats
    yield f"A p99 of {requests} requests is close to the slowest of them: it wants hundreds."
    yield "Times are the client's: the way to the server is in them."


def _moved(start: Mapping[str, Memory | None], end: Mapping[str, Memory | None], endpoint: str) -> bool:
    before, after = start.get(endpoint), end.get(endpoint)
    return before is not None and after is not None and before != after


def _meanings(goals: Goals | None) -> Iterator[str]:
    yield "**First token**: from sending a request to its first piece of text, or of thinking."
    yield "**Between tokens** (inter-token latency): (request - first token) / (output tokens - 1), for each request."
    yield "**Gap**: the time between two pieces that follow each other: what a reader sees as stutter."
    yield "**Request**: from sending a request to its last piece of text."
    yield "**Tokens/s**: output tokens over the time from the first request to the last answer."
    yield "**Speed**: inter-token latency alone over together (medians; over the models, the geometric mean)."
    yield "**Of a GPU each**: tokens/s of all together, over the sum of what each does alone on the same target."
    yield "**Fairness**: Jain's index of the part of its tokens/s that each keeps; 1: equal, 1/n: one has everything."
    yield "**$ per million tokens**: what the target costs in a second, over the tokens that all make in one."
    if goals:
        yield f"**Good requests**: first token within {goals.ttft_ms:g} ms and {goals.itl_ms:g} ms between tokens."


def _listed(items: Sequence[object]) -> str:
    told = [str(item) for item in items]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}" if told else ""


def _bullets(lines: "Iterator[str]") -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: "Iterator[Sequence[str]] | Sequence[Sequence[str]]") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _three(some: Spread | None) -> str:
    return " / ".join(_number(value) for value in (some.p50, some.p95, some.p99)) if some else "–"


def _range(some: Span | None, digits: int = 1) -> str:
    if some is None:
        return "–"
    middle = f"{some.median:.{digits}f}"
    return (
        middle if some.lowest == some.highest else f"{middle} ({some.lowest:.{digits}f} to {some.highest:.{digits}f})"
    )
