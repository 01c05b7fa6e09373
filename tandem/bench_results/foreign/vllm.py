"""Results of `vllm bench serve`: one JSON object, or one per line with `--append-result`.

Fields: vllm 0.33.0, `vllm/benchmarks/serve.py`, `calculate_metrics` and `main_async`. Summaries are in milliseconds.
TPOT is (latency - TTFT) / (tokens - 1) of each request. Its ITL is every gap between chunks, so it is not read.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import FiniteFloat

from tandem.bench_results.foreign.load_point import Fields, Figure, LoadPoint, at
from tandem.bench_results.result import Count

TOOL, FILE = "vLLM", "file of `--save-result` of vLLM 0.33.0"


class _Run(Fields):
    model: str = at("model_id", default=...)
    label: str | None = None
    tandem: str | None = None
    """Only in a file of `tandem bench --export vllm`: its version."""
    sent: Count = at("num_prompts", default=...)
    answered: Count = at("completed", default=...)
    errors: Count | None = at("failed")
    """Not in older files."""
    request_rate: FiniteFloat | str = "inf"
    max_concurrency: Count | None = None
    """None: all requests are sent at once, or at the rate."""
    tokens_per_s: Figure = at("output_throughput", default=...)
    # Without a tokenizer there are no times. The default percentile is the 99th only.
    ttft_p50_ms: Figure = at("median_ttft_ms")
    ttft_p95_ms: Figure = at("p95_ttft_ms")
    itl_p50_ms: Figure = at("median_tpot_ms")


def matches(document: Any) -> bool:
    """Whether this tool wrote the document, which has no field for its version."""
    runs = document if isinstance(document, list) else [document]
    return bool(runs) and all(isinstance(run, dict) and "num_prompts" in run for run in runs)


def points(document: Any, file: str) -> Iterator[LoadPoint]:
    """Its figures; raises `ValidationError`."""
    for part in document if isinstance(document, list) else [document]:
        run = _Run.model_validate(part)
        yield LoadPoint(
            file=file,
            tool=f"tandem {run.tandem}" if run.tandem else TOOL,
            label=run.label or "",
            at_a_time=run.max_concurrency or run.sent,
            per_second=run.request_rate if isinstance(run.request_rate, float) else None,
            sent=run.sent,
            failed=max(run.sent - run.answered, 0) if run.errors is None else run.errors,
            **run.common(),
        )
