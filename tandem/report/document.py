"""A report for somebody who was not there: the answer first, then what it rests on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from html import escape
from typing import Any

from sharing.printable import counted, one_line
from tandem.bench_results.comparison import Comparison
from tandem.bench_results.equal_load import EqualLoad, compare_costs, equal_load, reference
from tandem.bench_results.first_token import FirstToken
from tandem.bench_results.foreign.load_point import LoadPoint
from tandem.bench_results.measures import MIB, Span, Spread
from tandem.bench_results.result import Result
from tandem.bench_results.summary import Figures, Goals, Summary
from tandem.report.caveats import caveats, meanings
from tandem.report.figures import draw, number
from tandem.report.other_tools import section_of_other_tools
from tandem.report.page import bullets, frame, paragraph, picture, table
from tandem.terminal import in_words

MANY_TIMES = 10
"""A ratio above it is only called that: the interval of wild repeats has no end that means anything."""
MOST_NAMED = 3
"""Runs that are named where many are left out for one reason."""


def document(
    results: Sequence[Result],
    shown: Sequence[Summary],
    goals: Goals | None = None,
    note: str = "",
    others: Sequence[LoadPoint] = (),
) -> str:
    """The whole page; `note` is HTML below its title. A result may come from anybody: its text stays text."""
    figures = draw(shown)
    # No text needs the rows, which are many.
    results = [_escaped(replace(result, runs=[replace(run, rows=[]) for run in result.runs])) for result in results]
    shown = _escaped(list(shown))
    title = (
        f"{in_words([server.id for server in results[0].servers])}: {' vs. '.join(summary.label for summary in shown)}"
    )
    rows = equal_load(shown)
    parts = [
        note,
        *_answer(shown, rows),
        *_equal_load(rows),
        *(part for figure in figures for part in (f"<h2>{escape(figure.title)}</h2>", picture(figure))),
        "<h2>Glossary</h2>",
        _glossary(goals, shown),
        "<h2>Setup</h2>",
        *_setup(results),
        *_figures(shown, goals),
        *_first_tokens(shown),
        *section_of_other_tools(others),
        *_fit(results),
        *_excluded(shown),
        "<h2>Caveats</h2>",
        bullets(caveats(results, shown, rows)),
    ]
    return frame(title, filter(None, parts))


def _escaped(value: Any) -> Any:
    """A copy in which every text is escaped and in one line: in dataclasses, lists, tuples and mappings, keys too."""
    if isinstance(value, str):
        return escape(one_line(value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _escaped(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, dict):
        return {_escaped(key): _escaped(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_escaped, value))
    return value


def _answer(shown: Sequence[Summary], rows: Sequence[EqualLoad]) -> Iterator[str]:
    """One sentence for each target at the same, heaviest closed load, and each pair's cost."""
    common = reference(shown)
    if common is None:
        if any(summary.figures for summary in shown):
            yield paragraph("<strong>Models never ran together.</strong> This report cannot show the cost of sharing.")
        else:
            yield paragraph('<strong>No comparable runs.</strong> See "Excluded runs" below.')
        return
    yield paragraph(
        f"Each model gets prompts of {common}. Each number is the median of the repeats, followed by the lowest and "
        "the highest repeat where they differ. The dedicated GPU has one model, with as many requests in total."
    )
    yield bullets(
        _sentence(row) for summary in shown for row in rows if (row.target, row.workload) == (summary.label, common)
    )
    if compared := compare_costs(shown):
        yield paragraph("Cost per output token of each pair of targets, with its 95% confidence interval:")
        yield bullets(map(_verdict, compared))


def _sentence(row: EqualLoad) -> str:
    where = f" on each of {row.gpus} GPUs" if (row.gpus or 0) > 1 else ""
    part = f"<strong>{_percent(row.of_dedicated)}</strong> of the dedicated GPU{where}, " if row.of_dedicated else ""
    kept = ", ".join(f"{model.model} {_percent(model.of_own_gpu)}" for model in row.models if model.of_own_gpu)
    each = f" Of its own GPU, each model keeps: {kept}." if kept else ""
    cost = f" ${_range(row.usd_per_million, 2)} per million output tokens." if row.usd_per_million else ""
    return f"<strong>{row.target}</strong>: {part}{_range(row.tokens_per_s)} tokens/s combined.{each}{cost}"


