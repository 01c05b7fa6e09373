"""The places that errors and warnings name: a position in a file, or else the origin of the value."""

import contextvars
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pulumi
import pytest
import yaml

from sharing.problems import Problem
from stacks.program import load_plan
from stacks.stack_file.judge import RefusedError, judge_file
from stacks.stack_file.positions import Document, locate
from stacks.stack_file.yaml import load
from tests.command import ROOT, call
from tests.shipped import FILES

WRONG = """\
config:
  aws:regionn: us-east-1
  tandem:sharing:
    mode: timeslice
    replicas: 1
  tandem:models:
    - {name: "llama2:7b", contxt: 3}
    - name: "mistral:7b"
      context: -1
  tandem:gpu-nodes: {max: 0}
  tandem:tags: {team: ml, team: web}
  tandem:cluster: &same {nat: nnone}
  models: []
  tandem:budget: {max-usd-per-hour: x, max-usd-per-month: []}
other: 1
"""
PLACES = {
    "aws:regionn": (2, 3),
    "sharing.replicas": (5, 15),
    "models[0].contxt": (7, 27),
    "models[1].context": (9, 16),
    "gpu-nodes.max": (10, 27),
    "tags.team": (11, 27),
    "cluster.nat": (12, 31),
    "models": (13, 3),
    "budget.max-usd-per-hour": (14, 37),
    "budget.max-usd-per-month": (14, 59),
    "other": (15, 1),
}
"""Counted by hand: the position of the value, or of the key if the key itself is wrong."""
GOOD = {
    "aws:region": "us-east-1",
    "tandem:sharing": {"mode": "timeslice"},
    "tandem:models": [{"name": "llama3.2:1b"}],
}


