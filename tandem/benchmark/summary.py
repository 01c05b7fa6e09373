"""What a result says: figures of each model alone and together, and what being together costs."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tandem.benchmark import measures
from tandem.benchmark.measures import Span, Spread, answered, span, spread
from tandem.benchmark.result import Result, Run


class Workload(NamedTuple):
    """What was asked, whoever was asked."""

    prompt_words: int
    loop: str
    level: float

    def __str__(self) -> str:
        load = f"{self.level:g} at a time" if self.loop == "closed" else f"{self.level:g} a second"
        return f"{self.prompt_words} words, {load}"


class Goals(NamedTuple):
    """What makes a request good, in milliseconds."""

    ttft_ms: float
    itl_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One model under one workload, alone or together: all repeats that may be compared."""

    endpoint: str
    together: bool
    workload: Workload
    repeats: int
    requests: int
    errors: int
    prompt_tokens: float
    """Median, as the server counts them."""
    ttft_ms: Spread | None
    itl_ms: Spread | None
    gap_ms: Spread | None
    latency_ms: Spread | None
    tokens_per_s: Span | None
    goodput: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """All models together under one workload, against each alone."""

    workload: Workload
    slowdown: dict[str, float]
    """Median inter-token latency together over alone, for each model."""
    speed: float | None
    """1 / slowdown, the geometric mean over the models: 1 = as if each had the GPU for itself."""
    ttft_ratio: dict[str, float]
    """95th percentile of the time to first token, together over alone, for each model."""
    tokens_per_s: float
    """Of all models, together."""
    throughput_ratio: float
    """That, over the sum of what each does alone: 1 = as good as a GPU for each."""
    fairness: float
    """Jain's index of what each model keeps of its throughput."""
    usd_per_million: float | None
    """Dollars for a million output tokens, whichever model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole result."""

    label: str
    figures: list[Figures]
    sharing: list[Sharing]
    excluded: list[tuple[str, list[str]]]
    """Runs that are not compared, and why not."""
    errors: dict[str, int]
    """How often which error came, in all runs."""
    runs: int

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON takes it."""
        told = asdict(self)
        for entry in (*told["figures"], *told["sharing"]):
            entry["workload"] = (
                entry["workload"]._asdict()
                if hasattr(entry["workload"], "_asdict")
                else dict(zip(Workload._fields, entry["workload"], strict=True))
            )
        return told


def summary(result: Result, goals: Goals | None = None) -> Summary:
    """The figures of a result. Runs that must not be compared are named and left out."""
    kept: dict[tuple[Workload, tuple[str, ...]], list[Run]] = defaultdict(list)
    excluded = []
    for run in result.runs:
        reasons = measures.reasons_against(run)
        if reasons:
            excluded.append((name(run), reasons))
        else:
            kept[Workload(run.prompt_words, run.loop, run.level), tuple(run.endpoints)].append(run)
    figures = [
        _figures(endpoint, workload, runs, goals)
        for (workload, endpoints), runs in sorted(kept.items(), key=lambda item: (item[0][0], len(item[0][1])))
        for endpoint in endpoints
    ]
    return Summary(
        label=result.label,
        figures=figures,
        sharing=_sharing(figures, [server.id for server in result.servers], result.usd_per_hour),
        excluded=excluded,
        errors=dict(Counter(row.error for run in result.runs for row in run.rows if row.counted and row.error)),
        runs=len(result.runs),
    )


def name(run: Run) -> str:
    """A run in words."""
    return f"{' + '.join(run.endpoints)}, {Workload(run.prompt_words, run.loop, run.level)}, repeat {run.repeat}"


def _figures(endpoint: str, workload: Workload, runs: Sequence[Run], goals: Goals | None) -> Figures:
    by_run = [[row for row in run.rows if row.endpoint == endpoint] for run in runs]
    rows = [row for some in by_run for row in some if row.counted]
    good = answered(rows)
    return Figures(
        endpoint=endpoint,
        together=len(runs[0].endpoints) > 1,
        workload=workload,
        repeats=len(runs),
        requests=len(rows),
        errors=len(rows) - len(good),
        prompt_tokens=measures.percentile([row.prompt_tokens for row in good], 50),
        ttft_ms=spread([measures.ttft_ms(row) for row in good]),
        itl_ms=spread([measures.itl_ms(row) for row in good if measures.has_itl(row)]),
        gap_ms=spread([gap for row in good for gap in measures.gaps_ms(row)]),
        latency_ms=spread([measures.latency_ms(row) for row in good]),
        tokens_per_s=span([measures.tokens_per_s(some) for some in by_run]),
        goodput=span([measures.goodput(some, *goals) for some in by_run]) if goals else None,
    )


def _sharing(figures: Sequence[Figures], endpoints: Sequence[str], usd_per_hour: float | None) -> list[Sharing]:
    found = {(one.workload, one.endpoint, one.together): one for one in figures}
    told = []
    for workload in dict.fromkeys(one.workload for one in figures):
        pairs = [
            (found.get((workload, endpoint, False)), found.get((workload, endpoint, True))) for endpoint in endpoints
        ]
        whole = [(alone, both) for alone, both in pairs if alone and both]
        if len(endpoints) > 1 and len(whole) == len(endpoints):
            told.append(_shared(workload, whole, usd_per_hour))
    return told


def _shared(workload: Workload, pairs: list[tuple[Figures, Figures]], usd_per_hour: float | None) -> Sharing:
    slowdown = {
        alone.endpoint: both.itl_ms.p50 / alone.itl_ms.p50
        for alone, both in pairs
        if alone.itl_ms and both.itl_ms and alone.itl_ms.p50 and both.itl_ms.p50
    }
    ttft = {
        alone.endpoint: both.ttft_ms.p95 / alone.ttft_ms.p95
        for alone, both in pairs
        if alone.ttft_ms and both.ttft_ms and alone.ttft_ms.p95
    }
    before = [alone.tokens_per_s.median if alone.tokens_per_s else 0.0 for alone, _ in pairs]
    after = [both.tokens_per_s.median if both.tokens_per_s else 0.0 for _, both in pairs]
    kept = [together / alone for together, alone in zip(after, before, strict=True) if alone]
    total = sum(after)
    return Sharing(
        workload=workload,
        slowdown=slowdown,
        speed=math.exp(-sum(map(math.log, slowdown.values())) / len(slowdown)) if len(slowdown) == len(pairs) else None,
        ttft_ratio=ttft,
        tokens_per_s=total,
        throughput_ratio=total / sum(before) if sum(before) else 0.0,
        fairness=measures.jain(kept),
        usd_per_million=measures.usd_per_million(usd_per_hour, total) if usd_per_hour and total else None,
    )
