"""Results of inference-perf: `stage_N_lifecycle_metrics.json` of one load, or the summary of all stages.

Fields: inference-perf 0.7.0, `inference_perf/reportgen/base.py`, `summarize_requests`. Times are in seconds, and a
distribution without values is null. TPOT is (last token - first token) / (tokens - 1). Its ITL is every gap, near 0
where a chunk has several tokens. The model is only in `config.yaml` beside the file.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator

from tandem.bench_results.foreign.load_point import Fields, Figure, LoadPoint, at
from tandem.bench_results.result import Count

TOOL, FILE = "inference-perf", "`stage_N_lifecycle_metrics.json` of inference-perf 0.7.0"


Milliseconds = Annotated[Figure, AfterValidator(lambda seconds: seconds and seconds * 1000)]


class _Report(Fields):
    model: None = None
    concurrency: Count | None = at("load_summary", "concurrency")
    rate: Figure = at("load_summary", "requested_rate")
    """Also there beside a concurrency."""
    sent: Count | None = at("load_summary", "count")
    answered: Count = at("successes", "count", default=...)
    failed: Count = at("failures", "count", default=...)
    tokens_per_s: Figure = at("successes", "throughput", "output_tokens_per_sec")
    ttft_p50_ms: Milliseconds = at("successes", "latency", "time_to_first_token", "median")
    ttft_p95_ms: Milliseconds = at("successes", "latency", "time_to_first_token", "p95")
    itl_p50_ms: Milliseconds = at("successes", "latency", "time_per_output_token", "median")


def matches(document: Any) -> bool:
    """Whether this tool wrote the document, which has no field for its version."""
    return isinstance(document, dict) and "load_summary" in document


def points(document: Any, file: str) -> Iterator[LoadPoint]:
    """Its figures; raises `ValidationError`."""
    report = _Report.model_validate(document)
    yield LoadPoint(
        file=file,
        tool=TOOL,
        label="",
        at_a_time=report.concurrency,
        per_second=None if report.concurrency else report.rate,
        sent=report.sent,
        **report.common(),
    )
