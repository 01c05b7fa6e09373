"""`tandem bench` against servers with known behaviour."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tandem.bench.run import cases
from tandem.bench_results.result_file import read
from tests.command import ROOT, Ended
from tests.tandem.bench.test_exchange import load
from tests.tandem.conftest import LOAD, Servers
from tests.tandem.fake_ollama import loaded, ollama

pytestmark = pytest.mark.slow


def test_each_repeat_runs_the_models_alone_and_then_together() -> None:
    shown = [str(case) for case in cases(load(prompt_words=[8], concurrency=[2], repeats=2, rates=[0.5]), ["a", "b"])]
    who, loads = ("a", "b", "a + b"), ("2 at a time", "0.5 per second")
    assert shown[:6] == [f"{models}, 8 words, {load}, repeat 1" for load in loads for models in who]
    assert [case.replace("repeat 1", "repeat 2") for case in shown[:6]] == shown[6:]
    assert [case.endpoints for case in cases(load(repeats=1), ["a"])] == [("a",)]


def test_a_result_has_everything_needed_to_repeat_it(servers: Servers) -> None:
    servers["b"].models, servers["b"].digest = ("x:1",), "e"
    ended = servers.bench("--rate", "200", "--usd-per-hour", "0.5", "--label", "mps", "--seed", "3")
    assert ended.returncode == 0
    result = read(servers.path)
    assert result.complete
    assert (result.label, result.usd_per_hour, result.load.seed, result.load.rates) == ("mps", 0.5, 3, [200.0])
    [session] = result.sessions
    assert session.command[:2] == ["tandem", "bench"]
    assert [(server.id, server.model, server.ollama, server.digest) for server in session.servers] == [
        ("a", "tiny:1b", "0.32.15", "d"), ("b", "x:1", "0.32.15", "e")
    ]  # fmt: skip
    assert session.versions.keys() == {"tandem", "httpx"}
    assert session.salt
    assert [run.endpoints for run in result.runs] == [["a"], ["b"], ["a", "b"]] * 2
    assert result.runs[1].memory_start["b"] == result.runs[1].memory_end["b"]
    assert result.runs[1].memory_start["b"] is not None
    for run in result.runs:
        for endpoint in run.endpoints:
            rows = [row for row in run.rows if row.endpoint == endpoint and row.counted]
            assert len(rows) == 3
            assert all(row.error is None and row.tokens == len(row.arrivals_us) == 4 for row in rows)
            assert all((row.scheduled_us is not None) == (run.loop == "open") for row in rows)
            assert all(row.scheduled_us <= row.sent_us for row in rows if row.scheduled_us is not None)
            assert rows[0].prompt_tokens == 7
            assert rows[0].server.eval_ns == 80_000_000
        assert run.client_cpu_s > 0
    assert "per million tokens" in ended.stdout
    assert f"Result: {servers.path}" in ended.stdout
    assert "3/6 a + b, 8 words, 2 at a time, repeat 1" in ended.stderr


def test_the_runs_are_also_written_as_vllm_does(servers: Servers) -> None:
    """An exported file is as safe from being overwritten as the result, and nothing is left of a refused call."""
    ended = servers.bench("--export", "vllm")
    assert ended.returncode == 0
    files = [servers.path.with_name(f"r-{name}.vllm.jsonl") for name in "ab"]
    assert ended.stdout.endswith("".join(f"In vLLM's format: {file}\n" for file in files))
    for file in files:
        alone, together = map(json.loads, file.read_text().splitlines())
        assert (alone["company"], together["company"]) == ("alone", "together")
        assert (alone["completed"], alone["total_input_tokens"], alone["max_concurrency"]) == (3, 21, 2)
    servers.path.unlink()
    files[0].unlink()
    kept = files[1].read_bytes()
    refused = servers.bench("--export", "vllm")
    assert refused == Ended(2, "", f"error: {files[1]} already exists. Choose another file with -o.\n")
    assert [path.name for path in servers.path.parent.iterdir()] == [files[1].name]
    assert files[1].read_bytes() == kept
    printed = servers.bench("--export", "vllm", "--json", names="a").json
    assert printed["exported"] == [str(files[0])]


def test_a_file_to_share_lies_beside_the_result(servers: Servers) -> None:
    share = servers.path.with_name("r.share.json")
    for server, model in zip(servers.values(), ("llama2:7b", "mistral:7b"), strict=True):
        server.models = (model,)
    ended = servers.bench("timeslice", "--share")
    assert (ended.returncode, ended.stderr.count("warning")) == (0, 0)
    assert ended.stdout.endswith(
        f"To share: {share}\nIt names no machine, account or address. Read it, then send it as a pull request to "
        "docs/benchmarks/community/.\n"
    )
    assert [model["name"] for model in json.loads(share.read_text())["models"]] == ["llama2:7b", "mistral:7b"]
    servers.path.unlink()
    refused = servers.bench("timeslice", "--share", "--json")
    assert (refused.returncode, refused.json["error"]) == (2, f"{share} already exists. Choose another file with -o.")


def test_without_a_plan_there_is_nothing_to_share(servers: Servers) -> None:
    """Nothing is measured then. With models of no plan, the result is kept."""
    refused = servers.bench("--share")
    assert (refused.returncode, servers.prompts) == (2, [])
    assert (
        "--share needs a stack, whose plan has the GPU and the mode. Write `tandem bench STACK --share`."
        in refused.stderr
    )
    ended = servers.bench("timeslice", "--share")
    assert ended.returncode == 1
    assert "r.json has no figures that count. a, tiny:1b: not in the plan" in ended.stderr
    assert [path.name for path in servers.path.parent.iterdir()] == ["r.json"]


def test_the_version_in_a_result_is_that_of_our_distribution(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tandem` belongs to another author on the package index, and the metadata of a checkout may be outdated."""
    of_the_checkout = servers.path.with_name("of-the-checkout.json")
    servers.bench(path=of_the_checkout)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert read(of_the_checkout).sessions[0].versions["tandem"] == project["version"]
    monkeypatch.setattr("tandem.installation.is_checkout", lambda: False)
    monkeypatch.setattr("importlib.metadata.version", {"tandem-gpu": "1.2.3", "tandem": "9"}.__getitem__)
    servers.bench()
    assert read(servers.path).sessions[0].versions["tandem"] == "1.2.3"