def _verdict(pair: Comparison) -> str:
    """Which target is cheaper, only where the repeats can show it (decision 0054)."""
    best, other = pair.best, pair.other
    if pair.lowest is None or pair.highest is None:
        return (
            f"<strong>{best} and {other} cannot be ranked</strong>: a single repeat does not show the run-to-run "
            "variation. Measure each target at least twice."
        )
    cost = f"{best} costs {_spanned(Span(pair.ratio, pair.lowest, pair.highest), _bounded)} as much as {other}."
    if pair.decided:
        return f"<strong>{best} is cheaper than {other}</strong>: {cost}"
    return f"<strong>No difference beyond run-to-run variation</strong> between {best} and {other}: {cost}"


def _bounded(ratio: float) -> str:
    return _share(ratio) if ratio <= MANY_TIMES else f"over {_share(MANY_TIMES)}"


def _equal_load(rows: Sequence[EqualLoad]) -> Iterator[str]:
    if not rows:
        return
    yield "<h2>Cost of sharing, at equal load</h2>"
    yield table(
        (
            "requests on the GPU", "of each model", "target", "of the dedicated GPU", "tokens/s",
            "$ per million tokens", "compared with one model of",
        ),
        (
            (
                str(row.on_gpu or "–"), f"{row.workload.level:g}",
                f"{row.target} ({row.gpus} GPUs)" if (row.gpus or 0) > 1 else row.target, _percent(row.of_dedicated),
                _range(row.tokens_per_s), _range(row.usd_per_million, 2),
                f"{row.compared_with}: {row.remark}" if row.remark else row.compared_with,
            )
            for row in rows
        ),
    )  # fmt: skip
    yield paragraph(
        "What each model keeps of its own GPU, and the medians of its times in milliseconds: alone with all requests "
        "of the GPU → among the others."
    )
    yield table(
        ("requests on the GPU", "target", "model", "of its own GPU", "between tokens", "first token"),
        (
            (
                str(row.on_gpu or "–"), row.target, model.model, _percent(model.of_own_gpu),
                _change(model.itl_alone_ms, model.itl_ms), _change(model.ttft_alone_ms, model.ttft_ms),
            )
            for row in rows
            if row.on_gpu != row.workload
            for model in row.models
        ),
    )  # fmt: skip


def _change(*times: float | None) -> str:
    return " → ".join("–" if time is None else number(time) for time in times)


def _glossary(goals: Goals | None, shown: Sequence[Summary]) -> str:
    words = meanings(goals, parts=any(_parts(shown)))
    return "\n".join(["<dl>", *(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in words), "</dl>"])


def _setup(results: Sequence[Result]) -> Iterator[str]:
    load = results[0].load
    yield table(
        ("target", "GPU", "Ollama", "$ per hour", "measured (UTC)", "tandem", "runs"),
        (
            (
                result.label, _gpu(result), in_words(sorted({server.ollama for server in result.servers})),
                f"{result.usd_per_hour:.3f}" if result.usd_per_hour else "not given",
                f"{result.session.begun[:16].replace('T', ' ')} to {result.ended[11:16]}",
                result.session.versions.get("tandem", ""),
                f"{len(result.runs)}{'' if result.complete else ' (stopped early)'}",
            )
            for result in results
        ),
    )  # fmt: skip
    yield table(
        ("model", "parameters", "quantization"),
        ((server.id, server.parameter_size, server.quantization) for server in results[0].servers),
    )
    levels = [
        *([f"concurrency {in_words(load.concurrency)} per model"] if load.concurrency else []),
        *(f"{rate:g} requests per second per model at random times" for rate in load.rates),
    ]
    yield paragraph(
        f"<strong>Workload:</strong> unique prompts of {in_words(load.prompt_words)} words, "
        f"up to {load.output_tokens} output tokens, {', '.join(levels)}, "
        f"{counted(load.requests, 'request')} per run after {counted(load.warmup, 'warm-up request')}, "
        f"{counted(load.repeats, 'repeat')}, temperature {load.temperature:g}, seed {load.seed}."
    )
    yield paragraph(
        "Each model ran alone while the others were loaded and idle. Then all ran at once. The model that finishes "
        "first keeps receiving uncounted requests, so all stay under load for the whole measurement."
    )
    for result in results:
        machine = result.session.machine
        yield paragraph(
            f"{result.label}: <code>{' '.join(result.session.command)}</code>, from a client with "
            f"{counted(machine.cpus, 'CPU')} ({machine.processor}), {machine.system}, Python {machine.python}."
        )


def _gpu(result: Result) -> str:
    pools = result.plan["pools"] if result.plan else []
    return ", ".join(f"{pool['nodes']} × {pool['gpu']['name']}" for pool in pools) or "not recorded"


