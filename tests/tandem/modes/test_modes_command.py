"""`tandem modes`, as people and machines call it."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharing import matrix
from sharing.gpus import instance_types
from tandem.modes import command as modes
from tests.command import Ended, call

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


def rows(text: str) -> dict[str, list[str]]:
    """The marks of the grid by instance type."""
    found, family = {}, ""
    for line in text.split("\n\n")[1].splitlines()[1:]:
        if line.startswith("  "):
            size, _, *marks = line.split()
            found[f"{family}.{size}"] = marks
        else:
            family = line.split()[0]
    return found


def test_the_words_of_the_command_are_those_of_the_rules() -> None:
    assert {way for ways in modes.WAYS.values() for way in ways} == set(matrix.WAYS)
    assert modes.PROVISIONERS == matrix.PROVISIONERS


def test_the_models_are_those_of_the_example_stack() -> None:
    stack = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))
    assert list(modes.PAIR) == stack["config"]["tandem:models"]
    assert report("--type", "g4dn.xlarge")["models"] == ["llama2:7b", "mistral:7b"]


@pytest.mark.slow
def test_the_grid_has_every_type_and_reads_well_in_80_columns_and_without_colours() -> None:
    text = printed()
    assert list(rows(text)) == list(instance_types())
    assert all(len(marks) == len(matrix.WAYS) for marks in rows(text).values())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert not re.search(r" $", text, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_marks_of_the_grid_are_the_facts_of_the_report() -> None:
    text = printed()
    letters = dict(re.findall(r"^  ([A-Z]) (.*)$", text, flags=re.MULTILINE))
    used = {letter for marks in rows(text).values() for mark in marks for letter in re.findall("[A-Z]", mark)}
    assert used == set(letters)
    facts = {(cell["instance_type"], cell["way"], cell["provisioner"]): cell for cell in report()["cells"]}
    for name, marks in rows(text).items():
        for way, mark in zip(matrix.WAYS, marks, strict=True):
            group, coming = (facts[name, way, by] for by in modes.PROVISIONERS)
            if price := re.fullmatch(r"(\d+\.\d\d)(\*?)(n?)", mark):
                assert float(price[1]) == pytest.approx(group["usd_per_hour"], abs=0.0051)
                assert (price[2] == "*") == (group["capacity"] == "on-demand")
                assert (group["verdict"], coming["verdict"]) == ("plans", "refused" if price[3] else "plans")
            else:
                assert {letters[letter] for letter in mark.split("/")} == {group["rule"], coming["rule"]}


def test_the_filters_leave_what_they_name() -> None:
    cells = report("--type", "p5.4xlarge", "--mode", "mig", "--provisioner", "node-group")["cells"]
    assert [(cell["way"], cell["provisioner"]) for cell in cells] == [
        ("mig-single", "node-group"),
        ("mig-mixed", "node-group"),
    ]
    assert len(report()["cells"]) == len(instance_types()) * len(matrix.WAYS) * len(matrix.PROVISIONERS)


def test_prices_are_those_of_the_region_or_said_to_be_others() -> None:
    text = printed("--region", "eu-central-2", "--mode", "exclusive")
    assert "Prices of eu-central-2 are unknown." in text
    assert "Where no price in eu-central-2 is known it is that of us-east-1." in text
    assert "Where no price" not in printed()
    other = report("--type", "g4dn.xlarge", "--mode", "timeslice", "--region", "us-gov-west-1")
    assert (other["region"], other["cells"][0]["on_demand_usd_per_hour"]) == ("us-gov-west-1", 0.663)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--type", "g4dn.xlarg"), "unknown GPU instance type 'g4dn.xlarg'. Did you mean g4dn.xlarge"),
        (("--type", ""), "unknown GPU instance type ''. Known: "),
        (("--region", "eu-centrl-1"), "unknown region 'eu-centrl-1'. Did you mean eu-central-1"),
        (("--mode", "mgi"), "invalid choice: 'mgi'"),
    ],
)
def test_an_unknown_word_is_a_wrong_call_with_a_way_out(arguments: tuple[str, ...], told: str) -> None:
    ended = called(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr


@pytest.mark.slow
def test_the_models_of_a_stack_are_tried_instead_of_the_example(tmp_path: Path) -> None:
    """Own models are described in the file: 40 GiB of weights fit no T4 (15,360 MiB)."""
    own = {
        "config": {
            "aws:region": "us-west-2",
            "tandem:sharing": {"mode": "timeslice"},
            "tandem:models": [{"name": "mine", "weights-gib": 40.0, "layers": 16, "kv-heads": 8, "head-dim": 64}],
        }
    }
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(own), encoding="utf-8")
    found = report(str(path), "--mode", "exclusive", "--provisioner", "node-group")
    assert (found["region"], found["models"]) == ("us-west-2", ["mine"])
    plans = {cell["instance_type"]: cell["verdict"] for cell in found["cells"]}
    assert plans["g4dn.xlarge"] == "refused"
    assert plans["g6e.2xlarge"] == "plans"
    assert report(str(path), "--type", "g6e.2xlarge", "--region", "us-east-1")["region"] == "us-east-1"
    assert printed(str(path), "--type", "g6e.2xlarge").splitlines()[1].startswith("mine, context 4096, ")


def test_a_stack_that_is_not_there_or_broken_is_a_wrong_call(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("config: {aws:region: us-east-1, tandem:models: [{name: lama2}]}", encoding="utf-8")
    for stack, told in (("nowhere", "there is no file"), (str(path), "models[0].name: unknown model")):
        ended = called(stack)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert told in ended.stderr
