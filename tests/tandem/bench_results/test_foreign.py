"""Results of other load generators: the same figures from all, and refusals. `samples/README.md` has their origin."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.bench_results.foreign.load_point import LoadPoint
from tandem.bench_results.foreign.reading import load_points
from tandem.bench_results.result_file import ResultError, parsed

SAMPLES = Path(__file__).parent / "samples"


def points(document: Any) -> list[LoadPoint]:
    found = load_points(document, Path("r.json"))
    assert found is not None
    return found


def sample(name: str) -> Any:
    return parsed(SAMPLES / f"{name}.json")


@pytest.mark.parametrize(
    ("name", "tool", "figures"),
    [
        ("vllm", "vLLM", (61.641, 222.00, 297.50, 26.862)),
        ("aiperf", "AIPerf 0.13.0", (61.643, 221.97, 297.49, 26.859)),
        # Its percentiles are not interpolated.
        ("guidellm", "guidellm 0.8.1", (61.652, 221.97, 312.70, 26.859)),
        ("inference-perf", "inference-perf", (61.652, 221.97, 297.49, 26.859)),
    ],
)
def test_each_tool_shows_the_same_ten_requests(name: str, tool: str, figures: tuple[float, ...]) -> None:
    [point] = points(sample(name))
    shown = (point.tokens_per_s, point.ttft_p50_ms, point.ttft_p95_ms, point.itl_p50_ms)
    assert shown == pytest.approx(figures, abs=0.006)
    assert (point.tool, point.answered, point.failed) == (tool, 9, 1)
    if name == "inference-perf":  # neither is in its summary
        assert (point.model, point.load) == (None, "not recorded")
    else:
        assert (point.model, point.load) == ("qwen3:4b", "2 at a time")


def test_a_real_file_of_2025_has_the_time_per_token_and_not_that_between_chunks() -> None:
    """Several tokens came in one chunk: the median gap is 0.047 ms, the time per token 12.65 ms."""
    [point] = points(sample("inference-perf-2025-11"))
    assert (point.answered, point.failed) == (47002, 0)
    assert point.tokens_per_s == pytest.approx(4646.5, abs=0.01)
    assert point.itl_p50_ms == pytest.approx(12.6466, abs=1e-4)


def changed(name: str, path: str, value: Any) -> Any:
    """The sample with another value at the path; `...` removes it."""
    document = sample(name)
    *way, last = path.split("/")
    part = document
    for key in way:
        part = part[int(key)] if isinstance(part, list) else part[key]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return document


@pytest.mark.parametrize(
    ("name", "path", "value", "shown"),
    [
        ("vllm", "max_concurrency", None, "10 at a time"),
        ("vllm", "request_rate", 2.5, "2.5 per second"),
        ("aiperf", "input_config/phases/0/rate", 0.5, "0.5 per second"),
        ("aiperf", "input_config/phases", [{"kind": "warmup", "concurrency": 9}], "not recorded"),
        ("guidellm", "benchmarks/0/config/strategy", {"type_": "synchronous"}, "1 at a time"),
        ("guidellm", "benchmarks/0/config/strategy", {"type_": "poisson", "rate": 3.0}, "3 per second"),
        ("guidellm", "benchmarks/0/config/strategy", {"type_": "throughput"}, "not recorded"),
        ("inference-perf", "load_summary", {"requested_rate": 4.0}, "4 per second"),
        # A stage of concurrent load also has a rate.
        ("inference-perf", "load_summary", {"requested_rate": 4.0, "concurrency": 8}, "8 at a time"),
    ],
)
def test_the_load_is_what_the_tool_was_asked_for(name: str, path: str, value: Any, shown: str) -> None:
    [point] = points(changed(name, path, value))
    assert point.load == shown


TTFT = "benchmarks/0/metrics/time_to_first_token_ms"


@pytest.mark.parametrize(
    ("name", "path", "value", "figure", "read"),
    [
        ("vllm", "p95_ttft_ms", ..., "ttft_p95_ms", None),  # by default, it has the 99th percentile alone
        ("vllm", "median_ttft_ms", 0.0, "ttft_p50_ms", None),  # a server that does not stream
        ("vllm", "failed", ..., "failed", 1),  # as in older files
        ("vllm", "label", "mps", "label", "mps"),
        ("vllm", "tandem", "0.1", "tool", "tandem 0.1"),
        ("aiperf", "time_to_first_token", ..., "ttft_p50_ms", None),
        ("aiperf", "error_request_count", ..., "failed", 0),
        ("aiperf", "was_cancelled", True, "label", "concurrency_2, stopped early"),
        ("aiperf", "is_complete", False, "label", "concurrency_2, stopped early"),
        ("aiperf", "is_complete", ..., "label", "concurrency_2"),
        ("aiperf", "input_config", {"endpoint": {"model_names": ["m"]}}, "model", "m"),  # as in 2025
        ("guidellm", "benchmarks/0/config/backend", {}, "model", None),
        ("guidellm", "metadata/version", 1, "tool", "guidellm 0.8.1"),
        # A total counts a failed request as 0.
        ("guidellm", f"{TTFT}/total", {"percentiles": {"p50": 0.0}}, "ttft_p50_ms", 221.967459),
        ("inference-perf", "successes/latency/time_to_first_token", None, "ttft_p50_ms", None),
    ],
)
def test_what_a_file_lacks_or_adds_is_read(name: str, path: str, value: Any, figure: str, read: Any) -> None:
    [point] = points(changed(name, path, value))
    assert getattr(point, figure) == read


def test_each_load_of_a_file_is_a_point() -> None:
    run, sweep = sample("vllm"), sample("guidellm")
    faster = {**run, "max_concurrency": 4}
    sweep["benchmarks"] *= 2
    sweep["benchmarks"][1] = changed("guidellm", "benchmarks/0/config/strategy/streams", 4)["benchmarks"][0]
    for document in ([run, faster], sweep):
        assert [point.load for point in points(document)] == ["2 at a time", "4 at a time"]


@pytest.mark.parametrize(
    ("name", "path", "value", "why"),
    [
        ("aiperf", "schema_version", "2.0", "(schema_version: must be 1.x, not '2.0')"),
        ("aiperf", "schema_version", "2\nerror: ", r"(schema_version: must be 1.x, not '2\nerror: ')"),
        ("aiperf", "aiperf_version", ..., "(aiperf_version: Field required)"),  # 2025: neither version
        ("aiperf", "time_to_first_token/unit", "sec", "(time_to_first_token.unit: Input should be 'ms'"),
        ("aiperf", "output_token_throughput/unit", "tokens/ms", "(output_token_throughput.unit: Input should be"),
        ("guidellm", "metadata/version", 3, "(metadata.version: Input should be 1 or 2)"),
        ("guidellm", "metadata", ..., "(metadata.version: Field required, and 1 more)"),
        ("guidellm", "benchmarks/0/metrics", ..., "(benchmarks.0.metrics.request_totals.successful: Field required"),
        ("vllm", "median_tpot_ms", -1.0, "(median_tpot_ms: Input should be greater than or equal to 0)"),
        ("vllm", "output_throughput", float("nan"), "(output_throughput: Input should be a finite number)"),
        ("inference-perf", "successes/count", "many", "(successes.count: Input should be a valid integer"),
    ],
)
def test_another_version_or_a_damaged_file_is_refused_with_the_place(
    name: str, path: str, value: Any, why: str
) -> None:
    with pytest.raises(ResultError) as refused:
        points(changed(name, path, value))
    text = str(refused.value)
    assert text.startswith("r.json is no report of ")
    assert why in text
    assert ". Choose a " in text
    assert "\n" not in text


def unanswered_guidellm(document: Any) -> Any:
    document["benchmarks"][0]["metrics"]["request_totals"] = {"successful": 0, "errored": 7}
    return document


FAILURES: dict[str, Callable[[Any], Any]] = {
    "vllm": lambda document: {**document, "completed": 0, "failed": 7, "output_throughput": 0.0},
    "aiperf": lambda document: {
        **{key: value for key, value in document.items() if key not in ("request_count", "output_token_throughput")},
        "error_request_count": {"unit": "requests", "avg": 7.0},
    },
    "guidellm": unanswered_guidellm,
    "inference-perf": lambda document: {**document, "successes": {"count": 0}, "failures": {"count": 7}},
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_file_without_a_successful_request_is_refused(name: str) -> None:
    why = r"r\.json has no successful request \(7 failed\)\. Repair the server and measure again\."
    with pytest.raises(ResultError, match=why):
        points(FAILURES[name](sample(name)))


def test_a_load_at_which_all_requests_failed_stays_beside_the_others() -> None:
    good, bad = sample("guidellm"), unanswered_guidellm(sample("guidellm"))
    good["benchmarks"] += bad["benchmarks"]
    assert [point.answered for point in points(good)] == [9, 0]


def test_a_benchmark_without_generated_tokens_is_refused() -> None:
    with pytest.raises(ResultError, match=r"r\.json has no output tokens per second\. Choose a benchmark that gen"):
        points(changed("aiperf", "output_token_throughput", ...))


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("vllm", "completed", 900),
        ("vllm", "failed", 2),
        ("aiperf", "request_count/avg", 900),
        ("guidellm", "benchmarks/0/metrics/request_totals/successful", 900),
        ("inference-perf", "successes/count", 900),
    ],
)
def test_more_requests_than_were_sent_are_refused(name: str, path: str, value: int) -> None:
    with pytest.raises(
        ResultError, match=r"^r\.json is damaged \(\d+ successful and \d failed requests of 10\)\. Copy"
    ):
        points(changed(name, path, value))


def test_more_answers_than_requests_are_refused_without_a_number_of_failures() -> None:
    document = {**changed("vllm", "failed", ...), "completed": 900}
    with pytest.raises(ResultError, match=r"\(900 successful and 0 failed requests of 10\)"):
        points(document)


@pytest.mark.parametrize("document", [[], {}, [1], "vllm", None, {"benchmarks": 1}, {"kind": "tandem bench"}])
def test_another_document_is_of_none_of_the_tools(document: Any) -> None:
    assert load_points(document, Path("r.json")) is None


def test_json_lines_are_read_and_a_cut_line_is_named(tmp_path: Path) -> None:
    path, run = tmp_path / "r.jsonl", json.dumps(sample("vllm"))
    path.write_text(f"{run}\n{run}\n{run}\n")
    assert len(points(parsed(path))) == 3
    path.write_text(f"{run}\n{run}\n{run[:99]}")
    with pytest.raises(ResultError, match=r"r\.jsonl is not complete JSON \(line 3: .*\)\. Copy it again"):
        parsed(path)