def test_every_error_of_a_file_has_the_line_and_column_of_its_value(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.wrong.yaml"
    file.write_text(WRONG)
    found = {problem.path: problem.place for problem in judge_file(file).problems}
    assert {path: (place.line, place.column) for path, place in found.items() if place and place.line} == PLACES
    assert {place.file for place in found.values() if place and place.line} == {"Pulumi.wrong.yaml"}
    # It is missing, and belongs to no section of the file.
    assert found["aws:region"] is None
    first, *shown = call("plan", str(file)).stdout.splitlines()
    assert first == "error: Pulumi.wrong.yaml has 12 errors"
    replicas = "  Pulumi.wrong.yaml:5:15  sharing.replicas: must be at least 2, not 1."
    assert len([line for line in shown if line.startswith(replicas)]) == 1


def test_a_missing_key_has_the_place_of_its_section(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(yaml.safe_dump({"config": {**GOOD, "tandem:models": [{"context": 512}]}}))
    [problem] = judge_file(file).problems
    assert str(problem).startswith("Pulumi.x.yaml:4:5  models[0].name: is missing.")


def test_a_wrong_default_is_marked_as_a_default(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    # The file names no instance type, and Melbourne has no G4dn.
    file.write_text(yaml.safe_dump({"config": {**GOOD, "aws:region": "ap-southeast-4"}}))
    [problem] = [problem for problem in judge_file(file).problems if "instance-types" in problem.path]
    assert str(problem).startswith("gpu-nodes.instance-types[0] (default): ")


def leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every scalar below a value, with its path and its text in YAML."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from leaves(below, f"{path}[{index}]")
    else:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_every_value_of_a_shipped_stack_has_its_position(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    config = {key.removeprefix("tandem:"): value for key, value in yaml.safe_load(text)["config"].items()}
    found = dict(leaves(config))
    assert len(found) > 8
    places = {
        problem.path: problem.place for problem in locate(map(wrong, found), [Document(name, load(text, name).root)])
    }
    assert len(set(places.values())) == len(found), "no two values have the same position"
    for path, shown in found.items():
        place = places[path]
        assert place
        assert text.splitlines()[place.line - 1][place.column - 1 :].lstrip('"').startswith(shown), path


def wrong(path: str) -> Problem:
    return Problem(path, "a value", "is wrong", "Write another.")


def refusal(folder: Path, values: Mapping[str, object], monkeypatch: pytest.MonkeyPatch, *secrets: str) -> list[str]:
    """The errors of `pulumi up`, run in the project's folder, for values that Pulumi has merged."""
    monkeypatch.chdir(folder)
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}

    def read() -> list[str]:
        pulumi.runtime.set_all_config(given, list(secrets))
        pulumi.runtime.settings.configure(pulumi.runtime.settings.Settings(project="tandem", stack="s"))
        with pytest.raises(RefusedError) as refused:
            load_plan()
        return [line for line in str(refused.value).splitlines() if line.startswith("  ")]

    return contextvars.copy_context().run(read)


BAD = {**GOOD, "tandem:sharing": {"mode": "timeslice", "replicas": 1}}


def test_in_an_up_a_value_of_the_stack_file_has_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.s.yaml").write_text("config:\n  tandem:sharing: {mode: timeslice, replicas: 1}\n")
    [said] = refusal(tmp_path, BAD, monkeypatch)
    assert said.startswith("  Pulumi.s.yaml:2:47  sharing.replicas: must be at least 2, not 1.")


def test_in_an_up_a_value_that_pulumi_wrote_as_text_has_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.s.yaml").write_text('config:\n  tandem:proof: "Maybe"\n')
    [said] = refusal(tmp_path, {**GOOD, "tandem:proof": "Maybe"}, monkeypatch)
    assert said.startswith("  Pulumi.s.yaml:2:17  proof: ")


def test_in_an_up_a_number_that_must_be_text_is_quoted_as_the_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.s.yaml").write_text("config:\n  tandem:tags: {cost: 0815}\n")
    [said] = refusal(tmp_path, {**GOOD, "tandem:tags": {"cost": 815}}, monkeypatch)
    assert said == '  Pulumi.s.yaml:2:23  tags.cost: must be text, not 0815. Put it in quotes: "0815".'


@pytest.mark.parametrize(
    "others", ["config:\n  tandem:sharing: {mode: timeslice, replicas: 4}\n", "config: {}\n", "{", ""]
)
def test_in_an_up_a_value_that_is_not_in_the_stack_file_has_another_origin(
    others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.s.yaml").write_text(others)
    [said] = refusal(tmp_path, BAD, monkeypatch)
    assert re.match(r"  sharing\.replicas \((not in Pulumi.s.yaml: )?from `--config-file` or an environment\): ", said)


def test_in_an_up_without_the_stack_file_the_key_and_its_origin_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [said] = refusal(tmp_path, BAD, monkeypatch)
    assert said.startswith("  sharing.replicas (from `--config-file` or an environment): must be at least 2, not 1.")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("config:\n  tandem:sharing:\n    value: {mode: timeslice, replicas: 1}\n", "3:40"),
        ("config:\n  sharing:\n    default:\n      replicas: 1\n", "4:17"),
        ("config:\n  sharing: {mode: timeslice, replicas: 1}\n", "2:40"),
    ],
)
def test_in_an_up_a_default_of_the_project_has_its_position_in_pulumi_yaml(
    text: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"{text}name: tandem\n")
    (tmp_path / "Pulumi.s.yaml").write_text("config: {}\n")
    [said] = refusal(tmp_path, BAD, monkeypatch)
    assert said.startswith(f"  Pulumi.yaml:{place}  sharing.replicas: ")


BOTH = "config:\n  tandem:sharing: {{mode: timeslice, replicas: {0}}}\n  sharing: {{mode: timeslice, replicas: {1}}}\n"


@pytest.mark.parametrize(("replicas", "place"), [((1, 4), "2:47"), ((4, 1), "3:40")])
def test_in_an_up_with_two_keys_for_one_section_the_position_is_that_of_the_used_key(
    replicas: tuple[int, int], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pulumi adds the project's namespace to a key without one, and the order of a Go map decides which of the two
    # it uses. Source: pulumi/pulumi, sdk/go/common/workspace, stackConfigNamespacedWithProject.
    (tmp_path / "Pulumi.s.yaml").write_text(BOTH.format(*replicas))
    [said] = refusal(tmp_path, BAD, monkeypatch)
    assert said.startswith(f"  Pulumi.s.yaml:{place}  sharing.replicas: ")


def test_in_an_up_a_default_of_tandem_is_marked_as_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(tmp_path, {**GOOD, "aws:region": "ap-southeast-4"}, monkeypatch)
    assert any(line.startswith("  gpu-nodes.instance-types[0] (default): ") for line in said)


def test_the_value_of_a_secret_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "config:\n  aws:profile: {secure: AAAB}\n  tandem:sharing:\n    mode: {secure: AAAC}\n"
    (tmp_path / "Pulumi.s.yaml").write_text(text)
    values = {**GOOD, "tandem:sharing": {"mode": "hunter2"}, "aws:profile": "hunter2 "}
    said = refusal(tmp_path, values, monkeypatch, "tandem:sharing", "aws:profile")
    assert "hunter2" not in "".join(said)
    places = [line.split(": ")[0].strip() for line in said]
    assert places == ["Pulumi.s.yaml:2:16  aws:profile", "Pulumi.s.yaml:4:5  sharing"]
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["tandem:sharing", "aws:profile"]')
    assert refusal(tmp_path, values, monkeypatch) == said
