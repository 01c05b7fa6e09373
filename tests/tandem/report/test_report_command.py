"""`tandem report`: from results to a page, or to figures for programs."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tandem.bench_results.result import Memory, Result
from tandem.bench_results.result_file import read, write
from tests.command import Ended, call
from tests.tandem.bench_results.test_foreign import SAMPLES
from tests.tandem.report.reader import Reader
from tests.tandem.results import SPILLED, exclusive, mps, session, shared, timed

pytestmark = pytest.mark.slow


def report(folder: Path, *results: Result, arguments: tuple[str, ...] = ()) -> Ended:
    paths = [folder / f"{number}.json" for number in range(len(results))]
    for one, path in zip(results, paths, strict=True):
        write(one, path)
    return call("report", *map(str, paths), "-o", str(folder / "out"), *arguments)


def test_a_report_creates_its_folder_with_those_above_it(tmp_path: Path) -> None:
    write(shared("a", (10, 10), (20, 20)), tmp_path / "r.json")
    assert call("report", str(tmp_path / "r.json"), "-o", str(tmp_path / "a" / "b")).returncode == 0
    assert (tmp_path / "a" / "b" / "report.html").exists()


def title(folder: Path) -> str:
    return Reader((folder / "out" / "report.html").read_text()).lines[0]


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        assert report(tmp_path / name, mps(), exclusive()).returncode == 0
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / n / "out").iterdir()} for n in "12")
    assert first.keys() == {"report.html"}
    assert first == second


def test_where_all_runs_spilled_the_command_fails(tmp_path: Path) -> None:
    places: dict[str, Memory | None] = {"a": SPILLED, "b": SPILLED}
    runs = [dataclasses.replace(one, memory_start=places, memory_end=places) for one in mps().runs]
    ended = report(tmp_path, mps(runs=runs))
    said = f"{tmp_path / 'out' / 'report.html'}\n"
    why = 'no run can be compared. Read why under "Excluded runs" in the report.'
    assert ended == Ended(1, said, f"error: {why}\n")


def test_two_results_with_the_same_label_are_distinguished(tmp_path: Path) -> None:
    report(tmp_path, mps(), mps())
    assert "mps (0) vs. mps (1)" in title(tmp_path)


def refusal(*paths: Path) -> str:
    ended = call("report", *map(str, paths), "-o", str(paths[0].parent / "out"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert not (paths[0].parent / "out").exists()
    return ended.stderr


def test_results_of_different_loads_are_refused_with_every_difference(tmp_path: Path) -> None:
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    other = exclusive()
    other.load = dataclasses.replace(other.load, output_tokens=7, prompt_words=[8])
    other.sessions = [session(servers=other.servers[:1])]
    other.runs = [one for one in other.runs if one.endpoints == ["a"]]
    write(mps(), one)
    write(other, two)
    shown = refusal(one, two)
    assert f"{two} and {one} cannot be compared: output_tokens is 7 there and 101 here" in shown
    assert "prompt_words is [8] there and [64] here" in shown
    assert "the models are a (llama2:7b) there and a (llama2:7b), b (mistral:7b) here" in shown


def test_each_file_that_is_not_a_result_is_refused_with_its_reason(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    write(mps(), good)
    document = json.loads(good.read_text())
    for name, content in {
        "cut": good.read_text()[:-100],
        "other": json.dumps({"kind": "something"}),
        "newer": json.dumps({**document, "schema_version": 3}),
        "wrong": json.dumps({**document, "load": {**document["load"], "seed": "x"}}),
        "twice": json.dumps({**document, "load": {**document["load"], "seed": "x", "requests": 0}}),
        "lacks": json.dumps({key: value for key, value in document.items() if key != "sessions"}),
        "list": "[]",
    }.items():
        (tmp_path / f"{name}.json").write_text(content)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    names = ("cut", "other", "newer", "wrong", "twice", "lacks", "list", "bytes", "absent")
    shown = refusal(good, *(tmp_path / f"{name}.json" for name in names))
    for name, why in {
        "cut": "is not complete JSON (line ",
        "other": "is not a result of `tandem bench`, `vllm bench serve`, AIPerf, guidellm or inference-perf. Choose a",
        "newer": "has schema version 3, and this tandem reads 2.",
        "wrong": "is damaged (load.seed: ",
        "twice": "is damaged (load.requests: Input should be greater than or equal to 1, and 1 more). Copy it again",
        "lacks": "is damaged (sessions: ",
        "list": "is not a result of `tandem bench`",
        "bytes": "cannot be read as JSON.",
        "absent": "cannot be read: No such file or directory.",
    }.items():
        assert f"{tmp_path / name}.json {why}" in shown
    assert "Traceback" not in shown


def changed(document: Any, path: str, value: Any) -> Any:
    """The document with another value at that path."""
    *way, last = path.split(".")
    part = document
    for key in way:
        part = part[int(key) if isinstance(part, list) else key]
    part[int(last) if isinstance(part, list) else last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("runs.0.rows.0.tokens", -1),
        ("runs.0.rows.0.prompt_tokens", "many"),
        ("runs.0.rows.0.arrivals_us.0", -5),
        ("runs.0.rows.0.arrivals_us.0", 10**4000),
        ("runs.0.rows.0.arrivals_us", []),
        ("runs.0.rows.0.sent_us", -1),
        ("runs.0.rows.0.server.eval_ns", -1),
        ("runs.0.memory_start.a.size", -1),
        ("runs.0.memory_start.a.size_vram", 2**63),
        ("runs.0.seconds", float("inf")),
        ("runs.0.level", float("nan")),
        ("runs.0.client_cpu_s", -0.5),
        ("runs.0.endpoints", []),
        ("runs.0.endpoints", ["c"]),
        ("runs.2.endpoints", ["a", "a"]),
        ("runs.1.endpoints", ["a"]),
        ("runs.0.repeat", 0),
        ("load.requests", 0),
        ("load.rates", [float("inf")]),
        ("usd_per_hour", -1),
        ("usd_per_hour", float("inf")),
        ("usd_per_hour", 1e300),
        ("sessions", []),
        ("sessions.0.servers", []),
        ("sessions.0.servers.1.id", "a"),
        ("sessions.0.machine.cpus", -1),
        ("plan", {"pools": [{"nodes": 1}], "models": []}),
        ("plan", {"pools": [], "models": [{"id": "a", "needs_mib": "x", "share_mib": 1}]}),
        ("plan", []),
    ],
)
def test_a_value_that_no_benchmark_writes_is_one_line(path: str, value: Any, tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    write(mps(), good)
    document = changed(json.loads(good.read_text()), path, value)
    good.write_text(json.dumps(document).replace("Infinity", "1e400"))
    shown = refusal(good)
    assert shown.startswith(f"error: {good} is damaged ({'.'.join(path.split('.')[:1])}")
    assert shown.endswith("). Copy it again, or measure again.\n")
    assert shown.count("\n") == 1
    assert len(shown) < 400


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, "cannot be read as JSON."),
        (b'{"kind": "tandem bench", "schema_version": ' + b"9" * 4301 + b"}", "cannot be read as JSON."),
        (b'{"kind": "tandem bench", "schema_version": ' + b"9" * 4300 + b"}", "has schema version 99999"),
        (b'{"kind": "tandem bench", "schema_version": [[1]]}', "has schema version unknown, and"),
        (b'{"kind": "tandem bench", "schema_version": 2, "sessions": 7}', "is damaged ("),
    ],
)
def test_a_file_that_exhausts_its_reader_is_one_line(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    shown = refusal(path)
    assert shown.startswith(f"error: {path} {why}")
    assert shown.count("\n") == 1
    assert len(shown) < 400


def test_a_result_that_was_resumed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write(mps(sessions=[session(), session()]), path)
    why = "was interrupted and resumed, and this tandem reads results of one call only. Measure again."
    assert refusal(path) == f"error: {path} {why}\n"


def test_a_result_with_the_numbers_of_its_calls_is_read(tmp_path: Path) -> None:
    """As `tandem bench` wrote it while it could resume a benchmark."""
    path = tmp_path / "r.json"
    write(mps(), path)
    document = json.loads(path.read_text())
    document["runs"] = [{"session": 0, **one} for one in document["runs"]]
    path.write_text(json.dumps(document))
    assert read(path) == mps()


def test_a_result_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write(mps(), path)
    assert f"{path} is given twice. Name each result once." in refusal(path, path)


def test_results_of_one_name_in_two_folders_have_labels_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "r.json" for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        write(mps(), path)
    assert call("report", *map(str, paths), "-o", str(tmp_path / "out")).returncode == 0
    assert "one/r.json) vs. mps (" in title(tmp_path)


def test_half_a_goal_is_refused(tmp_path: Path) -> None:
    shown = "error: goodput needs both goals: --ttft-goal MS and --itl-goal MS\n"
    assert report(tmp_path, mps(), arguments=("--ttft-goal", "100")) == Ended(2, "", shown)


def test_json_is_the_figures_and_nothing_is_written(tmp_path: Path) -> None:
    ended = report(tmp_path, timed(mps(), 40.0), exclusive(), arguments=("--json",))
    assert ended.json["schema_version"] == 2
    first, _ = ended.json["equal_load"]
    [warning] = ended.json["warnings"]
    assert warning.startswith("mps: a together, 64 words, 4 at a time: 73% of the time to first token (110 of 150 ms)")
    [compared] = ended.json["comparisons"]
    assert ended.returncode == 0
    assert (first["target"], first["workload"]["level"], first["on_gpu"]["level"]) == ("exclusive", 4, 4)
    # Four answers of 101 tokens: in 2.1 and 4.1 s alone, in 2.15 and 4.15 s together.
    kept = [model["of_own_gpu"]["median"] for model in first["models"]]
    assert kept == pytest.approx([2.1 / 2.15, 4.1 / 4.15])
    # 0.69 / (101/2.15 + 101/4.15) against 0.46 / (101/4.15 + 101/6.15), by hand; each repeat is like the others.
    same = dict.fromkeys(("lowest", "ratio", "highest"), pytest.approx(0.8573, abs=1e-4))
    assert compared == {"best": "exclusive", "other": "mps", "decided": True, **same}
    assert not (tmp_path / "out").exists()


def test_results_of_other_tools_have_a_page_of_their_own(tmp_path: Path) -> None:
    """Only files of one name have their folders, which are not the reader's."""
    paths = [SAMPLES / "vllm.json", tmp_path / "alone" / "r.json", tmp_path / "together" / "r.json"]
    for path, name in zip(paths[1:], ("aiperf", "inference-perf"), strict=True):
        path.parent.mkdir()
        shutil.copyfile(SAMPLES / f"{name}.json", path)
    assert call("report", *map(str, paths), "-o", str(tmp_path / "out")).returncode == 0
    seen = Reader((tmp_path / "out" / "report.html").read_text())
    assert seen.lines[0] == "# Measured by vLLM, AIPerf 0.13.0 and inference-perf"
    assert seen.below("Results of other tools")[2:] == [
        "| vllm.json | vLLM | qwen3:4b | 2 at a time | 61.6 | 222 | 298 | 26.9 | 1 of 10 ",
        f"| {paths[1]} (concurrency_2) | AIPerf 0.13.0 | qwen3:4b | 2 at a time | 61.6 | 222 | 297 | 26.9 | 1 of 10 ",
        f"| {paths[2]} | inference-perf | not recorded | not recorded | 61.7 | 222 | 297 | 26.9 | 1 of 10 ",
    ]


