"""Results of guidellm: `benchmarks.json`, with one benchmark for each load.

Fields: guidellm 0.8.1, `GenerativeBenchmarksReport`; the same in version 1 of the form (0.5.0 and 0.6.1,
`src/guidellm/benchmark/schemas/generative/metrics.py` and `scheduler/strategies.py`). Its ITL is
(last token - first token) / (tokens - 1), in which a request counts for each token. Its `time_per_output_token_ms`
contains the time to the first token. Speeds are read as means: their percentiles are those of momentary rates.
"""

from collections.abc import Iterator
from typing import Any, Literal

from tandem.bench_results.foreign.load_point import Fields, Figure, LoadPoint, at
from tandem.bench_results.result import Count

TOOL, FILE = "guidellm", "`benchmarks.json` of guidellm 0.8.1"


def _of_answered(metric: str, *figure: str) -> Any:
    """A figure of the answered requests; the total counts a failed one as 0."""
    return at("metrics", metric, "successful", *figure)


class _Benchmark(Fields):
    model: str | None = at("config", "backend", "model")
    strategy: str = at("config", "strategy", "type_", default="")
    streams: Count | None = at("config", "strategy", "streams")
    rate: Figure = at("config", "strategy", "rate")
    sent: Count | None = at("metrics", "request_totals", "total")
    answered: Count = at("metrics", "request_totals", "successful", default=...)
    failed: Count = at("metrics", "request_totals", "errored", default=...)
    tokens_per_s: Figure = _of_answered("output_tokens_per_second", "mean")
    ttft_p50_ms: Figure = _of_answered("time_to_first_token_ms", "percentiles", "p50")
    ttft_p95_ms: Figure = _of_answered("time_to_first_token_ms", "percentiles", "p95")
    itl_p50_ms: Figure = _of_answered("inter_token_latency_ms", "percentiles", "p50")


class _Report(Fields):
    form: Literal[1, 2] = at("metadata", "version", default=...)
    """Files before 2025-12 have none."""
    version: str = at("metadata", "guidellm_version", default=...)
    benchmarks: list[_Benchmark]


def matches(document: Any) -> bool:
    """Whether this tool wrote the document."""
    return isinstance(document, dict) and isinstance(document.get("benchmarks"), list)


def points(document: Any, file: str) -> Iterator[LoadPoint]:
    """Its figures; raises `ValidationError`."""
    report = _Report.model_validate(document)
    for one in report.benchmarks:
        yield LoadPoint(
            file=file,
            tool=f"{TOOL} {report.version}",
            label="",
            at_a_time=1 if one.strategy == "synchronous" else one.streams,
            per_second=one.rate,
            sent=one.sent,
            **one.common(),
        )
