"""Writes runs as `vllm bench serve --save-result --append-result` does: a file for each model, a line for each run.

Keys and their meaning: vllm 0.33.0, `vllm/benchmarks/serve.py`, `calculate_metrics` and `main_async`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

from tandem.bench_results import measures
from tandem.bench_results.measures import answered, percentile
from tandem.bench_results.result import Result, Run
from tandem.bench_results.result_file import NotWrittenError

PERCENTILES = (50, 95, 99)


def export_files(result_path: Path, ids: Iterable[str]) -> dict[str, Path]:
    """The file of each model, beside the result."""
    return {id: result_path.with_name(f"{result_path.stem}-{id}.vllm.jsonl".replace("/", "-")) for id in ids}


def append_run(result: Result, run: Run, files: Mapping[str, Path]) -> None:
    """Adds a line to the file of each model in the run. Raises `NotWrittenError`."""
    for endpoint in run.endpoints:
        path = files[endpoint]
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(as_vllm(result, run, endpoint)) + "\n")
        except OSError as error:
            raise NotWrittenError(f"{path} cannot be written: {error.strerror}.") from error


def as_vllm(result: Result, run: Run, endpoint: str) -> dict[str, Any]:
    """One model's part of a run. Text that vLLM does not write stands where its `--metadata KEY=VALUE` does."""
    rows = [row for row in run.rows if row.endpoint == endpoint]
    counted, good = [row for row in rows if row.counted], answered(rows)
    window = measures.window_us(rows)
    seconds = (window[1] - window[0]) / 1e6 if window else run.seconds
    # With the tokens of uncounted requests, which keep the load up until the slower model is done: see `tokens_per_s`.
    speed = measures.tokens_per_s(rows)
    model = next(server.model for server in result.servers if server.id == endpoint)
    company = "together" if len(run.endpoints) > 1 else "alone"
    excluded = measures.reasons_against(run)
    prompt_tokens = sum(row.prompt_tokens for row in good)
    return {
        "date": f"{datetime.fromisoformat(result.ended):%Y%m%d-%H%M%S}",
        "endpoint_type": "ollama",
        "backend": "ollama",
        "label": f"{result.label}, {company}, {run.prompt_words} words, repeat {run.repeat}",
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(counted),
        "tandem": result.session.versions.get("tandem", ""),
        "company": company,
        **({"excluded": "; ".join(excluded)} if excluded else {}),
        "request_rate": run.level if run.loop == "open" else "inf",
        "burstiness": 1.0,
        "max_concurrency": int(run.level) if run.loop == "closed" else None,
        "duration": seconds,
        "completed": len(good),
        "failed": len(counted) - len(good),
        "total_input_tokens": prompt_tokens,
        "total_output_tokens": round(speed * seconds),
        "request_throughput": len(good) / seconds if seconds else 0.0,
        "request_goodput": None,
        "output_throughput": speed,
        "total_token_throughput": speed + (prompt_tokens / seconds if seconds else 0.0),
        **_figures("ttft", [measures.ttft_ms(row) for row in good]),
        **_figures("tpot", [measures.itl_ms(row) for row in good if measures.has_itl(row)]),
        **_figures("itl", [gap for row in good for gap in measures.gaps_ms(row)]),
        **_figures("e2el", [measures.latency_ms(row) for row in good]),
    }


def _figures(name: str, sample: Sequence[float]) -> dict[str, float]:
    values = sample or [0.0]  # as vLLM does for what it could not measure
    return {
        f"mean_{name}_ms": fmean(values),
        f"median_{name}_ms": median(values),
        f"std_{name}_ms": pstdev(values),
        **{f"p{percent}_{name}_ms": percentile(values, percent) for percent in PERCENTILES},
    }
