"""The summary of a result: figures of each model alone and together."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from tandem.bench_results import measures
from tandem.bench_results.first_token import MOST_REST, FirstToken, most_at_once, split
from tandem.bench_results.measures import Span, Spread, answered, span, spread
from tandem.bench_results.result import PlannedPool, Result, Row, Run, mode_of

EXCLUSIVE = "exclusive"
FIGURES_VERSION = 2
"""Of what `bench` and `report` print as JSON. The first, without a number, had `sharing` and not `equal_load`."""


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
    tokens_per_s_by_repeat: list[float]
    goodput: Span | None

    @property
    def company(self) -> str:
        """How it was measured, in a word."""
        return "together" if self.together else "alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole result."""

    label: str
    mode: str
    """Of the plan's pools, or else the label."""
    gpus: list[str]
    """Names of the plan's GPUs; empty without a plan."""
    models_per_gpu: int
    """1: each model has a GPU of its own. 0: the plan does not tell, because it has several GPUs."""
    slots: dict[str, int]
    """Requests that each model works on at one time: the plan's, or the most that it did."""
    usd_per_hour: float | None
    figures: list[Figures]
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
    mode = _mode(result)
    return Summary(
        label=result.label,
        mode=mode,
        gpus=sorted({pool["gpu"]["name"] for pool in _pools(result)}),
        models_per_gpu=_models_per_gpu(result, mode),
        slots=slots,
        usd_per_hour=result.usd_per_hour,
        figures=[
            _figures(endpoint, workload, runs, slots[endpoint], goals)
            for (workload, endpoints), runs in sorted(kept.items(), key=lambda item: (item[0][0], len(item[0][1])))
            for endpoint in endpoints
        ],
        excluded=excluded,
        errors=dict(Counter(row.error for run in result.runs for row in run.rows if row.counted and row.error)),
        runs=len(result.runs),
    )


def _pools(result: Result) -> list[PlannedPool]:
    return result.plan["pools"] if result.plan else []


def _mode(result: Result) -> str:
    return " and ".join(sorted({mode_of(pool) for pool in _pools(result) if "mode" in pool})) or result.label


def _models_per_gpu(result: Result, mode: str) -> int:
    if mode.split(" (")[0] == EXCLUSIVE:  # a label that two results have gets the name of its file in parentheses
        return 1
    gpus = sum(
        max([1, *(share["total"] // share["per_gpu"] for share in pool.get("shares", []))]) for pool in _pools(result)
    )
    return len(result.servers) if gpus <= 1 else 0


def _slots(result: Result, kept: Mapping[Any, Sequence[Run]]) -> dict[str, int]:
    planned = {model["id"]: model.get("slots", 0) for model in (result.plan["models"] if result.plan else [])}
    rows = {id: [_rows(run, id) for runs in kept.values() for run in runs] for id in _ids(result)}
    return {id: max(planned.get(id, 0), most_at_once(by_run)) for id, by_run in rows.items()}


def _ids(result: Result) -> list[str]:
    return [server.id for server in result.servers]


def _rows(run: Run, endpoint: str) -> list[Row]:
    return [row for row in run.rows if row.endpoint == endpoint]


def _workload(run: Run) -> Workload:
    return Workload(run.prompt_words, run.loop, run.level)


def name(run: Run) -> str:
    """A run in words."""
    return f"{' + '.join(run.endpoints)}, {_workload(run)}, repeat {run.repeat}"


def _figures(endpoint: str, workload: Workload, runs: Sequence[Run], slots: int, goals: Goals | None) -> Figures:
    by_run = [_rows(run, endpoint) for run in runs]
    rows = [row for rows in by_run for row in rows if row.counted]
    good = answered(rows)
    speeds = [measures.tokens_per_s(rows) for rows in by_run]
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
        tokens_per_s=span(speeds),
        tokens_per_s_by_repeat=speeds,
        goodput=span([measures.goodput(rows, *goals) for rows in by_run]) if goals else None,
    )
