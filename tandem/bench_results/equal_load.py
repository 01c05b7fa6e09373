"""What sharing costs, at equal load: one model on a GPU, against several with as many requests in total.

NVIDIA's rule ("Interpreting GPU Sharing Results", ai-dynamo/dynamo, 2026): match rows by the requests on the GPU,
because equal requests of each model give the shared GPU twice the load; and decide on percentages, not on tokens/s.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tandem.bench_results.comparison import Comparison, compare
from tandem.bench_results.measures import Span, Spread, span, usd_per_million
from tandem.bench_results.summary import Figures, Summary, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAtLoad:
    """One model among the others, and alone. Times are medians in milliseconds."""

    model: str
    of_own_gpu: Span | None
    """Its tokens/s, as a part of those alone with its own requests only: what it keeps of a GPU of its own."""
    itl_alone_ms: float | None
    """Of the model alone, with all requests of the row."""
    itl_ms: float | None
    ttft_alone_ms: float | None
    ttft_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualLoad:
    """All models at once under one workload, against each alone with all requests of their GPU."""

    target: str
    workload: Workload
    """Of each model."""
    on_gpu: Workload | None
    """Of their GPU, and of the model alone; None if the plan does not tell which models share a GPU."""
    gpus: int | None
    """On which the models run; each has the same load."""
    compared_with: str
    """The result in which the models ran alone: one with a GPU for each, if there is one, or else the same."""
    remark: str
    """Why there is no comparison, or not one at equal load; empty if there is one."""
    of_dedicated: Span | None
    """Each model's tokens/s as a part of those that it has alone; their sum, per GPU."""
    tokens_per_s: Span | None
    """Of all models, combined."""
    usd_per_million: Span | None
    """Dollars per million output tokens of any model."""
    models: list[ModelAtLoad]


def equal_load(summaries: Sequence[Summary]) -> list[EqualLoad]:
    """A row for each result and workload that its models had at once; by load, then in the order of the results."""
    rows = [
        _row(summary, _compared_with(summary, summaries), together)
        for summary in summaries
        for together in _together(summary)
    ]
    return sorted(rows, key=lambda row: row.on_gpu or row.workload)


def reference(summaries: Sequence[Summary]) -> Workload | None:
    """The workload of the headline: in all results, closed before open, shortest prompts, highest level.

    One that is compared at equal load in all of them, if there is one, or else one that is compared.
    """
    rows = equal_load(summaries)
    common = set.intersection(*({row.workload for row in rows if row.target == each.label} for each in summaries))
    compared = common - {row.workload for row in rows if not row.of_dedicated}
    equal = common - {row.workload for row in rows if row.remark}
    best = equal or compared or common
    return min(best, key=lambda load: (load.loop, load.prompt_words, -load.level), default=None)


def compare_costs(summaries: Sequence[Summary]) -> list[Comparison]:
    """Each pair of targets at that workload, of those that have a price."""
    common = reference(summaries)
    costs = {
        summary.label: _costs(summary, together)
        for summary in summaries
        for together in _together(summary)
        if together[0].workload == common
    }
    return compare({label: each for label, each in costs.items() if each})


def _together(summary: Summary) -> Iterator[list[Figures]]:
    """For each workload, the figures of all models at once."""
    together = [figures for figures in summary.figures if figures.together]
    for workload in dict.fromkeys(figures.workload for figures in together):
        yield [figures for figures in together if figures.workload == workload]


def _compared_with(summary: Summary, summaries: Sequence[Summary]) -> Summary:
    return next(
        (
            other
            for other in summaries
            if other.models_per_gpu == 1
            and summary.models_per_gpu != 1
            and (other.gpus == summary.gpus or not (other.gpus and summary.gpus))
        ),
        summary,
    )


def _row(summary: Summary, other: Summary, together: Sequence[Figures]) -> EqualLoad:
    workload = together[0].workload
    alone = {(each.endpoint, each.workload): each for each in other.figures if not each.together}
    on_each = summary.models_per_gpu
    on_gpu = replace(workload, level=workload.level * on_each) if on_each else None
    pairs = [(each, alone.get((each.endpoint, on_gpu)) if on_gpu else None) for each in together]
    parts = [_part(each, beside) for each, beside in pairs]
    sums = [sum(repeat) for repeat in zip(*parts, strict=True)] if all(parts) else []
    return EqualLoad(
        target=summary.label,
        workload=workload,
        on_gpu=on_gpu,
        gpus=len(together) // on_each if on_each else None,
        compared_with=other.label,
        remark=_remark(workload, on_gpu, min(other.slots[each.endpoint] for each in together), is_compared=all(parts)),
        of_dedicated=span([each * on_each / len(parts) for each in sums]),
        tokens_per_s=span(_combined(together)),
        usd_per_million=span(_costs(summary, together)),
        models=[
            ModelAtLoad(
                model=each.endpoint,
                of_own_gpu=span(_part(each, alone.get((each.endpoint, workload)))),
                itl_alone_ms=_median(beside.itl_ms) if beside else None,
                itl_ms=_median(each.itl_ms),
                ttft_alone_ms=_median(beside.ttft_ms) if beside else None,
                ttft_ms=_median(each.ttft_ms),
            )
            for each, beside in pairs
        ],
    )


def _part(together: Figures, alone: Figures | None) -> list[float]:
    """The tokens/s of each repeat, as a part of those alone; empty if there are none."""
    whole = alone.tokens_per_s.median if alone and alone.tokens_per_s else 0.0
    return [speed / whole for speed in together.tokens_per_s_by_repeat] if whole else []


def _combined(together: Sequence[Figures]) -> list[float]:
    return [sum(speeds) for speeds in zip(*(each.tokens_per_s_by_repeat for each in together), strict=True)]


def _costs(summary: Summary, together: Sequence[Figures]) -> list[float]:
    price = summary.usd_per_hour
    return [usd_per_million(price, speed) for speed in _combined(together) if speed] if price else []


def _median(times: Spread | None) -> float | None:
    return times.p50 if times else None


def _remark(workload: Workload, on_gpu: Workload | None, slots: int, *, is_compared: bool) -> str:
    if on_gpu is None:
        return "the plan has several GPUs"
    if not is_compared:
        option = "concurrency" if on_gpu.loop == "closed" else "rate"
        return f"no run of each model alone at {on_gpu.level:g} (--{option} {on_gpu.level:g})"
    if on_gpu.loop == "closed" and slots < on_gpu.level and on_gpu != workload:
        return f"a model alone worked on {slots} of {on_gpu.level:g} at a time (slots)"
    return ""
