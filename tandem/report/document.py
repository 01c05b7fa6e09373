"""A report in Markdown, for somebody who was not there: the answer first, then what it rests on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tandem.markdown import as_code, change_text, in_markdown
from tandem.measured.comparison import Comparison
from tandem.measured.measures import MIB, Span, Spread
from tandem.measured.result import Result
from tandem.measured.summary import Figures, Goals, Sharing, Summary, compare_costs, reference
from tandem.report.caveats import caveats, meanings
from tandem.report.figures import Figure, number
from tandem.terminal import count, in_words

MANY_TIMES = 10
MOST_NAMED = 3
"""Runs that are named where many are left out for one reason."""


def document(
    results: Sequence[Result], shown: Sequence[Summary], figures: Sequence[Figure], goals: Goals | None = None
) -> str:
    """The whole text, with links to the figures' files. A result may come from anybody."""
    results, shown = [_in_markdown(result) for result in results], change_text(list(shown), in_markdown)
    parts = [
        f"# {_title(results)}",
        *_answer(shown),
        *_sharing(shown),
        *(part for figure in figures for part in _picture(figure)),
        "## Glossary",
        _bullets(meanings(goals)),
        "## Setup",
        *_setup(results),
        *_figures(shown, goals),
        *_fit(results),
        *_excluded(shown),
        "## Caveats",
        _bullets(caveats(results, shown)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _picture(figure: Figure) -> Iterator[str]:
    yield f"## {in_markdown(figure.title)}"
    yield f"![{in_markdown(figure.alt)}]({figure.file})"


def _in_markdown(result: Result) -> Result:
    """Without the rows, which no text needs and which are many."""
    short = replace(result, runs=[replace(run, rows=[]) for run in result.runs])
    escaped = change_text(short, in_markdown)
    sessions = [replace(new, command=old.command) for new, old in zip(escaped.sessions, result.sessions, strict=True)]
    return replace(escaped, sessions=sessions)


def _title(results: Sequence[Result]) -> str:
    models = " and ".join(server.id for server in results[0].servers)
    return f"{models}: {' vs. '.join(result.label for result in results)}"


def _answer(shown: Sequence[Summary]) -> Iterator[str]:
    """One sentence for each target at the same, heaviest closed load, and which is cheaper beyond the noise."""
    common = reference(shown)
    if common is None:
        if any(one.figures for one in shown):
            yield "**No load was measured both alone and together.** This report cannot show the cost of sharing."
        else:
            yield '**No comparable runs.** See "Excluded runs" below.'
        return
    shared = [(one.label, next(s for s in one.sharing if s.workload == common)) for one in shown]
    yield (
        f"Load: prompts of {common}, for each model. Each number is the median of the repeats. "
        "The lowest and the highest repeat are in parentheses."
    )
    yield _bullets(_sentence(label, one) for label, one in shared)
    yield from (_verdict(one) for one in compare_costs(shown))


def _sentence(label: str, one: Sharing) -> str:
    each = ", ".join(f"{endpoint} {1 / slower:.2f}" for endpoint, slower in one.slowdown.items())
    speed = f" Each model ran at **{_range(one.span('speed'), 2)}** of its speed alone ({each})." if one.speed else ""
    cost = f" ${_range(one.span('usd_per_million'), 2)} per million output tokens." if one.usd_per_million else ""
    return (
        f"**{label}**: {_range(one.span('tokens_per_s'))} tokens/s combined, "
        f"{_percent(one.span('throughput_ratio'))} of the throughput of dedicated GPUs.{speed}{cost}"
    )


def _verdict(one: Comparison) -> str:
    """Which target is cheaper, only where the repeats can show it (decision 0054)."""
    if one.lowest is None or one.highest is None:
        return (
            f"**{one.best} and {one.other} cannot be ranked**: a single repeat does not show the run-to-run variation. "
            "Measure each at least twice, better more often."
        )
    interval = f"95% confidence interval: {_cheaper(one.highest)} to {_cheaper(one.lowest)}"
    if one.decided:
        return f"**{one.best}** is {1 - one.ratio:.0%} cheaper per token than {one.other} ({interval})."
    return (
        f"**No difference beyond run-to-run variation** in cost per token between {one.best} and {one.other} "
        f"({interval})."
    )


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
                result.label, _gpu(result), in_words(_versions(result)),
                f"{result.usd_per_hour:.3f}" if result.usd_per_hour else "not given",
                f"{result.sessions[0].begun[:16].replace('T', ' ')} to {result.ended[11:16]}",
                ", ".join(dict.fromkeys(session.versions.get("tandem", "") for session in result.sessions)),
                f"{len(result.runs)}{'' if result.complete else ' (stopped early)'}",
            )
            for result in results
        ),
    )  # fmt: skip
    yield _table(
        ("model", "parameters", "quantization"),
        ((server.id, server.parameter_size, server.quantization) for server in results[0].servers),
    )
    levels = [
        *([f"concurrency {in_words(load.concurrency)} per model"] if load.concurrency else []),
        *(f"{rate:g} requests per second per model at random times" for rate in load.rates),
    ]
    yield (
        f"**Workload:** unique prompts of {in_words(load.prompt_words)} words, "
        f"up to {load.output_tokens} output tokens, {', '.join(levels)}, "
        f"{count(load.requests, 'request')} per run after {count(load.warmup, 'warm-up request')}, "
        f"{count(load.repeats, 'repeat')}, temperature {load.temperature:g}, seed {load.seed}."
    )
    yield (
        "Each model ran alone while the others were loaded and idle. Then all ran at once. The model that finishes "
        "first keeps receiving uncounted requests, so all stay under load for the whole measurement."
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
    return ", ".join(f"{pool['nodes']} × {pool['gpu']['name']}" for pool in pools) or "not recorded"


def _excluded(shown: Sequence[Summary]) -> Iterator[str]:
    if not any(one.excluded for one in shown):
        return
    yield "## Excluded runs"
    for one in shown:
        if one.excluded:
            by_reason: dict[str, list[str]] = {}
            for name, reasons in one.excluded:
                by_reason.setdefault("; ".join(reasons), []).append(name)
            yield f"{one.label}: {len(one.excluded)} of {count(one.runs, 'run')} excluded."
            yield _bullets(f"{reason} ({_some(names)})" for reason, names in by_reason.items())


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {more} more runs" if more > 0 else "")


def _sharing(shown: Sequence[Summary]) -> Iterator[str]:
    shares = sorted(((shared, one.label) for one in shown for shared in one.sharing), key=lambda pair: pair[0].workload)
    if not shares:
        return
    yield "## Cost of sharing"
    yield _table(
        ("load", "target", "tokens/s", "of dedicated GPUs", "speed", "fairness", "$ per million tokens"),
        (
            (
                str(shared.workload), label, _range(shared.span("tokens_per_s")),
                _percent(shared.span("throughput_ratio")), _range(shared.span("speed"), 2),
                _range(shared.span("fairness"), 2), _range(shared.span("usd_per_million"), 2),
            )
            for shared, label in shares
        ),
    )  # fmt: skip
    yield "Latency together, as a multiple of latency alone (medians of the repeats):"
    yield _table(
        ("load", "target", "model", "inter-token latency", "first token p95"),
        (
            (str(shared.workload), label, model, _times(shared.slowdown.get(model)), _times(ratio))
            for shared, label in shares
            for model, ratio in shared.ttft_ratio.items()
        ),
    )


def _times(ratio: float | None) -> str:
    return f"× {ratio:.2f}" if ratio else "–"


def _figures(shown: Sequence[Summary], goals: Goals | None) -> Iterator[str]:
    workloads = dict.fromkeys(figure.workload for one in shown for figure in one.figures)
    for place, workload in enumerate(workloads):
        if place == 0:
            yield "## All figures"
            yield "Milliseconds: p50 / p95 / p99 of the requests of all repeats. Tokens/s: median and range of repeats."
        yield f"### {workload[0]} words, {str(workload).split(', ', 1)[1]}"
        head = ["target", "model", "first token", "between tokens", "gap p99", "request", "tokens/s", "failed"]
        yield _table(
            [*head, *(["good requests/s"] if goals else [])],
            (
                [one.label, *_row(figure, goals)]
                for one in shown
                for figure in one.figures
                if figure.workload == workload
            ),
        )


def _row(one: Figures, goals: Goals | None) -> list[str]:
    return [
        f"{one.endpoint} {'together' if one.together else 'alone'}",
        _three(one.ttft_ms),
        _three(one.itl_ms),
        number(one.gap_ms.p99) if one.gap_ms else "–",
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
        yield "## Planned vs. actual memory"
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
        return "not recorded", "not recorded"
    return _between([_size(one.size) for one in seen]), _between([_size(one.size_vram) for one in seen])


def _size(size: int) -> int:
    return round(size / MIB)


def _between(sizes: Sequence[int]) -> str:
    least, most = min(sizes), max(sizes)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _bullets(lines: "Iterator[str]") -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: "Iterator[Sequence[str]] | Sequence[Sequence[str]]") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _three(some: Spread | None) -> str:
    return " / ".join(number(value) for value in (some.p50, some.p95, some.p99)) if some else "–"


def _range(some: Span | None, digits: int = 1) -> str:
    return _spanned(some, lambda value: f"{value:,.{digits}f}")


def _percent(some: Span | None) -> str:
    return _spanned(some, lambda value: f"{value:.0%}")


def _spanned(some: Span | None, show: Callable[[float], str]) -> str:
    """The median; with the range where that shows another figure."""
    if some is None:
        return "–"
    middle, lowest, highest = (show(value) for value in (some.median, some.lowest, some.highest))
    return middle if lowest == highest else f"{middle} ({lowest} to {highest})"
