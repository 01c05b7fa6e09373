"""Runs in the format of `vllm bench serve`, which computes with numpy (vllm 0.33.0, `calculate_metrics`)."""

import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

from tandem.bench_results.foreign.reading import load_points
from tandem.bench_results.foreign.vllm_export import append_run, as_vllm, export_files
from tandem.bench_results.result_file import parsed
from tandem.bench_results.summary import summary
from tests.tandem.results import SPILLED, failed, mps, result, row, run

SAMPLE = Path(__file__).parent / "samples" / "vllm.json"
LEFT_OUT = {"latencies", "queue_times", "max_output_tokens_per_s", "max_concurrent_requests", "rtfx", "target"}
"""Keys that vLLM's own older files do not have either, and one from `--metadata`."""


def test_a_line_has_vllms_keys_with_its_meaning_of_each() -> None:
    rows = [
        row([100.0, 120.0, 160.0]),  # 30 ms per token
        row([200.0, 210.0, 220.0], sent_ms=160.0),  # 10 ms
        row([50.0], sent_ms=380.0, prompt_tokens=60),  # too short for a time per token
        failed(sent_ms=430.0),
    ]
    one = run(["a"], rows)
    line = as_vllm(result("mps", [one]), one, "a")
    assert line.keys() >= json.loads(SAMPLE.read_text()).keys() - LEFT_OUT
    first, token, gaps = [100.0, 200.0, 50.0], [30.0, 10.0], [20.0, 40.0, 10.0, 10.0]
    for name, sample in {"ttft": first, "tpot": token, "itl": gaps, "e2el": [160.0, 220.0, 50.0]}.items():
        for key, value in {
            "mean": numpy.mean(sample),
            "median": numpy.median(sample),
            "std": numpy.std(sample),
            "p95": numpy.percentile(sample, 95),
            "p99": numpy.percentile(sample, 99),
        }.items():
            assert line[f"{key}_{name}_ms"] == pytest.approx(value)
    # 7 tokens and 200 of prompts in the 430 ms until the last answer.
    assert line["duration"] == 0.43
    assert (line["num_prompts"], line["completed"], line["failed"]) == (4, 3, 1)
    assert (line["total_input_tokens"], line["total_output_tokens"]) == (200, 7)
    assert line["output_throughput"] == pytest.approx(7 / 0.43)
    assert line["total_token_throughput"] == pytest.approx(207 / 0.43)
    assert line["request_throughput"] == pytest.approx(3 / 0.43)
    assert (line["max_concurrency"], line["request_rate"], line["model_id"]) == (4, "inf", "llama2:7b")
    assert line["label"] == "mps, alone, 64 words, repeat 1"
    assert line["date"] == "20261121-103000"
    assert "excluded" not in line


def test_an_open_loop_has_a_rate_and_a_run_that_is_not_compared_says_why() -> None:
    one = run(["a", "b"], [row([1.0, 2.0]), failed("b")], loop="open", level=0.5, memory=SPILLED)
    line = as_vllm(result("mps", [one]), one, "b")
    assert (line["request_rate"], line["max_concurrency"], line["completed"]) == (0.5, None, 0)
    assert line["median_ttft_ms"] == line["output_throughput"] == 0
    assert (line["duration"], line["request_throughput"]) == (one.seconds, 0)
    assert line["company"] == "together"
    assert "b answered no request" in line["excluded"]


def test_the_files_have_the_figures_of_our_summary(tmp_path: Path) -> None:
    """A file for each model, a line for each run: what `tandem report` says of the result and of the files agrees."""
    one = mps()
    files = export_files(tmp_path / "r.json", ["a", "b/c"])
    assert [path.name for path in files.values()] == ["r-a.vllm.jsonl", "r-b-c.vllm.jsonl"]
    files = {"a": files["a"], "b": files["b/c"]}
    for each in one.runs:
        append_run(one, each, files)
    for endpoint, path in files.items():
        points = load_points(parsed(path), path) or []
        assert [point.label.split(", ")[1] for point in points] == ["alone", "together"] * 3
        figures = [figure for figure in summary(one).figures if figure.endpoint == endpoint]
        for point, figure in zip(points[:2], figures, strict=True):
            assert figure.tokens_per_s and figure.ttft_ms and figure.itl_ms  # noqa: PT018
            assert point.tokens_per_s == pytest.approx(figure.tokens_per_s.median)
            assert (point.ttft_p50_ms, point.ttft_p95_ms) == pytest.approx((figure.ttft_ms.p50, figure.ttft_ms.p95))
            assert point.itl_p50_ms == pytest.approx(figure.itl_ms.p50)


def test_tokens_of_uncounted_requests_are_speed_but_not_answers() -> None:
    """Those of the faster model until the slower one is done: 2 + 1 tokens arrive in the 200 ms of the counted one."""
    rows = [row([100.0, 200.0]), replace(row([150.0, 300.0]), counted=False)]
    one = run(["a"], rows)
    line = as_vllm(result("mps", [one]), one, "a")
    assert (line["completed"], line["total_output_tokens"]) == (1, 3)
    assert line["output_throughput"] == pytest.approx(15)
