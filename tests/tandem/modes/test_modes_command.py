"""`tandem modes`, for people and programs."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharing.modes.modes import mode_names
from sharing.sections.provisioners import PROVISIONERS
from sharing.verdict import matrix
from sharing.verdict.rules import table
from tandem.arguments import WAYS
from tandem.modes import screen
from tests.command import Ended, call
from tests.descriptions import write_description

ROOT = Path(__file__).parents[3]


@cache
def called(*arguments: str) -> Ended:
    return call("modes", *arguments)


def printed(*arguments: str) -> str:
    ended = called(*arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def report(*arguments: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(printed("--json", *arguments))
    return parsed


def rows_of(text: str) -> dict[str, str]:
    """The lines of the grid by instance type."""
    found, family = {}, ""
    for line in text.split("\n\n")[1].splitlines()[1:]:
        if line.startswith("  "):
            found[f"{family}.{line.split()[0]}"] = line
        else:
            family = line.split()[0]
    return found


def rows(text: str) -> dict[str, list[str]]:
    """The marks of the grid by instance type, without its size and number of GPUs."""
    return {name: line.split()[2:] for name, line in rows_of(text).items()}


RULES = {
    "the GPU does not support the mode": "the GPU supports the mode",
    "the pinned driver does not support the GPU": "the driver supports the GPU",
    "the region does not offer the type": "the region offers the types",
    "the models do not fit": "the models fit",
}
"""The rule that is broken, by the words of the legend."""
COLUMNS = [way for way in matrix.WAYS if way != "mps-per-model"]
"""Those of the tables. Both kinds of MPS have one, with the mark `m` where equal limits do not hold the models."""


@pytest.mark.slow
def test_the_overview_has_the_lowest_price_of_each_gpu_and_fits_one_screen() -> None:
    text = printed()
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    cells = report()["cells"]
    head, *lines = text.split("\n\n")[0].splitlines()[2:]
    assert head.split() == ["GPU", "type", *COLUMNS]
    for row in lines:
        gpu, family, *marks = row.replace("slice of an L4", "l4/").lower().split()
        mine = [cell for cell in cells if cell["gpu"] == gpu or (gpu == "l4/" and cell["gpu"].startswith(gpu))]
        assert family in {cell["instance_type"].partition(".")[0] for cell in mine}
        for way, mark in zip(COLUMNS, marks, strict=True):
            prices = [cell["usd_per_hour"] for cell in mine if (cell["way"], cell["verdict"]) == (way, "plans")]
            if prices:
                assert float(mark.rstrip("*n")) == pytest.approx(min(prices), abs=0.0051)
            else:
                broken = {cell["rule"] for cell in mine if cell["way"] == way}
                assert mark == ("b" if RULES["the models do not fit"] in broken else "a")
    shown = " ".join(text.split())
    assert "A the GPU does not support the mode" in shown
    assert "RTX-PRO-4500 (the pinned driver does not support the GPU)" in shown
    assert "AMD's g4ad (the GPU is not NVIDIA's)" in shown


def test_the_words_of_the_command_are_those_of_the_rules() -> None:
    assert set(WAYS) == {*mode_names(), *matrix.WAYS}, "what `plan --compare` takes"
    for mode, ways in {"mps": {"mps", "mps-per-model"}, "mig": {"mig-single", "mig-mixed"}, "exclusive": set()}.items():
        cells = report("--type", "g7e.2xlarge", "--mode", mode)["cells"]
        assert {cell["way"] for cell in cells} == (ways or {mode})


ABOUT_THE_FILE = {
    "GPU types are known", "the region is known", "the region of the registry is known", "a pool has one kind of GPU",
    "a share has limits of its own", "system types are known", "the Kubernetes version is supported",
    "the engine quantizes the caches", "system nodes hold their pods", "models can move to the pools of `spill`",
    "models fit the pools of `spill`", "the region has the zones", "the zones belong to the region",
    "pools with MIG have one configuration", "models start before they count as idle",
}  # fmt: skip
"""Rules that another type or mode does not change, or that are asked before any type is tried."""


def test_every_rule_that_depends_on_the_type_or_mode_has_words_for_the_legend() -> None:
    rules = {rule.name for rule in table.RULES if rule.refuses} | {matrix.MODELS_FIT}
    assert rules - ABOUT_THE_FILE == screen.WHY.keys()


def test_a_gpu_without_limits_per_model_has_the_true_reason() -> None:
    """P3 and P4d have the mode, but no type with one GPU and that memory (AWS, Amazon EC2 instance types)."""
    said = " ".join(printed("--mode", "mps-per-model").split())
    group = re.search(r"([^;]*) \(`limits: per-model` needs one GPU per node\);", said)
    assert group is not None, said
    assert {"V100-32GB", "A100-40GB", "B200"} <= set(re.split(r",? ", group[1]))
    assert "slice of an L4 (`limits: per-model` needs an entire GPU)" in said
    assert "does not support the mode" not in said


def test_the_models_are_those_of_the_example_stack() -> None:
    stack = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))
    names = [model["name"] for model in stack["config"]["tandem:models"]]
    assert report("--type", "g4dn.xlarge")["models"] == names
    # 4,096 is the default of a stack file, as in `choose`.
    assert "Models: llama2:7b and mistral:7b, context 4,096, " in printed("--type", "g4dn.xlarge")


@pytest.mark.slow
def test_the_marks_of_the_grid_are_the_facts_of_the_report() -> None:
    text = printed("--all")
    letters = {letter: RULES[why] for letter, why in re.findall(r"^([A-Z])     (.*)$", text, flags=re.MULTILINE)}
    used = {letter for marks in rows(text).values() for mark in marks for letter in re.findall("[A-Z]", mark)}
    assert used == set(letters)
    facts = {(cell["instance_type"], cell["way"], cell["provisioner"]): cell for cell in report()["cells"]}
    missing = {name for name, _, _ in facts} - {*rows(text)}
    assert missing == {name for name, _, _ in facts if name.startswith("g4ad.")}, "AMD's GPUs are in one line"
    assert "AMD's g4ad: the GPU is not NVIDIA's" in text
    for name, marks in rows(text).items():
        for way, mark in zip(COLUMNS, marks, strict=True):
            group, coming = (facts[name, way, by] for by in PROVISIONERS)
            if price := re.fullmatch(r"(\d+\.\d\d)(\*?)(n?)", mark):
                assert float(price[1]) == pytest.approx(group["usd_per_hour"], abs=0.0051)
                assert (price[2] == "*") == (group["capacity"] == "on-demand")
                assert (group["verdict"], coming["verdict"]) == ("plans", "refused" if price[3] else "plans")
            else:
                assert {letters[letter] for letter in mark.split("/")} == {group["rule"], coming["rule"]}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["tokens", "per-token"])
def test_the_speeds_of_the_grid_are_those_of_the_report(by: str) -> None:
    text = printed("--all", "--by", by)
    assert max(map(len, text.splitlines())) <= 80
    facts = {(cell["instance_type"], cell["way"], cell["provisioner"]): cell for cell in report()["cells"]}
    shown = 0
    for name, line in rows_of(text).items():
        marks = re.findall(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", line)
        cells = [cell for way in COLUMNS if (cell := facts[name, way, "node-group"])["verdict"] == "plans"]
        assert len(marks) == len(cells)
        for numbers, cell in zip(marks, cells, strict=True):
            slowest = min((model["speed"] for model in cell["models"]), key=lambda speed: speed["busy_tokens_per_s"])
            usd = cell["usd_per_million_tokens"]["full_load"]
            tokens = [slowest["busy_tokens_per_s"], slowest["busy_low"], slowest["busy_high"]]
            wanted = tokens if by == "tokens" else [usd["value"], usd["low"], usd["high"]]
            assert [float(number) for number in numbers] == pytest.approx(wanted, abs=0.56)
            millions = sum(model["speed"]["full_tokens_per_s"] for model in cell["models"]) * 3600 / 1e6
            assert usd["value"] == pytest.approx(cell["usd_per_hour"] / millions, rel=0.01), "the GPU nodes alone"
            shown += 1
    assert shown > 100


@pytest.mark.slow
def test_the_models_of_a_stack_are_tried_instead_of_the_example(tmp_path: Path) -> None:
    """Own models are described in the file: 40 GiB of weights fit no T4 (15,360 MiB)."""
    own = {
        "config": {
            "aws:region": "us-west-2",
            "tandem:sharing": {"mode": "timeslice"},
            "tandem:models": [
                {"name": "mine", "gguf": write_description(tmp_path, weights_bytes=40 * 2**30, layers=16)}
            ],
        }
    }
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(own), encoding="utf-8")
    found = report(str(path), "--mode", "exclusive", "--provisioner", "node-group")
    assert (found["region"], found["models"]) == ("us-west-2", ["mine:latest"])
    plans = {cell["instance_type"]: cell["verdict"] for cell in found["cells"]}
    assert plans["g4dn.xlarge"] == "refused"
    assert plans["g6e.2xlarge"] == "plans"
    assert report(str(path), "--type", "g6e.2xlarge", "--region", "us-east-1")["region"] == "us-east-1"
    assert printed(str(path), "--type", "g6e.2xlarge").splitlines()[1].startswith("Models: mine, context 4,096")


@pytest.mark.slow
def test_limits_per_model_are_marked_where_equal_ones_do_not_hold_the_models(tmp_path: Path) -> None:
    """A T4 has 14.6 GiB: 8.4 for the weights of qwen2.5:14b, but 7.5 in an equal share."""
    models = [{"name": "qwen2.5:14b", "share": {"compute-percent": 60}}, {"name": "qwen2.5:3b"}]
    values = {"aws:region": "us-east-1", "tandem:sharing": {"mode": "timeslice"}, "tandem:models": models}
    path = tmp_path / "Pulumi.sizes.yaml"
    path.write_text(yaml.safe_dump({"config": values}), encoding="utf-8")
    text = printed(str(path))
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    marks = {line.split()[1]: line.split()[4] for line in text.split("\n\n")[0].splitlines()[3:8]}
    assert marks == {"g4dn": "0.22m", "g5": "0.45", "g5g": "0.27m", "g6": "0.40", "g6e": "1.09"}
    assert "m MPS with `limits: per-model` only; " in " ".join(text.split())
    assert re.search(r"^m     MPS with `limits: per-model` only$", printed(str(path), "--all"), flags=re.MULTILINE)
    detail = printed(str(path), "--type", "g4dn.xlarge", "--mode", "mps")
    assert "a limit for each model, 14,846 MiB in total" in " ".join(detail.split())
    equal, own = report(str(path), "--type", "g4dn.xlarge", "--mode", "mps", "--provisioner", "karpenter")["cells"]
    assert (equal["verdict"], own["verdict"]) == ("refused", "plans")
    assert own["sharing"] == {"mode": "mps", "limits": "per-model", "replicas": 2, "allocation-policy": "packed"}
    assert own["shares"] == [
        {
            "resource": "nvidia.com/gpu",
            "profile": "",
            "per_gpu": 2,
            "memory_mib": None,
            "enforced": True,
            "own_limits": True,
        }
    ]


@pytest.mark.slow
def test_the_legend_says_what_scale_to_zero_needs(tmp_path: Path) -> None:
    values = yaml.safe_load((ROOT / "Pulumi.karpenter.yaml").read_text(encoding="utf-8"))
    values["config"]["tandem:scale-to-zero"] = {"enabled": True}
    path = tmp_path / "Pulumi.s2z.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    legend = " ".join(printed(str(path)).split())
    assert "k with karpenter only" in legend
    legend = " ".join(printed(str(path), "--all").split())
    assert "k with karpenter only; with node-group, scale-to-zero needs Karpenter" in legend
