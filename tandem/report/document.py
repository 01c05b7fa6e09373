"""A report in Markdown, for somebody who was not there: the answer first, then what it rests on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tandem.markdown import as_code, change_text, in_markdown
from tandem.measured.comparison import Comparison
from tandem.measured.measures import GOOD_REPEATS, MIB, Span, Spread
from tandem.measured.result import Memory, Result, difference, identity
from tandem.measured.summary import Figures, Goals, Sharing, Summary, compare_costs, reference

GOOD_REQUESTS = 300
"""A p99 of them rests on the three slowest."""
MANY_TIMES = 10
MOST_NAMED = 3
"""Runs that are named where many are left out for one reason."""


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
        "## Caveats",
        _bullets(_doubts(results, told)),
        "## Glossary",
        _bullets(_meanings(goals)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _in_markdown(result: Result) -> Result:
    """Without the rows, which no text needs and which are many."""
    short = replace(result, runs=[replace(run, rows=[]) for run in result.runs])
    escaped = change_text(short, in_markdown)
    sessions = [replace(new, command=old.command) for new, old in zip(escaped.sessions, result.sessions, strict=True)]
    return replace(escaped, sessions=sessions)


def _title(results: Sequence[Result]) -> str:
    models = " and ".join(server.model for server in results[0].servers)
    return f"{models}: {' against '.join(result.label for result in results)}"


def _answer(told: Sequence[Summary]) -> Iterator[str]:
    """One sentence for each target at the same, heaviest closed load, and which is cheaper beyond the noise."""
    common = reference(told)
    if common is None:
        if any(one.figures for one in told):
            yield "No load was measured both alone and together, so this report says nothing about sharing."
        else:
            yield '**No comparable runs.** See "Excluded runs" below.'
        return
    shared = [(one.label, next(s for s in one.sharing if s.workload == common)) for one in told]
    yield f"With {common}, for each model (in parentheses: lowest to highest repeat):"
    yield _bullets(_sentence(label, one) for label, one in shared)
    yield from (_verdict(one) for one in compare_costs(told))


def _sentence(label: str, one: Sharing) -> str:
    each = ", ".join(f"{endpoint} {1 / slower:.2f}" for endpoint, slower in one.slowdown.items())
    cost = f", ${_range(one.span('usd_per_million'), 2)} per million output tokens" if one.usd_per_million else ""
    speed = f" at **{_range(one.span('speed'), 2)}** of its speed alone ({each})" if one.speed else ""
    return (
        f"**{label}** served each model{speed}: {_range(one.span('tokens_per_s'))} tokens/s combined, "
        f"{_range(one.span('throughput_ratio'), 2)} of the throughput of dedicated GPUs{cost}."
    )


def _verdict(one: Comparison) -> str:
    """Who is cheaper, only where the repeats can tell."""
    if one.lowest is None or one.highest is None:
        return (
            f"**{one.best} and {one.other} cannot be ranked**: with a single repeat, nothing is known of the "
            "variation between runs. Measure at least two, better more, repeats of each."
        )
    interval = f"95% confidence interval: {_cheaper(one.highest)} to {_cheaper(one.lowest)}"
    if one.decided:
        return f"**{one.best}** is {1 - one.ratio:.0%} cheaper per token than {one.other} ({interval})."
    return f"**No difference beyond the noise** in cost per token between {one.best} and {one.other} ({interval})."


def _cheaper(ratio: float) -> str:
    if ratio > MANY_TIMES:
        return f"more than {MANY_TIMES} times as expensive"
    return f"{1 - ratio:.0%} cheaper" if ratio <= 1 else f"{ratio - 1:.0%} more expensive"


def _setup(results: Sequence[Result]) -> Iterator[str]:
    load = results[0].load
    yield _table(
        ("target", "GPU", "Ollama", "$ per hour", "measured (UTC)", "tandem", "runs"),
        (
            (
                result.label, _gpu(result), _listed(_versions(result)),
                f"{result.usd_per_hour:.4f}" if result.usd_per_hour else "not given",
                f"{result.sessions[0].begun[:16].replace('T', ' ')} to {result.ended[11:16]}",
                ", ".join(dict.fromkeys(session.versions.get("tandem", "") for session in result.sessions)),
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
        *(f"{level} request{'s' if level > 1 else ''} at a time" for level in load.concurrency),
        *(f"{rate:g} requests a second at random moments" for rate in load.rates),
    ]
    yield (
        f"**Workload:** unique prompts of {_listed(load.prompt_words)} words; at most {load.output_tokens} output "
        f"tokens; for each model {_listed(levels)}; {load.requests} requests per run after {load.warmup} to warm up; "
        f"{load.repeats} repeats; temperature {load.temperature:g}, seed {load.seed}. "
        "Each model was measured alone, with the others loaded and idle, then all at once. A model that finished first "
        "got further requests, which do not count, until the others finished."
    )
    for result in results:
        for session in result.sessions:
            machine = session.machine
            yield (
                f"{result.label}: {as_code(' '.join(session.command))}, from a client with "
                f"{machine.cpus} × {machine.processor}, {machine.system}, Python {machine.python}."
            )


def _versions(result: Result) -> list[str]:
    return sorted({server.ollama for session in result.sessions for server in session.servers})


def _gpu(result: Result) -> str:
    pools = result.plan["pools"] if result.plan else []
    return ", ".join(f"{pool['nodes']} × {pool['gpu']['name']}" for pool in pools) or "not said"


def _excluded(told: Sequence[Summary]) -> Iterator[str]:
    if not any(one.excluded for one in told):
        return
    yield "## Excluded runs"
    for one in told:
        if one.excluded:
            by_reason: dict[str, list[str]] = {}
            for name, reasons in one.excluded:
                by_reason.setdefault("; ".join(reasons), []).append(name)
            yield f"{one.label}: {len(one.excluded)} of {one.runs} runs are not compared."
            yield _bullets(f"{reason} ({_some(names)})" for reason, names in by_reason.items())


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {more} more runs" if more > 0 else "")


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
        yield "## Cost of sharing"
        yield _table(
            (
                "target", "load", "speed", "inter-token latency", "first token p95", "tokens/s", "of dedicated GPUs",
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
            f"{model['share_mib']:,}" if model["share_mib"] is not None else "the rest of the GPU",
            *_measured(result, model["id"]),
        )
        for result in results
        for model in (result.plan["models"] if result.plan else [])
    ]  # fmt: skip
    if rows:
        yield "## Planned and actual memory"
        yield "In MiB. The planned need includes the engine's own buffers, which Ollama does not count."
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
            yield f"{result.label}: {len(one.excluded)} of {one.runs} runs are excluded (see above)."
        if not result.complete:
            yield f"{result.label}: stopped before its last run."
        yield from (f"{result.label}: {change}" for change in _changes(result))
        if one.errors:
            kinds = "; ".join(f"{often} × {error}" for error, often in sorted(one.errors.items()))
            yield f"{result.label}: failed requests (excluded from latency figures): {kinds}."
        few = [figure for figure in one.figures if figure.repeats < GOOD_REPEATS]
        if few:
            yield f"{result.label}: {len(few)} rows have fewer than {GOOD_REPEATS} repeats."
        moved = [
            endpoint
            for run in result.runs
            for endpoint in run.endpoints
            if _moved(run.memory_start, run.memory_end, endpoint)
        ]
        if moved:
            yield f"{result.label}: the memory of {_listed(sorted(set(moved)))} changed during a run: it was reloaded."
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
        yield f"With {requests} requests, p99 is close to the maximum. Use hundreds of requests for a meaningful p99."
    yield "Times are measured at the client and include network latency."
    yield ("Intervals cover the variation between repeats of one benchmark. Another node or day may differ by more.")


def _changes(result: Result) -> Iterator[str]:
    """What a resumed benchmark found otherwise than before."""
    for before, after in pairwise(result.sessions):
        for one, other in zip(before.servers, after.servers, strict=True):
            if identity(one) != identity(other):
                yield f"server {one.id} changed when the benchmark was resumed: {difference(one, other)}."


def _moved(start: Mapping[str, Memory | None], end: Mapping[str, Memory | None], endpoint: str) -> bool:
    before, after = start.get(endpoint), end.get(endpoint)
    return before is not None and after is not None and before != after


def _meanings(goals: Goals | None) -> Iterator[str]:
    yield "**First token**: from sending a request to its first piece of text, or of thinking."
    yield "**Between tokens** (inter-token latency): (request - first token) / (output tokens - 1), for each request."
    yield "**Gap**: the time between two consecutive pieces, which a reader sees as stutter."
    yield "**Request**: from sending a request to its last piece of text."
    yield "**Tokens/s**: output tokens over the time from the first request to the last answer."
    yield "**Speed**: inter-token latency alone over together (medians of a repeat; geometric mean over the models)."
    yield "**Of dedicated GPUs**: combined tokens/s over the sum of what each model does alone on the same target."
    yield "**Fairness**: Jain's index of the part of its tokens/s that each model keeps; 1: equal, 1/n: one has it all."
    yield "**$ per million tokens**: hourly price divided by combined tokens per hour."
    yield (
        "**Beyond the noise**: Welch's t-interval of the repeats (their logarithms) excludes equal cost; all intervals "
        "of this report hold together with 95% confidence."
    )
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
