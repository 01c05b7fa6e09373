"""Results replace forecasts, and a result that cannot says so. Every figure is chosen; those expected are by hand."""

import copy
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalogue import community
from sandbox.graph import Graph
from stacks.stack_file.judge import judge_file
from tandem.bench_results.community import of_result, to_share
from tandem.bench_results.result import Run
from tandem.bench_results.result_file import ResultError
from tandem.bench_results.summary import summary
from tandem.terminal import CallError
from tests import command
from tests.command import ROOT, call
from tests.tandem.results import SPILLED, result, row, run, server, session, steady

ALONE_MS, BUSY_MS = (20.0, 19.0, 25.0), (40.0, 40.0, 40.0)
"""Times between tokens of both models, by repeat."""


@cache
def resources() -> Graph:
    return command.graph_of(judge_file(ROOT / "Pulumi.timeslice.yaml").plan())


@pytest.fixture(autouse=True)
def same_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan has those of `timeslice`: no test here is about them, and each program takes 0.1 s."""
    found = resources()
    monkeypatch.setattr(command, "graph_of", lambda _: found)


@cache
def plan(stack: str = "timeslice") -> Any:
    planned = call("plan", stack, "--json").json
    del planned["resources"]
    return planned


def runs(**changes: Any) -> list[Run]:
    """Alone with one request, and together with one and with four; with long prompts alone, and together with four."""
    every = []
    for repeat, (alone, busy) in enumerate(zip(ALONE_MS, BUSY_MS, strict=True), start=1):
        settings: dict[str, Any] = {"repeat": repeat, "level": 1.0, **changes}
        for name in "ab":
            long = [replace(one, prompt_tokens=620) for one in steady(name, 300.0, alone + 1)]
            every.append(run([name], steady(name, 100.0, alone), **settings))
            every.append(run([name], long, **{**settings, "prompt_words": 512}))
        both = [one for name in "ab" for one in steady(name, 150.0, busy)]
        at_once = [row([100.0 + 50 * piece for piece in range(81)], endpoint=name) for name in "ab" for _ in range(4)]
        every += [run(["a", "b"], both, **settings), run(["a", "b"], at_once, **{**settings, "level": 4.0})]
        long = [replace(one, prompt_tokens=620) for one in both]
        every.append(run(["a", "b"], long, **{**settings, "level": 4.0, "prompt_words": 512}))
    return every


def measured(path: Path, **changes: Any) -> str:
    """The file of a result of the stack `timeslice`."""
    path.write_text(json.dumps(asdict(result("x", changes.pop("runs", runs()), **{"plan": plan(), **changes}))))
    return str(path)


def test_a_result_replaces_the_forecast(tmp_path: Path) -> None:
    """Alone 20, 19 and 25 ms: 50 tokens/s (40 to 52.6). Busy 40 ms: 25, 3 % up and down.

    With four at a time, 4 x 81 tokens in 4.1 s: 79.02. The long prompt has 620 tokens, and its first token comes after
    300 ms.
    """
    ended = call("plan", "timeslice", "--measured", measured(tmp_path / "r.json"), "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    for model in ended.json["models"]:
        assert model["speed"] == {
            "tokens_per_s": 50.0, "low": 40.0, "high": 52.6,
            "busy_tokens_per_s": 25.0, "busy_low": 24.2, "busy_high": 25.8,
            "full_tokens_per_s": 79.0, "full_low": 76.7, "full_high": 81.4,
            "first_token_ms": 300, "first_token_low": 291, "first_token_high": 309,
            "basis": "measured",
        }  # fmt: skip


@pytest.mark.parametrize("stack", ["exclusive", "mps", "mig-mixed"])
def test_a_result_of_each_mode_replaces_its_forecast(stack: str, tmp_path: Path) -> None:
    tags = [model["name"] for model in plan(stack)["models"]]
    named = session(servers=[server(id, tag) for id, tag in zip("ab", tags, strict=True)])
    file = measured(tmp_path / "r.json", plan=plan(stack), sessions=[named])
    ended = call("plan", stack, "--measured", file, "--json")
    assert ended.stderr == ""
    assert [model["speed"]["basis"] for model in ended.json["models"]] == ["measured", "measured"]


def test_a_result_under_limits_per_model_replaces_forecasts_under_the_same_limits_only(tmp_path: Path) -> None:
    values = yaml.safe_load((ROOT / "Pulumi.mps.yaml").read_text(encoding="utf-8"))
    config = values["config"]

    def stack(name: str, percent: int) -> str:
        first, second = config["tandem:models"]
        models = [{**first, "share": {"compute-percent": percent}}, second]
        own = {"tandem:sharing": {"mode": "mps", "limits": "per-model"}, "tandem:models": models}
        path = tmp_path / f"Pulumi.{name}.yaml"
        path.write_text(yaml.safe_dump({"config": {**config, **own}}), encoding="utf-8")
        return str(path)

    most, less = stack("most", 60), stack("less", 40)
    named = session(servers=[server(id, tag) for id, tag in zip("ab", ("llama2:7b", "mistral:7b"), strict=True)])
    file = measured(tmp_path / "r.json", plan=plan(most), sessions=[named])
    bases = {
        name: [model["speed"]["basis"] for model in call("plan", name, "--measured", file, "--json").json["models"]]
        for name in (most, less, "mps")
    }
    # The second model has all threads in both.
    assert bases == {
        most: ["measured", "measured"],
        less: ["forecast", "measured"],
        "mps": ["forecast", "forecast"],
    }
    text, _ = to_share(result("x", runs(), plan=plan(most), sessions=[named]), tmp_path / "r.json")
    found = [(model["mode"], model["threads_percent"]) for model in json.loads(text)["models"]]
    assert found == [("mps-per-model", 60), ("mps-per-model", 100)]
    # Two results of one kind of limits each are two rows of a report.
    assert summary(result("x", runs(), plan=plan(most), sessions=[named])).mode == "mps-per-model"
    assert summary(result("x", runs(), plan=plan("mps"), sessions=[named])).mode == "mps"


def test_the_screen_says_that_it_is_measured(tmp_path: Path) -> None:
    shown = call("plan", "timeslice", "-v", "--measured", measured(tmp_path / "r.json")).stdout
    assert re.search(r"llama2:7b +4.8 +2,048 +50 \(40–53\)\* +25 \(24–26\)\* +0.3 \(0.3–0.3\) s\*\n", shown)
    assert shown.count("\n  * measured\n") == 1
    assert "\nSpeed: * measured, and the range of the repeats\n" in shown


def test_the_mark_stands_at_measured_figures_only(tmp_path: Path) -> None:
    alone = [each for each in runs() if each.endpoints == ["a"] and each.prompt_words == 64]
    one = session(servers=[server("a", "llama2:7b")])
    file = measured(tmp_path / "r.json", runs=alone, sessions=[one])
    shown, before = (call("plan", "timeslice", "-v", *more).stdout for more in (("--measured", file), ()))
    assert (shown.count("*") - before.count("*"), shown.count("\n  * measured\n")) == (2, 1)
    assert "  50 (40–53)*  " in shown
    assert "\nSpeed: forecasts, and the range of nine in ten readings\n" in shown


def test_a_comparison_has_it_in_its_own_mode_only(tmp_path: Path) -> None:
    compare = ("plan", "timeslice", "--compare", "timeslice,mps", "--json")
    before = call(*compare).json
    ended = call(*compare, "--measured", measured(tmp_path / "r.json"))
    assert ended.stderr == ""
    assert ended.json != before
    assert str(before).replace(str(before["options"][0]), "") == str(ended.json).replace(
        str(ended.json["options"][0]), ""
    )


@pytest.mark.slow
def test_choose_and_modes_take_it_where_they_try_the_same(tmp_path: Path) -> None:
    file = measured(tmp_path / "r.json")
    chosen = call("choose", "llama2:7b", "mistral:7b", "--context", "2048", "--capacity", "spot", "--measured", file)
    assert (chosen.stderr, call("modes", "timeslice", "--type", "g4dn.xlarge", "--measured", file).stderr) == ("", "")
    lines = chosen.stdout.splitlines()
    marked = [line for line in lines if line.endswith("*")]
    assert marked
    assert all("g4dn" in line and "timeslice" in line for line in marked)
    assert [line for line in lines if "g4dn.xlarge   timeslice" in line] == marked[:1]
    assert "* a speed in this row is measured" in lines
    unused = "warning: r.json replaces no forecast here: it measured llama2:7b and mistral:7b on t4, timeslice"
    for elsewhere in (("choose", "--capacity", "spot", "llama3.2:1b"), ("modes", "--type", "g6.xlarge")):
        assert unused in call(*elsewhere, "--measured", file).stderr


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"plan": None}, "r.json has no plan, so its GPU and mode are unknown. Measure again with the stack: "),
        ({"complete": False}, "r.json was stopped early, so its figures do not count. Measure again."),
        ({"runs": []}, "r.json has no figures that count. a, llama2:7b: not in the plan, or no run of it can be "),
        ({"runs": runs(memory=SPILLED)}, "r.json has no figures that count. a, llama2:7b: not in the plan, or no run"),
        ({"runs": runs(loop="open")}, "r.json has no figures that count. "),
        ({"plan": {"pools": [], "models": []}}, "r.json has no figures that count. "),
        ({"kind": "vllm"}, "r.json is not a result of `tandem bench`. Choose one that `tandem bench STACK` wrote."),
    ],
)
def test_a_result_that_replaces_nothing_is_an_error(changes: dict[str, Any], error: str, tmp_path: Path) -> None:
    ended = call("plan", "timeslice", "--measured", measured(tmp_path / "r.json", **changes))
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)
    assert error in ended.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda planned: planned["models"].clear(),
        lambda planned: planned["pools"].clear(),
        lambda planned: planned["pools"][0]["shares"].clear(),
        lambda planned: planned["pools"][0].pop("shares"),
        lambda planned: planned["pools"][0].update(shares=None),
        lambda planned: [model.update(context="x") for model in planned["models"]],
    ],
)
def test_a_plan_that_lacks_something_measures_no_model(change: Callable[[Any], object]) -> None:
    planned = copy.deepcopy(plan())
    change(planned)
    with pytest.raises(ResultError, match=r"r\.json has no figures that count\. a, llama2:7b: not in the plan, or no"):
        of_result(result("x", runs(), plan=planned), Path("r.json"))


@pytest.mark.parametrize(("servers", "contexts"), [("ab", [1024, 4096]), ("ba", [4096, 1024]), ("xy", [1024, 4096])])
def test_servers_of_one_tag_are_the_models_of_their_names_or_else_in_the_order_of_the_plan(
    servers: str, contexts: list[int]
) -> None:
    planned = copy.deepcopy(plan())
    for model, id, context in zip(planned["models"], "ab", (1024, 4096), strict=True):
        model.update(id=id, name="llama2:7b", context=context)
    named = session(servers=[server(id, "llama2:7b") for id in servers])
    alone = [run([id], steady(id, 100.0, 20.0), level=1.0) for id in servers]
    found, left_out = of_result(result("x", alone, plan=planned, sessions=[named]), Path("r.json"))
    assert ([model.context for model in found.models], left_out) == (contexts, [])


@pytest.mark.parametrize("stack", ["mps", "mig"])
def test_a_result_of_another_gpu_or_mode_is_a_warning(stack: str, tmp_path: Path) -> None:
    short = [each for each in runs() if each.prompt_words == 64]  # what it lacks does not matter either
    ended = call("plan", stack, "--measured", measured(tmp_path / "r.json", runs=short))
    assert ended.returncode == 0
    assert ended.stdout == call("plan", stack).stdout
    assert ended.stderr == (
        "warning: r.json replaces no forecast here: it measured llama2:7b and mistral:7b on t4, timeslice, 2 of 2 "
        "shares in use, slots: 1.\n"
    )


def test_what_a_result_lacks_stays_a_forecast(tmp_path: Path) -> None:
    """Neither model was measured beside the other, nor with a long prompt; the other server has a model of no plan."""
    alone = [each for each in runs() if each.endpoints == ["a"] and each.prompt_words == 64]
    stranger = session(servers=[server(id, tag) for id, tag in (("a", "llama2:7b"), ("b", "x:1"))])
    ended = call(
        "plan", "timeslice", "--measured", measured(tmp_path / "r.json", runs=alone, sessions=[stranger]), "--json"
    )
    assert ended.stderr == (
        "warning: r.json replaces no forecast of b, x:1: not in the plan, or no run of it can be compared.\n"
        "warning: r.json has not measured of llama2:7b: its speed beside the others (no run of all with 1 request at a "
        "time), its full speed (no run of all with 1 or more at a time) and its first token (no prompt of 300 to 800 "
        "tokens). The forecast stays.\n"
    )
    speed, other = (model["speed"] for model in ended.json["models"])
    before = plan()["models"][0]["speed"]
    assert (speed["tokens_per_s"], speed["basis"]) == (50.0, "measured")
    assert speed["busy_tokens_per_s"] == before["busy_tokens_per_s"]
    assert speed["first_token_ms"] == before["first_token_ms"]
    assert other == plan()["models"][1]["speed"]


def test_a_shared_file_has_no_word_of_its_user(tmp_path: Path) -> None:
    """Everything that a result has of the machine, the account and the call has `secret` in it."""
    given = result("secret", runs(), plan={**plan(), "stack": "secret"}, usd_per_hour=7.77)
    servers = [
        replace(
            server(id, tag),
            url="https://secret.example.com",
            family="secret",
            digest="0123456789ab",
            quantization=quant,
        )
        for id, tag, quant in (("a", "llama2:7b", "Q4_0"), ("b", "mistral:7b", "Q4_K_M"))
    ]
    machine = replace(given.session.machine, system="secret", processor="secret")
    call_ = replace(given.session, command=["secret"], salt="secret", machine=machine, servers=servers)
    text, left_out = to_share(replace(given, sessions=[call_]), tmp_path / "secret.json")
    assert left_out == []
    assert text.startswith('{\n "kind": "tandem community",\n'), "its user reads it first"
    assert not any(word in text for word in ("secret", "7.77", "127.0.0.1", "10:30"))
    file = tmp_path / "shared.json"
    file.write_text(text)
    assert community.errors(file) == []
    document = json.loads(text)
    assert (document["date"], document["engine"], document["driver"]) == ("2026-11-21", "ollama 0.32.15", None)
    first = document["models"][0]
    assert (first["gpu"], first["mode"], first["sharers"], first["context"]) == ("t4", "timeslice", 2, 2048)
    assert [(each["neighbours"], each["at_once"], each["prompt_tokens"]) for each in first["figures"]] == [
        ("idle", 1, 70), ("busy", 1, 70), ("busy", 4, 70), ("idle", 1, 620), ("busy", 4, 620)
    ]  # fmt: skip


def test_a_tag_outside_the_catalogue_is_not_shared(tmp_path: Path) -> None:
    private = {**plan(), "models": [{**model, "name": "acme/secret:1"} for model in plan()["models"]]}
    named = session(servers=[server("a", "acme/secret:1")])
    alone = [each for each in runs() if each.endpoints == ["a"]]
    with pytest.raises(CallError, match="has no model of the catalogue, so there is nothing to share"):
        to_share(result("x", alone, plan=private, sessions=[named]), tmp_path / "r.json")