def test_a_first_token_that_the_prompt_does_not_explain_is_a_warning(servers: Servers) -> None:
    servers["a"].first_s, servers["a"].prompt_s = 0.3, 0.05
    ended = servers.bench("--concurrency", "1", names="a")
    printed = servers.bench("--concurrency", "1", "--json", names="a", path=servers.path.with_name("2.json")).json
    assert "parts of the time to first token" in ended.stdout
    [warning] = printed["warnings"]
    for text in (ended.stdout, f"warning: {warning}"):
        assert re.search(
            r"warning: a alone, 8 words, 1 at a time: [89]\d% of the time to first token \(\d+ of \d+ ms\)", text
        )
    parts = printed["figures"][0]["first_token"]
    assert (parts["waiting_ms"], parts["prompt_ms"]) == (0, pytest.approx(50))
    assert parts["rest_ms"] > 200


def test_the_servers_get_the_load_without_repeated_prompts(servers: Servers) -> None:
    servers.bench("--temperature", "0.5", names="a")
    servers.bench(names="a", path=servers.path.with_name("2.json"))
    first = servers["a"].requests[0]
    assert first["options"] == {"num_predict": 4, "temperature": 0.5, "seed": 1}
    assert (first["model"], first["stream"]) == ("tiny:1b", True)
    assert len(set(servers.prompts)) == len(servers.prompts) >= 8


def test_a_salt_repeats_the_prompts(servers: Servers) -> None:
    for name in ("1", "2"):
        servers.bench("--salt", "x", "--concurrency", "1", names="a", path=servers.path.with_name(name))
    assert sorted(servers.prompts[: len(servers.prompts) // 2]) == sorted(servers.prompts[len(servers.prompts) // 2 :])


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("busy", "503: server busy"),
        ("breaks", "closed the connection early: "),
        ("stops", "the stream ended before the reply was complete"),
        ("says", "an error was encountered while running the model: CUDA error"),
    ],
)
def test_if_half_of_the_requests_fail_the_rest_is_kept_and_reported(fault: str, error: str, servers: Servers) -> None:
    servers["a"].fault, servers["a"].fault_from, servers["a"].fault_every = fault, 1, 2
    ended = servers.bench("--requests", "8", names="a")
    assert ended.returncode == 1
    rows = [row for row in read(servers.path).runs[0].rows if row.counted]
    bad = [row for row in rows if row.error]
    assert 3 <= len(bad) <= 5
    assert len(rows) == 8
    assert all(str(row.error).startswith(error) for row in bad)
    assert "of 8 failed" in ended.stderr
    assert f"{len(bad)} requests failed: {len(bad)} × {error}" in ended.stderr


def test_the_other_runs_are_kept_if_a_server_dies(servers: Servers) -> None:
    servers["b"].fault, servers["b"].fault_from = "breaks", 1
    assert servers.bench().returncode == 1
    result = read(servers.path)
    assert result.complete
    assert [sum(row.error is None for row in run.rows if row.counted) for run in result.runs] == [3, 0, 3]


