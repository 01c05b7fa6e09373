"""`tandem bench` against servers with known behaviour."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.bench.run import Bench, Case, Measured, cases
from tandem.bench.stream import Exchange
from tandem.bench_results.result import Load, Row
from tandem.bench_results.result_file import ResultError, read, write
from tests.command import Ended, call
from tests.tandem.conftest import LOAD
from tests.tandem.fake_ollama import FakeOllama, ollama
from tests.tandem.results import server as described
from tests.tandem.results import shared

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def bench(path: Path, *arguments: str, **servers: FakeOllama) -> Ended:
    urls = [part for name, server in servers.items() for part in ("--url", f"{name}={server.url}")]
    return call("bench", *urls, "-o", str(path), *LOAD, *arguments)


def load(**changes: Any) -> Load:
    fields: dict[str, Any] = {
        "prompt_words": [8], "output_tokens": 4, "concurrency": [2], "rates": [], "requests": 3, "warmup": 0,
        "repeats": 1, "seed": 1, "temperature": 0.0, "timeout_s": 30.0,
    }  # fmt: skip
    return Load(**{**fields, **changes})


def test_each_repeat_runs_the_models_alone_and_then_together() -> None:
    shown = [str(case) for case in cases(load(repeats=2, rates=[0.5]), ["a", "b"])]
    who, loads = ("a", "b", "a + b"), ("2 at a time", "0.5 per second")
    assert shown[:6] == [f"{one}, 8 words, {load}, repeat 1" for load in loads for one in who]
    assert [one.replace("repeat 1", "repeat 2") for one in shown[:6]] == shown[6:]
    assert [case.endpoints for case in cases(load(), ["a"])] == [("a",)]


def test_a_result_has_everything_needed_to_repeat_it(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama() as a, ollama("x:1", digest="e") as b:
        ended = bench(path, "--rate", "200", "--usd-per-hour", "0.5", "--label", "mps", "--seed", "3", a=a, b=b)
    assert ended.returncode == 0
    found = read(path)
    assert found.complete
    assert (found.label, found.usd_per_hour, found.load.seed, found.load.rates) == ("mps", 0.5, 3, [200.0])
    [session] = found.sessions
    assert session.command[:2] == ["tandem", "bench"]
    assert [(one.id, one.model, one.ollama, one.digest) for one in session.servers] == [
        ("a", "tiny:1b", "0.32.15", "d"), ("b", "x:1", "0.32.15", "e")
    ]  # fmt: skip
    assert session.versions.keys() == {"tandem", "httpcore"}
    assert session.salt
    assert [run.endpoints for run in found.runs] == [["a"], ["b"], ["a", "b"]] * 2
    assert found.runs[1].memory_start["b"] == found.runs[1].memory_end["b"]
    assert found.runs[1].memory_start["b"] is not None
    for run in found.runs:
        for endpoint in run.endpoints:
            rows = [row for row in run.rows if row.endpoint == endpoint and row.counted]
            assert len(rows) == 3
            assert all(row.error is None and row.tokens == len(row.arrivals_us) == 4 for row in rows)
            assert all((row.scheduled_us is not None) == (run.loop == "open") for row in rows)
            assert all(row.scheduled_us <= row.sent_us for row in rows if row.scheduled_us is not None)
            assert rows[0].prompt_tokens == 7
            assert rows[0].server.eval_ns == 80_000_000
        assert run.client_cpu_s > 0
    assert "together" in ended.stdout
    assert "per million tokens" in ended.stdout
    assert f"Result: {path}" in ended.stdout
    assert "3/6 a + b, 8 words, 2 at a time, repeat 1" in ended.stderr


def test_a_first_token_that_the_prompt_does_not_explain_is_a_warning(tmp_path: Path) -> None:
    with ollama(first_s=0.3, prompt_s=0.05) as a:
        ended = bench(tmp_path / "1.json", "--concurrency", "1", a=a)
        printed = bench(tmp_path / "2.json", "--concurrency", "1", "--json", a=a).json
    assert "parts of the time to first token" in ended.stdout
    [warning] = printed["warnings"]
    for found in (ended.stdout, f"warning: {warning}"):
        assert re.search(
            r"warning: a alone, 8 words, 1 at a time: [89]\d% of the time to first token \(\d+ of \d+ ms\)", found
        )
    parts = printed["figures"][0]["first_token"]
    assert (parts["waiting_ms"], parts["prompt_ms"]) == (0, pytest.approx(50))
    assert parts["rest_ms"] > 200


def test_the_servers_get_the_load_without_repeated_prompts(tmp_path: Path) -> None:
    with ollama() as a:
        bench(tmp_path / "1.json", "--temperature", "0.5", a=a)
        bench(tmp_path / "2.json", a=a)
    assert a.requests[0]["options"] == {"num_predict": 4, "temperature": 0.5, "seed": 1}
    assert a.requests[0]["model"] == "tiny:1b"
    assert a.requests[0]["stream"] is True
    prompts = [request["prompt"] for request in a.requests]
    assert len(set(prompts)) == len(prompts) >= 8


def test_the_faster_model_continues_until_the_slower_one_is_done(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama() as fast, ollama(first_s=0.02) as slow:
        bench(path, fast=fast, slow=slow)
    both = read(path).runs[2]
    begin, end = (pick(row.sent_us for row in both.rows if row.endpoint == "slow") for pick in (min, max))
    counted = [row for row in both.rows if row.endpoint == "slow" and row.counted]
    assert [row.error for row in counted] == [None, None, None]
    company = [row for row in both.rows if row.endpoint == "fast" and not row.counted]
    assert company
    assert max(row.sent_us for row in company) > begin
    assert end > begin


def measured(server: FakeOllama, case: Case, given: Load) -> Measured:
    async def measure() -> Measured:
        bench = Bench([replace(described("a", "tiny:1b"), url=server.url)], given, "salt")
        found = await bench.measure(case)
        await bench.close()
        return found

    return asyncio.run(measure())


def test_arrivals_follow_the_servers_sends_in_order_on_the_same_clock() -> None:
    case = Case(1, ("a",), 8, "closed", 8.0)
    with ollama(first_s=0.01, next_s=0.005) as server:
        found = measured(server, case, load(requests=16, output_tokens=10))
    bench = Bench([described("a", "tiny:1b")], load(output_tokens=10), "salt")
    for number, row in enumerate(row for row in found.rows if row.counted):
        received, *truth = server.sent[str(bench.request(case, "a", number)["prompt"])]
        begin = found.begin_ns + row.sent_us * 1000
        assert begin <= received
        assert len(truth) == len(row.arrivals_us) == 10
        # The kernel stamps during the sender's call, so never much earlier, even on a busy machine.
        assert all(
            begin + arrived * 1000 > piece - 2_000_000 for arrived, piece in zip(row.arrivals_us, truth, strict=True)
        )
        assert row.arrivals_us == sorted(row.arrivals_us)


def exchange(*parts: str, status: int = 200) -> Row:
    found = Exchange("a", counted=True, sent_ns=1_000_000, status=status)
    found.parts = [(1_000_000 + 1000 * number, part.encode()) for number, part in enumerate(parts, start=1)]
    return found.row(0)


def test_a_line_gets_the_time_of_its_last_byte() -> None:
    found = exchange('{"response": "a"}\n{"resp', 'onse": "b"}', '\n{"done": true, "eval_count": 2}\n')
    assert (found.arrivals_us, found.tokens, found.error, found.sent_us) == ([1, 3], 2, None, 1000)


def test_empty_pieces_are_not_arrivals_but_thoughts_are() -> None:
    found = exchange('{"response": ""}\n', '{"thinking": "hm"}\n', '{"response": "a", "done": true}\n')
    assert found.arrivals_us == [2, 3]


@pytest.mark.parametrize(
    ("parts", "status", "error"),
    [
        (['{"response": "a"}\n'], 200, "the stream ended before the reply was complete"),
        (['{"response": "a"}\n', '{"error": "CUDA"}\n'], 200, "CUDA"),
        (['{"done": true}\n'], 200, "the answer is empty"),
        (["<html>\n"], 200, "not Ollama's answer (Invalid JSON: expected value at line 1 column 1)"),
        (['{"error": "server busy"}'], 503, "503: server busy"),
        (["x" * 1000], 502, "502: " + "x" * 295),
        ([], 500, "500"),
    ],
)
def test_a_bad_answer_is_an_error_in_its_row(parts: list[str], status: int, error: str) -> None:
    assert exchange(*parts, status=status).error == error


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("busy", "503: server busy"),
        ("breaks", "closed the connection early: "),
        ("stops", "the stream ended before the reply was complete"),
        ("says", "an error was encountered while running the model: CUDA error"),
    ],
)
def test_if_half_of_the_requests_fail_the_rest_is_kept_and_reported(fault: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama(fault=fault, fault_from=1, fault_every=2) as a:
        ended = bench(path, "--requests", "8", a=a)
    assert ended.returncode == 1
    rows = [row for row in read(path).runs[0].rows if row.counted]
    bad = [row for row in rows if row.error]
    assert 3 <= len(bad) <= 5
    assert len(rows) == 8
    assert all(str(row.error).startswith(error) for row in bad)
    assert "of 8 failed" in ended.stderr
    assert f"{len(bad)} requests failed: {len(bad)} × {error}" in ended.stderr


def test_a_request_that_takes_too_long_is_an_error() -> None:
    with ollama(endless=True) as a:
        found = measured(a, Case(1, ("a",), 8, "closed", 1.0), load(requests=1, timeout_s=0.05))
    assert found.rows[0].error == "not complete within 0.05 s"


def test_the_earlier_runs_are_kept_if_a_server_dies(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama() as a, ollama(fault="breaks", fault_from=1) as b:
        assert bench(path, a=a, b=b).returncode == 1
    found = read(path)
    assert found.complete
    assert [sum(row.error is None for row in run.rows if row.counted) for run in found.runs] == [3, 0, 3]


def test_ctrl_c_keeps_the_finished_runs_and_resume_continues(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama() as a, ollama(endless=True, fault_from=1) as b:
        urls = ("--url", f"a={a.url}", "--url", f"b={b.url}")
        command = [sys.executable, "-m", "tandem", "bench", *urls, "-o", str(path), *LOAD]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1/3 a, 8 words")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err == f"Interrupted. 1 run is in {path}. Continue with --resume.\n"
    kept = read(path)
    assert not kept.complete
    assert [run.endpoints for run in kept.runs] == [["a"]]
    with ollama() as a, ollama() as b:
        assert bench(path, "--resume", a=a, b=b).returncode == 0
    done = read(path)
    assert done.complete
    assert [run.endpoints for run in done.runs] == [["a"], ["b"], ["a", "b"]]
    assert done.runs[0] == kept.runs[0]
    assert done.sessions[0] == kept.sessions[0]


def test_an_existing_result_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("mine")
    with ollama() as a:
        ended = bench(path, a=a)
    shown = f"error: {path} already exists. Continue it with --resume, or choose another file with -o.\n"
    assert ended == Ended(2, "", shown)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("change", [("--requests", "4"), ("--model", "a=other")])
def test_resuming_with_other_options_is_refused(change: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama("tiny:1b", "other") as a:
        assert bench(path, "--model", "a=tiny:1b", a=a).returncode == 0
        model = () if change[0] == "--model" else ("--model", "a=tiny:1b")
        ended = bench(path, "--resume", *model, *change, a=a)
    assert ended.returncode == 2
    assert "Repeat its original arguments." in ended.stderr


def test_a_named_stack_adds_its_plan_its_cost_and_its_mode(tmp_path: Path) -> None:
    with ollama() as a:
        assert bench(tmp_path / "r.json", "mps", a=a).returncode == 0
    found = read(tmp_path / "r.json")
    assert found.label == "mps"
    plan = json.loads((tmp_path / "r.json").read_text())["plan"]
    assert "resources" not in plan
    assert found.usd_per_hour == plan["cost"]["usd_per_hour"] > 0


def test_json_is_the_summary(tmp_path: Path) -> None:
    with ollama() as a, ollama() as b:
        ended = bench(tmp_path / "r.json", "--json", a=a, b=b)
    shown = ended.json
    assert (ended.returncode, shown["complete"], ended.stderr) == (0, True, "")
    assert shown["sharing"][0]["workload"] == {"prompt_words": 8, "loop": "closed", "level": 2.0}


def test_a_result_is_read_back_unchanged_and_every_truncation_is_noticed(tmp_path: Path) -> None:
    one = shared("mps", (20.0, 40.0), (40.0, 60.0))
    write(one, tmp_path / "r.json")
    assert read(tmp_path / "r.json") == one
    assert os.listdir(tmp_path) == ["r.json"]
    text = (path := tmp_path / "r.json").read_text()
    for size in range(0, len(text) - 2, len(text) // 50):
        path.write_text(text[:size])
        with pytest.raises(ResultError, match=r"r\.json is not complete JSON"):
            read(path)
