"""The summary of a result: figures of each model alone and together, and the cost of sharing."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean, median
from typing import Any, NamedTuple

from tandem.bench_results import measures
from tandem.bench_results.comparison import Comparison, compare
from tandem.bench_results.first_token import MOST_REST, FirstToken, most_at_once, split
from tandem.bench_results.measures import Span, Spread, answered, span, spread
from tandem.bench_results.result import Result, Row, Run


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """The workload, for any model."""

    prompt_words: int
    loop: str
    level: float

    def __str__(self) -> str:
        load = f"{self.level:g} at a time" if self.loop == "closed" else f"{self.level:g} per second"
        return f"{self.prompt_words} words, {load}"


class Goals(NamedTuple):
    """The limits for a good request, in milliseconds."""

    ttft_ms: float
    itl_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One model under one workload, alone or together: all comparable repeats."""

    endpoint: str
    together: bool
    workload: Workload
    repeats: int
    requests: int
    errors: int
    prompt_tokens: float
    """Median, from the server's counts."""
    ttft_ms: Spread | None
    first_token: FirstToken | None
    """The parts of the time to first token; None if the server reports no times."""
    itl_ms: Spread | None
    gap_ms: Spread | None
    latency_ms: Spread | None
    tokens_per_s: Span | None
    goodput: Span | None

    @property
    def company(self) -> str:
        """How it was measured, in a word."""
        return "together" if self.together else "alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """All models together in one repeat, against each alone in the same repeat."""

    slowdown: dict[str, float]
    """Median inter-token latency together over alone, for each model."""
    speed: float | None
    """1 / slowdown, the geometric mean over the models: 1 = as if each had its own GPU."""
    ttft_ratio: dict[str, float]
    """95th percentile of the time to first token, together over alone, for each model."""
    tokens_per_s: float
    """Throughput of all models, combined."""
    throughput_ratio: float
    """The combined throughput over the sum of each model alone: 1 = as fast as dedicated GPUs."""
    fairness: float
    """Jain's index of the throughput that each model keeps."""
    usd_per_million: float | None
    """Dollars per million output tokens of any model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing(Repeat):
    """The same under one workload: each figure is the median of the repeats."""

    workload: Workload
    repeats: list[Repeat]

    def span(self, figure: str) -> Span | None:
        """A figure of `Repeat` with its range over the repeats."""
        return span(_values(self.repeats, figure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole result."""

    label: str
    figures: list[Figures]
    sharing: list[Sharing]
    excluded: list[tuple[str, list[str]]]
    """Runs that are not compared, with their reasons."""
    errors: dict[str, int]
    """The count of each error, in all runs."""
    runs: int

    @property
    def first_token_warning(self) -> str:
        """What to know if much of the time to first token has no good reason; empty if all is well."""
        parts = [(row.first_token, row) for row in self.figures if row.first_token]
        slow = [(part, row) for part, row in parts if part.rest > MOST_REST]
        if not slow:
            return ""
        most, row = max(slow, key=lambda pair: pair[0].rest_ms)
        where = f"{row.endpoint} {row.company}, {row.workload}"
        part = f"{most.rest:.0%} of the time to first token ({most.rest_ms:,.0f} of {most.total_ms:,.0f} ms)"
        if most.outside_ms > most.rest_ms / 2:
            advice = "Most of it passed outside the server. Measure from a machine that is nearer to it."
        else:
            advice = "Search the server's log for the reason, such as copied prompt states or a reloaded model."
        return (
            f"{where}: {part} is neither waiting nor the prompt's evaluation. That is over a third in {len(slow)} of "
            f"{len(parts)} rows. {advice}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The summary for JSON."""
        return asdict(self)


def summary(result: Result, goals: Goals | None = None) -> Summary:
    """The figures of a result, without runs that must not be compared, which are listed."""
    kept: dict[tuple[Workload, tuple[str, ...]], list[Run]] = defaultdict(list)
    excluded = []
    for run in result.runs:
        if reasons := measures.reasons_against(run):
            excluded.append((name(run), reasons))
        else:
            kept[_workload(run), tuple(run.endpoints)].append(run)
    slots = _slots(result, kept)
    return Summary(
        label=result.label,
        figures=[
            _figures(endpoint, workload, runs, slots[endpoint], goals)
            for (workload, endpoints), runs in sorted(kept.items(), key=lambda item: (item[0][0], len(item[0][1])))
            for endpoint in endpoints
        ],
        sharing=_sharing(kept, _ids(result), result.usd_per_hour),
        excluded=excluded,
        errors=dict(Counter(row.error for run in result.runs for row in run.rows if row.counted and row.error)),
        runs=len(result.runs),
    )


def _slots(result: Result, kept: Mapping[Any, Sequence[Run]]) -> dict[str, int]:
    """The slots of each server: the plan's, or as many as it used at one time in any run."""
    planned = {model["id"]: model.get("slots", 0) for model in (result.plan["models"] if result.plan else [])}
    rows = {id: [_rows(run, id) for runs in kept.values() for run in runs] for id in _ids(result)}
    return {id: max(planned.get(id, 0), most_at_once(by_run)) for id, by_run in rows.items()}


def _ids(result: Result) -> list[str]:
    return [server.id for server in result.servers]


def _rows(run: Run, endpoint: str) -> list[Row]:
    return [row for row in run.rows if row.endpoint == endpoint]


def _workload(run: Run) -> Workload:
    return Workload(run.prompt_words, run.loop, run.level)


def reference(summaries: Sequence[Summary]) -> Workload | None:
    """The workload of the headline: in all results, closed before open, shortest prompts, highest level."""
    common = set.intersection(*({shared.workload for shared in summary.sharing} for summary in summaries))
    return min(common, key=lambda load: (load.loop, load.prompt_words, -load.level), default=None)


def compare_costs(summaries: Sequence[Summary]) -> list[Comparison]:
    """Each pair of targets at that workload, of those that have a price."""
    common = reference(summaries)
    costs = {
        summary.label: _values(shared.repeats, "usd_per_million")
        for summary in summaries
        for shared in summary.sharing
        if shared.workload == common
    }
    return compare({label: each for label, each in costs.items() if each})


def name(run: Run) -> str:
    """A run in words."""
    return f"{' + '.join(run.endpoints)}, {_workload(run)}, repeat {run.repeat}"


def _figures(endpoint: str, workload: Workload, runs: Sequence[Run], slots: int, goals: Goals | None) -> Figures:
    by_run = [_rows(run, endpoint) for run in runs]
    rows = [row for rows in by_run for row in rows if row.counted]
    good = answered(rows)
    return Figures(
        endpoint=endpoint,
        together=len(runs[0].endpoints) > 1,
        workload=workload,
        repeats=len(runs),
        requests=len(rows),
        errors=len(rows) - len(good),
        prompt_tokens=median(row.prompt_tokens for row in good),
        ttft_ms=spread([measures.ttft_ms(row) for row in good]),
        first_token=split(by_run, slots),
        itl_ms=spread([measures.itl_ms(row) for row in good if measures.has_itl(row)]),
        gap_ms=spread([gap for row in good for gap in measures.gaps_ms(row)]),
        latency_ms=spread([measures.latency_ms(row) for row in good]),
        tokens_per_s=span([measures.tokens_per_s(rows) for rows in by_run]),
        goodput=span([measures.goodput(rows, *goals) for rows in by_run]) if goals else None,
    )


def _sharing(
    kept: Mapping[tuple[Workload, tuple[str, ...]], list[Run]], endpoints: Sequence[str], usd_per_hour: float | None
) -> list[Sharing]:
    """For each workload, the repeats with comparable runs only: each model alone, and all together."""
    if len(endpoints) < 2:
        return []
    groups = [*((endpoint,) for endpoint in endpoints), tuple(endpoints)]
    shared = []
    for workload in sorted({workload for workload, _ in kept}):
        by_group = [{run.repeat: run for run in kept.get((workload, group), [])} for group in groups]
        whole = sorted(set.intersection(*map(set, by_group)))
        repeats = [_repeat([runs[number] for runs in by_group], usd_per_hour) for number in whole]
        if repeats:
            shared.append(_medians(workload, repeats))
    return shared


def _repeat(runs: Sequence[Run], usd_per_hour: float | None) -> Repeat:
    """The figures of one repeat; the last run has all models together."""
    *alone, together = runs
    pairs = [(endpoint, before.rows, _rows(together, endpoint)) for before in alone for endpoint in before.endpoints]
    slowdown = _ratios((endpoint, _itl_p50(before), _itl_p50(after)) for endpoint, before, after in pairs)
    before_s = [measures.tokens_per_s(before) for _, before, _ in pairs]
    after_s = [measures.tokens_per_s(after) for _, _, after in pairs]
    total = sum(after_s)
    return Repeat(
        slowdown=slowdown,
        speed=1 / geometric_mean(slowdown.values()) if len(slowdown) == len(pairs) else None,
        ttft_ratio=_ratios((endpoint, _ttft_p95(before), _ttft_p95(after)) for endpoint, before, after in pairs),
        tokens_per_s=total,
        throughput_ratio=total / sum(before_s) if sum(before_s) else 0.0,
        fairness=measures.jain([after / before for after, before in zip(after_s, before_s, strict=True) if before]),
        usd_per_million=measures.usd_per_million(usd_per_hour, total) if usd_per_hour and total else None,
    )


def _medians(workload: Workload, repeats: list[Repeat]) -> Sharing:
    def middle(figure: str) -> float | None:
        values = _values(repeats, figure)
        return median(values) if values else None

    return Sharing(
        workload=workload,
        repeats=repeats,
        slowdown=_medians_by_model([repeat.slowdown for repeat in repeats]),
        speed=middle("speed"),
        ttft_ratio=_medians_by_model([repeat.ttft_ratio for repeat in repeats]),
        tokens_per_s=middle("tokens_per_s") or 0.0,
        throughput_ratio=middle("throughput_ratio") or 0.0,
        fairness=middle("fairness") or 0.0,
        usd_per_million=middle("usd_per_million"),
    )


def _values(repeats: Iterable[Repeat], figure: str) -> list[float]:
    """This figure of those repeats that have it."""
    return [value for value in (getattr(repeat, figure) for repeat in repeats) if value is not None]


def _medians_by_model(ratios: Sequence[Mapping[str, float]]) -> dict[str, float]:
    models = dict.fromkeys(model for repeat in ratios for model in repeat)
    return {model: median(repeat[model] for repeat in ratios if model in repeat) for model in models}


def _ratios(figures: Iterable[tuple[str, float | None, float | None]]) -> dict[str, float]:
    """Together over alone, if neither is missing or zero: pieces that all arrived at once have no pace."""
    return {endpoint: after / before for endpoint, before, after in figures if before and after}


def _itl_p50(rows: Sequence[Row]) -> float | None:
    sample = [measures.itl_ms(row) for row in answered(rows) if measures.has_itl(row)]
    return median(sample) if sample else None


def _ttft_p95(rows: Sequence[Row]) -> float | None:
    sample = [measures.ttft_ms(row) for row in answered(rows)]
    return measures.percentile(sample, 95) if sample else None