def _figures(shown: Sequence[Summary], goals: Goals | None) -> Iterator[str]:
    workloads = dict.fromkeys(figure.workload for summary in shown for figure in summary.figures)
    if workloads:
        yield "<h2>All figures</h2>"
        yield paragraph(
            "Milliseconds: p50 / p95 / p99 of the requests of all repeats. Tokens/s: median and range of repeats."
        )
    head = ["target", "model", "first token", "between tokens", "gap p99", "request", "tokens/s", "failed"]
    for workload in workloads:
        yield f"<h3>{workload}</h3>"
        yield table(
            [*head, *(["good requests/s"] if goals else [])],
            (
                [summary.label, *_row(figure, goals)]
                for summary in shown
                for figure in summary.figures
                if figure.workload == workload
            ),
        )


def _row(figure: Figures, goals: Goals | None) -> list[str]:
    return [
        f"{figure.endpoint} {figure.company}",
        _three(figure.ttft_ms),
        _three(figure.itl_ms),
        number(figure.gap_ms.p99) if figure.gap_ms else "–",
        _three(figure.latency_ms),
        _range(figure.tokens_per_s),
        f"{figure.errors} of {figure.requests}",
        *([_range(figure.goodput, 2)] if goals else []),
    ]


def _first_tokens(shown: Sequence[Summary]) -> Iterator[str]:
    rows = sorted(_parts(shown), key=lambda row: row[1].workload)
    if rows:
        yield "<h2>Time to first token</h2>"
        yield paragraph("Milliseconds: means of the requests of all repeats.")
        yield table(
            ("load", "target", "model", "first token", "waiting", "prompt", "rest"),
            (
                (
                    str(figure.workload), label, f"{figure.endpoint} {figure.company}",
                    *map(number, (part.total_ms, part.waiting_ms, part.prompt_ms)),
                    f"{number(part.rest_ms)} ({_share(part.rest)})",
                )
                for label, figure, part in rows
            ),
        )  # fmt: skip


def _parts(shown: Sequence[Summary]) -> list[tuple[str, Figures, FirstToken]]:
    return [
        (summary.label, figure, figure.first_token)
        for summary in shown
        for figure in summary.figures
        if figure.first_token
    ]


def _fit(results: Sequence[Result]) -> Iterator[str]:
    rows = [
        (
            result.label, model["id"], f"{model['needs_mib']:,}",
            f"{model['share_mib']:,}" if model["share_mib"] is not None else "the rest of the GPU",
            *_loaded(result, model["id"]),
        )
        for result in results
        for model in (result.plan["models"] if result.plan else [])
    ]  # fmt: skip
    if rows:
        yield "<h2>Planned vs. actual memory</h2>"
        yield paragraph("In MiB. The planned need includes the engine's own buffers, which Ollama does not count.")
        yield table(("target", "model", "planned need", "may use", "loaded", "of that on the GPU"), rows)


def _loaded(result: Result, endpoint: str) -> tuple[str, str]:
    looks = [
        memory
        for run in result.runs
        for memory in (run.memory_start.get(endpoint), run.memory_end.get(endpoint))
        if memory is not None
    ]
    if not looks:
        return "not recorded", "not recorded"
    return _between([look.size for look in looks]), _between([look.size_vram for look in looks])


def _between(sizes: Sequence[int]) -> str:
    least, most = (f"{round(size / MIB):,}" for size in (min(sizes), max(sizes)))
    return least if least == most else f"{least} to {most}"


def _excluded(shown: Sequence[Summary]) -> Iterator[str]:
    if any(summary.excluded for summary in shown):
        yield "<h2>Excluded runs</h2>"
    for summary in shown:
        if summary.excluded:
            by_reason: dict[str, list[str]] = {}
            for name, reasons in summary.excluded:
                by_reason.setdefault("; ".join(reasons), []).append(name)
            yield paragraph(f"{summary.label}: {len(summary.excluded)} of {counted(summary.runs, 'run')} excluded.")
            yield bullets(f"{reason} ({_first(names)})" for reason, names in by_reason.items())


def _first(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {more} more runs" if more > 0 else "")


def _three(spread: Spread | None) -> str:
    return " / ".join(map(number, (spread.p50, spread.p95, spread.p99))) if spread else "–"


def _range(span: Span | None, digits: int = 1) -> str:
    return _spanned(span, lambda value: f"{value:,.{digits}f}")


def _percent(span: Span | None) -> str:
    return _spanned(span, _share)


def _share(ratio: float | None) -> str:
    """How the report states every ratio."""
    return "–" if ratio is None else f"{ratio:,.0%}"


def _spanned(span: Span | None, show: Callable[[float], str]) -> str:
    """The median; with the range where that shows another figure."""
    if span is None:
        return "–"
    middle, lowest, highest = map(show, (span.median, span.lowest, span.highest))
    return middle if lowest == highest else f"{middle} ({lowest} to {highest})"