def test_other_tools_stand_beside_our_results_in_the_page_and_in_json(tmp_path: Path) -> None:
    """Their text stays text, and a p95 that is missing names the option that writes it."""
    write(mps(), tmp_path / "r.json")
    document = {**json.loads((SAMPLES / "vllm.json").read_text()), "label": "<script>", "model_id": "<b>"}
    del document["p95_ttft_ms"]
    (tmp_path / "v.json").write_text(json.dumps(document))
    paths = [str(tmp_path / "v.json"), str(tmp_path / "r.json")]
    done = call("report", *paths, "-o", str(tmp_path / "out"))
    warning = f"{paths[0]} has no p95 of the first token. Measure with `--metric-percentiles 50,95,99`."
    assert (done.returncode, done.stderr) == (0, f"warning: {warning}\n")
    seen = Reader((tmp_path / "out" / "report.html").read_text())
    assert seen.lines[0] == "# llama2:7b and mistral:7b: mps"
    _, _, row, hint = seen.below("Results of other tools")
    assert row == "| v.json (<script>) | vLLM | <b> | 2 at a time | 61.6 | 222 | – | 26.9 | 1 of 10 "
    assert hint.endswith("Pass --metric-percentiles 50,95,99 to vllm bench serve.")
    printed = call("report", *paths, "--json").json
    assert [each["label"] for each in printed["results"]] == ["mps"]
    assert printed["warnings"] == [warning]
    [point] = printed["other_tools"]
    assert (point["file"], point["tokens_per_s"], point["answered"]) == (paths[0], pytest.approx(61.641, abs=1e-3), 9)
    assert call("report", paths[0], "--json").json["results"] == []


def test_errors_of_all_tools_files_come_together(tmp_path: Path) -> None:
    text = (SAMPLES / "guidellm.json").read_text()
    (tmp_path / "cut.json").write_text(text[:-9])
    (tmp_path / "newer.json").write_text(text.replace('"version": 2', '"version": 3'))
    shown = refusal(tmp_path / "cut.json", tmp_path / "newer.json", SAMPLES / "vllm.json")
    cut, newer = shown.splitlines()
    assert cut.startswith(f"error: {tmp_path / 'cut.json'} is not complete JSON (line ")
    why = "is no report of guidellm that tandem reads (metadata.version: Input should be 1 or 2). Choose a "
    assert newer == f"error: {tmp_path / 'newer.json'} {why}`benchmarks.json` of guidellm 0.8.1."


def test_a_file_in_the_folders_place_asks_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    shown = f"error: {tmp_path / 'out'} is a file. Name a folder with -o.\n"
    assert report(tmp_path, mps()) == Ended(2, "", shown)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    shown = f"error: cannot write {tmp_path / 'out' / 'report.html'}: Is a directory. Name another folder with -o.\n"
    assert report(tmp_path, mps()) == Ended(2, "", shown)
