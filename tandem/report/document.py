"""A report in Markdown, for somebody who was not there: the answer first, then what it rests on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tandem.bench_results.comparison import Comparison
from tandem.bench_results.first_token import FirstToken
from tandem.bench_results.measures import MIB, Span, Spread
from tandem.bench_results.result import Result
from tandem.bench_results.summary import Figures, Goals, Sharing, Summary, compare_costs, reference
from tandem.markdown import as_code, change_text, in_markdown
from tandem.report.caveats import caveats, meanings
from tandem.report.figures import Figure, number
from tandem.terminal import count, in_words

MANY_TIMES = 10
"""A ratio above it is only called that: the interval of wild repeats has no end that means anything."""
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
        _bullets(meanings(goals, parts=any(_parts(shown)))),
        "## Setup",
        *_setup(results),
        *_figures(shown, goals),
        *_first_tokens(shown),
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
    """One sentence for each target at the same, heaviest closed load, and each pair's cost."""
    common = reference(shown)
    if common is None:
        if any(one.figures for one in shown):
            yield "**No load was measured both alone and together.** This report cannot show the cost of sharing."
        else:
            yield '**No comparable runs.** See "Excluded runs" below.'
        return
    shared = [(one.label, next(s for s in one.sharing if s.workload == common)) for one in shown]
    yield (
        f"Each model gets prompts of {common}. Each number is the median of the repeats, followed by the lowest and "
        "the highest repeat where they differ. Percentages compare with the same models, each alone on the same target."
    )
    yield _bullets(_sentence(label, one) for label, one in shared)
    compared = compare_costs(shown)
    if compared:
        yield "Cost per output token of each pair of targets, with its 95% confidence interval:"
        yield _bullets(map(_verdict, compared))


def _sentence(label: str, one: Sharing) -> str:
    each = ", ".join(f"{endpoint} {_share(1 / slower)}" for endpoint, slower in one.slowdown.items())
    speed = (
        f" On average, the models ran at **{_percent(one.span('speed'))}** of their speed alone ({each})."
        if one.speed
        else ""
    )
    cost = f" ${_range(one.span('usd_per_million'), 2)} per million output tokens." if one.usd_per_million else ""
    return (
        f"**{label}**: {_range(one.span('tokens_per_s'))} tokens/s combined, "
        f"{_percent(one.span('throughput_ratio'))} of the sum of the models alone.{speed}{cost}"
    )


def _verdict(one: Comparison) -> str:
    """Which target is cheaper, only where the repeats can show it (decision 0054)."""
    if one.lowest is None or one.highest is None:
        return (
            f"**{one.best} and {one.other} cannot be ranked**: a single repeat does not show the run-to-run variation. "
            "Measure each target at least twice."
        )
    cost = f"{one.best} costs {_spanned(Span(one.ratio, one.lowest, one.highest), _bounded)} as much as {one.other}."
    if one.decided:
        return f"**{one.best} is cheaper than {one.other}**: {cost}"
    return f"**No difference beyond run-to-run variation** between {one.best} and {one.other}: {cost}"


def _bounded(ratio: float) -> str:
    return _share(ratio) if ratio <= MANY_TIMES else f"over {_share(MANY_TIMES)}"


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
                f"{count(machine.cpus, 'CPU')} ({machine.processor}), {machine.system}, Python {machine.python}."
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
        ("load", "target", "tokens/s", "of the sum alone", "speed", "fairness", "$ per million tokens"),
        (
            (
                str(shared.workload), label, _range(shared.span("tokens_per_s")),
                _percent(shared.span("throughput_ratio")), _percent(shared.span("speed")),
                _percent(shared.span("fairness")), _range(shared.span("usd_per_million"), 2),
            )
            for shared, label in shares
        ),
    )  # fmt: skip
    yield "Latency together, as a percentage of latency alone (medians of the repeats):"
    yield _table(
        ("load", "target", "model", "between tokens", "first token p95"),
        (
            (
                str(shared.workload),
                label,
                model,
                _share(shared.slowdown.get(model)),
                _share(shared.ttft_ratio.get(model)),
            )
            for shared, label in shares
            for model in dict.fromkeys([*shared.slowdown, *shared.ttft_ratio])
        ),
    )


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
        f"{one.endpoint} {one.company}",
        _three(one.ttft_ms),
        _three(one.itl_ms),
        number(one.gap_ms.p99) if one.gap_ms else "–",
        _three(one.latency_ms),
        _range(one.tokens_per_s),
        f"{one.errors} of {one.requests}",
        *([_range(one.goodput, 2)] if goals else []),
    ]


def _first_tokens(shown: Sequence[Summary]) -> Iterator[str]:
    rows = sorted(_parts(shown), key=lambda row: row[1].workload)
    if rows:
        yield "## Time to first token"
        yield "Milliseconds: means of the requests of all repeats."
        yield _table(
            ("load", "target", "model", "first token", "waiting", "prompt", "rest"),
            (
                (
                    str(one.workload), label, f"{one.endpoint} {one.company}",
                    *map(number, (part.total_ms, part.waiting_ms, part.prompt_ms)),
                    f"{number(part.rest_ms)} ({_share(part.rest)})",
                )
                for label, one, part in rows
            ),
        )  # fmt: skip


def _parts(shown: Sequence[Summary]) -> list[tuple[str, Figures, FirstToken]]:
    return [(one.label, each, each.first_token) for one in shown for each in one.figures if each.first_token]


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


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: "Iterator[Sequence[str]] | Sequence[Sequence[str]]") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _three(some: Spread | None) -> str:
    return " / ".join(number(value) for value in (some.p50, some.p95, some.p99)) if some else "–"


def _range(some: Span | None, digits: int = 1) -> str:
    return _spanned(some, lambda value: f"{value:,.{digits}f}")


def _percent(some: Span | None) -> str:
    return _spanned(some, _share)


def _share(ratio: float | None) -> str:
    """How the report states every ratio."""
    return "–" if ratio is None else f"{ratio:,.0%}"


def _spanned(some: Span | None, show: Callable[[float], str]) -> str:
    """The median; with the range where that shows another figure."""
    if some is None:
        return "–"
    middle, lowest, highest = (show(value) for value in (some.median, some.lowest, some.highest))
    return middle if lowest == highest else f"{middle} ({lowest} to {highest})"