def test_ctrl_c_keeps_the_finished_runs(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with ollama() as a, ollama(endless=True, fault_from=1) as b:
        urls = ("--url", f"a={a.url}", "--url", f"b={b.url}")
        command = [sys.executable, "-m", "tandem", "bench", *urls, "-o", str(path), *LOAD]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1/3 a, 8 words")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, err) == (130, f"Interrupted. 1 run is in {path}.\n")
    assert "a alone" in out
    result = read(path)
    assert not result.complete
    assert [run.endpoints for run in result.runs] == [["a"]]
    assert os.listdir(tmp_path) == ["r.json"]


def test_ctrl_c_before_the_first_run_leaves_no_file(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.bench.screen.Progress.begins", lambda *_: signal.raise_signal(signal.SIGINT))
    assert servers.bench() == Ended(130, "", "Interrupted. No run was kept.\n")
    assert not servers.path.exists()


def test_an_existing_result_is_not_overwritten_nor_that_of_another_benchmark_that_runs(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = []
    monkeypatch.setattr("tandem.bench.screen.Progress.begins", lambda *_: others.append(servers.bench(names="a")))
    assert servers.bench(names="a").returncode == 0
    shown = f"error: {servers.path} already exists. Choose another file with -o.\n"
    alias = servers.path.with_name("alias.json")
    alias.symlink_to(servers.path)
    assert [*others, servers.bench(), servers.bench(path=alias)] == [Ended(2, "", shown)] * 3
    assert len(read(servers.path).runs) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none/r.json", "cannot be written: No such file or directory"),
        ("x" * 300, "cannot be written: File name too long"),
        (".", "already exists"),
    ],
)
def test_an_unusable_path_is_one_line(name: str, why: str, servers: Servers, tmp_path: Path) -> None:
    ended = servers.bench(path=tmp_path / name)
    assert ended == Ended(2, "", f"error: {tmp_path / name} {why}. Choose another file with -o.\n")
    assert servers.prompts == []


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_every_written_run_and_shows_the_last(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.bench.screen.Progress.ended", lambda *_: monkeypatch.setattr(os, "fsync", full_disk))
    ended = servers.bench()
    assert ended.returncode == 1
    assert "b alone" in ended.stdout  # the run that could not be written
    why = f"{servers.path} cannot be written: No space left on device."
    assert ended.stderr == f"error: {why} 1 run is in {servers.path}.\n"
    assert len(read(servers.path).runs) == 1
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_full_disk_at_the_first_run_is_one_line(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full_disk)
    ended = servers.bench("--json")
    assert ended.json["error"].endswith("cannot be written: No space left on device. No run was kept.")
    assert (ended.returncode, ended.json["complete"], ended.json["runs"]) == (1, False, 1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ((2**30, 2**29), "b was partly on the CPU: 50% of its 1,024 MiB was on the GPU."),
        ((5000, 0), "b was on the CPU: 0% of its 1 MiB was on the GPU."),
        ((10**6, 10**6 - 1), "b was partly on the CPU: 99% of its 1 MiB was on the GPU."),
        (None, "the memory of b is unknown: its server did not list it as loaded."),
        ((0, 0), "the memory of b is unknown: its server did not list it as loaded."),
    ],
)
def test_a_model_outside_the_gpu_stops_the_benchmark_before_its_first_run(
    place: tuple[int, int] | None, shown: str, servers: Servers, tmp_path: Path
) -> None:
    size, size_vram = place or (0, 0)
    servers["b"].answers["/api/ps"] = {"models": [loaded("tiny:1b", size, size_vram)] if place else []}
    fix = "Results would not be comparable. Give it more GPU memory, or pass --allow-cpu to measure anyway."
    assert servers.bench() == Ended(1, "", f"error: {shown}\nerror: {fix}\n")
    assert len(servers.prompts) == 2  # one to load each model
    assert os.listdir(tmp_path) == []
    ended = servers.bench("--allow-cpu")
    assert ended.returncode == 0
    assert "2 of 3 runs are excluded: " + shown.removesuffix(".") in ended.stdout
    assert len(read(servers.path).runs) == 3


def test_a_server_that_does_not_answer_its_first_request_stops_the_benchmark(servers: Servers, tmp_path: Path) -> None:
    servers["a"].fault = "busy"
    why = "a did not answer its first request (503: server busy)"
    assert servers.bench("--allow-cpu") == Ended(1, "", f"error: {why}. Repair that server, then repeat the command.\n")
    servers["a"].fault, servers["a"].endless = "", True
    why = "a did not answer its first request (not complete within 0.05 s)"
    shown = f"error: {why}. Raise --timeout or repair that server, then repeat the command.\n"
    assert servers.bench("--timeout", "0.05", names="a") == Ended(1, "", shown)
    assert os.listdir(tmp_path) == []


def test_a_named_stack_adds_its_plan_its_cost_and_its_mode(servers: Servers) -> None:
    assert servers.bench("mps", names="a").returncode == 0
    result = read(servers.path)
    assert result.label == "mps"
    plan = json.loads(servers.path.read_text())["plan"]
    assert "resources" not in plan
    assert result.usd_per_hour == plan["cost"]["usd_per_hour"] > 0


def test_json_is_the_summary(servers: Servers) -> None:
    ended = servers.bench("--json")
    assert (ended.returncode, ended.json["complete"], ended.stderr) == (0, True, "")
    assert ended.json["schema_version"] == 2
    [row] = ended.json["equal_load"]
    assert row["on_gpu"] == {"prompt_words": 8, "loop": "closed", "level": 4.0}
    assert row["remark"] == "no run of each model alone at 4 (--concurrency 4)"
