"""`tandem report`: from results to Markdown and plots."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tandem.benchmark.result import Memory, Result, write
from tandem.command import main
from tests.tandem.results import SPILLED, failed, result, run, shared

GOLDEN = Path(__file__).parents[1] / "golden" / "report.md"
PLAN = {
    "pools": [{"nodes": 1, "gpu": {"name": "t4"}}],
    "models": [
        {"id": "a", "needs_mib": 5193, "share_mib": 7680},
        {"id": "b", "needs_mib": 4947, "share_mib": None},
    ],
}
PLOTS = {"latency.svg", "throughput.svg", "cost.svg", "fairness.svg"}


def mps(**changes: Any) -> Result:
    return shared("mps", (20.0, 40.0), (40.0, 60.0), **{"usd_per_hour": 0.46, "plan": PLAN, **changes})


def exclusive(**changes: Any) -> Result:
    return shared("exclusive", (20.0, 40.0), (20.0, 40.0), **{"usd_per_hour": 0.69, **changes})


def report(folder: Path, *results: Result, arguments: tuple[str, ...] = ()) -> int:
    paths = []
    for number, one in enumerate(results):
        paths.append(folder / f"{number}.json")
        write(one, paths[-1])
    return main(["report", *map(str, paths), "-o", str(folder / "out"), *arguments])


def text(folder: Path) -> str:
    return (folder / "out" / "README.md").read_text()


def test_the_report_of_known_results_is_the_golden(tmp_path: Path, regen: bool) -> None:
    spilled = run(["a"], [failed("a"), *mps().runs[0].rows], repeat=4, memory=SPILLED)
    broken = mps(runs=[*mps().runs, spilled], complete=False)
    assert report(tmp_path, broken, exclusive(), arguments=("--ttft-goal", "120", "--itl-goal", "50")) == 0
    if regen:
        GOLDEN.write_text(text(tmp_path))
    assert text(tmp_path) == GOLDEN.read_text()


def test_the_answer_stands_first(tmp_path: Path) -> None:
    report(tmp_path, mps(), exclusive(), arguments=("--no-plots",))
    answer = text(tmp_path).split("## ")[0]
    assert "With 64 words, 4 at a time, for each model:" in answer
    assert "**mps** served the models together at **0.58** of the speed that each has alone (a 0.50, b 0.67)" in answer
    assert "**exclusive** is 14% cheaper per token than mps." in answer


def test_plots_and_text_are_the_same_again(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        assert report(tmp_path / name, mps(), exclusive()) == 0
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / n / "out").iterdir()} for n in "12")
    assert first.keys() == PLOTS | {"README.md"}
    assert first == second


def test_plots_are_named_in_the_text_and_tell_what_they_show(tmp_path: Path) -> None:
    report(tmp_path, mps(), exclusive())
    assert set(re.findall(r"\]\((\S+\.svg)\)", text(tmp_path))) == PLOTS
    for name in PLOTS:
        drawn = ElementTree.parse(tmp_path / "out" / name)
        told = " ".join(element.text or "" for element in drawn.iter() if element.tag.endswith("text"))
        assert "mps" in told
        assert "exclusive" in told
        assert "prompts of 64 words" in told


def test_without_a_price_there_is_no_plot_of_dollars(tmp_path: Path) -> None:
    report(tmp_path, mps(usd_per_hour=None))
    assert not (tmp_path / "out" / "cost.svg").exists()
    assert "cost.svg" not in text(tmp_path)


def test_spilled_runs_are_named_and_when_all_are_there_is_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places: dict[str, Memory | None] = {"a": SPILLED, "b": SPILLED}
    runs = [dataclasses.replace(one, memory_start=places, memory_end=places) for one in mps().runs]
    assert report(tmp_path, mps(runs=runs)) == 1
    assert "**No run can be compared**" in text(tmp_path)
    assert "- a + b, 64 words, 4 at a time, repeat 1: a spilled to the CPU: 3.00 of 4.00 GiB" in text(tmp_path)
    assert "no run can be compared" in capsys.readouterr().err


def test_one_model_alone_has_figures_and_no_answer(tmp_path: Path) -> None:
    assert report(tmp_path, result("x", [one for one in mps().runs if one.endpoints == ["a"]])) == 0
    assert "so this says nothing about sharing" in text(tmp_path)
    assert "| x | a alone |" in text(tmp_path)


def test_the_plan_stands_beside_what_was_loaded(tmp_path: Path) -> None:
    report(tmp_path, mps())
    assert "| mps | a | 5,193 | 7,680 | 4,096 | 4,096 |" in text(tmp_path)
    assert "| mps | b | 4,947 | the rest of the card | 4,096 | 4,096 |" in text(tmp_path)
    assert "| mps | 1 × t4 |" in text(tmp_path)


def test_two_results_of_one_label_are_told_apart(tmp_path: Path) -> None:
    report(tmp_path, mps(), mps(), arguments=("--no-plots",))
    assert "mps (0) against mps (1)" in text(tmp_path)


def test_few_repeats_failures_and_a_model_loaded_anew_are_doubts(tmp_path: Path) -> None:
    first, *_ = mps().runs
    assert first.memory_start["a"] is not None
    other: dict[str, Memory | None] = {"a": dataclasses.replace(first.memory_start["a"], context_length=4096)}
    report(tmp_path, result("x", [dataclasses.replace(first, rows=[failed(), *first.rows], memory_end=other)]))
    doubts = text(tmp_path).split("## Before you rely on it")[1]
    assert "1 rows rest on fewer than 3 repeats" in doubts
    assert "x: failed requests, which are in no time: 1 × 503: server busy." in doubts
    assert "a was loaded anew during a run" in doubts


def test_other_servers_and_machines_are_doubts(tmp_path: Path) -> None:
    newer = exclusive()
    newer.servers = [dataclasses.replace(one, ollama="0.35", quantization="Q8_0") for one in newer.servers]
    newer.machine = dataclasses.replace(newer.machine, cpus=64)
    report(tmp_path, mps(), newer)
    for what in ("Ollama's version", "The quantization", "The client's machine"):
        assert f"{what} differs between the targets." in text(tmp_path)


def refusal(capsys: pytest.CaptureFixture[str], *paths: Path) -> str:
    assert main(["report", *map(str, paths), "-o", str(paths[0].parent / "out")]) == 2
    assert not (paths[0].parent / "out").exists()
    return capsys.readouterr().err


def test_results_of_different_loads_are_refused_with_every_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    other = exclusive()
    other.load = dataclasses.replace(other.load, output_tokens=7, prompt_words=[8])
    other.servers = other.servers[:1]
    write(mps(), one)
    write(other, two)
    told = refusal(capsys, one, two)
    assert f"{two} and {one} cannot be compared: output_tokens is 7 there and 101 here" in told
    assert "prompt_words is [8] there and [64] here" in told
    assert "the models are a (llama2:7b) there and a (llama2:7b), b (mistral:7b) here" in told


def test_files_that_are_no_results_are_refused_each_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good.json"
    write(mps(), good)
    document = json.loads(good.read_text())
    for name, content in {
        "cut": good.read_text()[:-100],
        "other": json.dumps({"kind": "something"}),
        "newer": json.dumps({**document, "schema_version": 2}),
        "wrong": json.dumps({**document, "load": {**document["load"], "seed": "x"}}),
        "lacks": json.dumps({key: value for key, value in document.items() if key != "salt"}),
        "list": "[]",
    }.items():
        (tmp_path / f"{name}.json").write_text(content)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    names = ("cut", "other", "newer", "wrong", "lacks", "list", "bytes", "absent")
    told = refusal(capsys, good, *(tmp_path / f"{name}.json" for name in names))
    for name, why in {
        "cut": "is no whole JSON",
        "other": "is no result of `tandem bench`",
        "newer": "has schema version 2, this tandem reads 1",
        "wrong": "first load.seed",
        "lacks": "first salt",
        "list": "is no result of `tandem bench`",
        "bytes": "is no text",
        "absent": "cannot be read (No such file or directory)",
    }.items():
        assert f"{tmp_path / name}.json: " in told
        assert why in told
    assert "Traceback" not in told


def test_half_a_goal_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path, mps(), arguments=("--ttft-goal", "100")) == 2
    assert "needs both goals" in capsys.readouterr().err


def test_json_is_the_figures_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path, mps(), arguments=("--json",)) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told["sharing"][0]["slowdown"] == pytest.approx({"a": 2.0, "b": 1.5})
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("a file")
    assert report(tmp_path, mps()) == 2
    assert "cannot write" in capsys.readouterr().err


def test_without_matplotlib_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "tandem.benchmark.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report(tmp_path, mps()) == 2
    install = "`.venv/bin/python -m pip install --no-build-isolation -e '.[plots]'`"
    told = f"`tandem report` needs matplotlib. Run {install} in the checkout."
    assert capsys.readouterr().err == f"tandem: {told}\n"
    assert report(tmp_path, mps(), arguments=("--no-plots",)) == 0
