"""The places that errors and warnings name: a position in a file, or else the origin of the value."""

import contextvars
import json
from collections.abc import Mapping
from pathlib import Path

import pulumi
import pytest
import yaml

from stacks.program import load_plan
from stacks.stack_file.judge import RefusedError, judge_file
from tests.command import call

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
  tandem:models-clients: {labels: {a: long, a.b: 5}}
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
    "models-clients.labels.a.b": (15, 50),
    "other": (16, 1),
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
    assert first == "error: Pulumi.wrong.yaml has 13 errors"
    replicas = "  Pulumi.wrong.yaml:5:15  sharing.replicas: must be at least 2, not 1."
    assert len([line for line in shown if line.startswith(replicas)]) == 1


def test_a_missing_key_has_the_place_of_its_section(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(yaml.safe_dump({"config": {**GOOD, "tandem:models": [{"context": 512}]}}))
    [problem] = judge_file(file).problems
    assert str(problem).startswith("Pulumi.x.yaml:4:5  models[0].name: is missing.")


def refusal(folder: Path, values: Mapping[str, object], monkeypatch: pytest.MonkeyPatch, *secrets: str) -> list[str]:
    """The errors of `pulumi up`, run in the project's folder, for values that Pulumi has merged."""
    monkeypatch.chdir(folder)
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}

    def read() -> list[str]:
        pulumi.runtime.set_all_config(given, list(secrets))
        pulumi.runtime.settings.configure(pulumi.runtime.settings.Settings(project="tandem", stack="s"))
        with pytest.raises(RefusedError) as refused:
            load_plan()
        return [line.strip() for line in str(refused.value).splitlines() if line.startswith("  ")]

    return contextvars.copy_context().run(read)


BAD: dict[str, object] = {"tandem:sharing": {"mode": "timeslice", "replicas": 1}}
STACK, PROJECT = "Pulumi.s.yaml", "Pulumi.yaml"
NO_VALUES = "config: {}\n"
# Pulumi adds the project's namespace to a key without one, and the order of a Go map decides which of the two it uses.
# Source: pulumi/pulumi, sdk/go/common/workspace, stackConfigNamespacedWithProject.
TWICE = "config:\n  tandem:sharing: {mode: timeslice, replicas: %d}\n  sharing: {mode: timeslice, replicas: %d}\n"
ELSEWHERE = "from `--config-file` or an environment"
IN_AN_UP: dict[str, tuple[dict[str, str], dict[str, object], str]] = {
    "in the stack's file": (
        {STACK: "config:\n  tandem:sharing: {mode: timeslice, replicas: 1}\n"},
        BAD,
        "Pulumi.s.yaml:2:47  sharing.replicas: must be at least 2, not 1.",
    ),
    "in a section that is JSON text: the position of the text": (
        {STACK: 'config:\n  tandem:sharing: \'{"mode": "timeslice", "replicas": 1}\'\n'},
        BAD,
        "Pulumi.s.yaml:2:19  sharing.replicas: ",
    ),
    "a wrong key in JSON text": (
        {STACK: 'config:\n  tandem:sharing: \'{"mode": "timeslice", "replica": 1}\'\n'},
        {"tandem:sharing": {"mode": "timeslice", "replica": 1}},
        "Pulumi.s.yaml:2:19  sharing.replica: unknown key.",
    ),
    "written as text by Pulumi": (
        {STACK: 'config:\n  tandem:proof: "Maybe"\n'},
        {"tandem:proof": "Maybe"},
        "Pulumi.s.yaml:2:17  proof: ",
    ),
    "a number that must be text, as the file has it": (
        {STACK: "config:\n  tandem:tags: {cost: 0815}\n"},
        {"tandem:tags": {"cost": 815}},
        'Pulumi.s.yaml:2:23  tags.cost: must be text, not 0815. Put it in quotes: "0815".',
    ),
    "another value in the stack's file": (
        {STACK: "config:\n  tandem:sharing: {mode: timeslice, replicas: 4}\n"},
        BAD,
        f"sharing.replicas (not in Pulumi.s.yaml: {ELSEWHERE}): must be at least 2",
    ),
    "no value in the stack's file": (
        {STACK: NO_VALUES},
        BAD,
        f"sharing.replicas (not in Pulumi.s.yaml: {ELSEWHERE}): ",
    ),
    "an empty stack file": ({STACK: ""}, BAD, f"sharing.replicas (not in Pulumi.s.yaml: {ELSEWHERE}): "),
    "a stack file that cannot be read": ({STACK: "{"}, BAD, f"sharing.replicas ({ELSEWHERE}): "),
    "no stack file": ({}, BAD, f"sharing.replicas ({ELSEWHERE}): must be at least 2, not 1."),
    "a default of the project": (
        {STACK: NO_VALUES, PROJECT: "config:\n  sharing: {mode: timeslice, replicas: 1}\n"},
        BAD,
        "Pulumi.yaml:2:40  sharing.replicas: ",
    ),
    "a default of the project, as `value`": (
        {STACK: NO_VALUES, PROJECT: "config:\n  tandem:sharing:\n    value: {mode: timeslice, replicas: 1}\n"},
        BAD,
        "Pulumi.yaml:3:40  sharing.replicas: ",
    ),
    "a default of the project, as `default`": (
        {STACK: NO_VALUES, PROJECT: "config:\n  sharing:\n    default:\n      replicas: 1\n"},
        BAD,
        "Pulumi.yaml:4:17  sharing.replicas: ",
    ),
    "the first of two keys for one section": ({STACK: TWICE % (1, 4)}, BAD, "Pulumi.s.yaml:2:47  sharing.replicas: "),
    "the second of two keys": ({STACK: TWICE % (4, 1)}, BAD, "Pulumi.s.yaml:3:40  sharing.replicas: "),
    # The file names no instance type, and Melbourne has no G4dn.
    "a default of tandem": ({}, {"aws:region": "ap-southeast-4"}, "gpu-nodes.instance-types[0] (default): "),
}
"""The files beside the program, the values that Pulumi has merged, and the beginning of the error."""


@pytest.mark.parametrize("case", IN_AN_UP)
def test_in_an_up_a_value_has_its_position_or_its_origin(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, values, expected = IN_AN_UP[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    said = refusal(tmp_path, {**GOOD, **values}, monkeypatch)
    assert any(line.startswith(expected) for line in said), said


def test_the_project_of_the_sandbox_is_a_copy_so_only_the_folder_of_the_program_has_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (tmp_path / STACK).write_text("config:\n  tandem:sharing: {mode: timeslice, replicas: 1}\n")
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(tmp_path))
    assert refusal(program, {**GOOD, **BAD}, monkeypatch)[0].startswith("Pulumi.s.yaml:2:47  sharing.replicas: ")
    monkeypatch.setenv("PULUMI_DEBUG_PROVIDERS", "aws:1234")
    assert refusal(program, {**GOOD, **BAD}, monkeypatch)[0].startswith(f"sharing.replicas ({ELSEWHERE}): ")


def test_the_value_of_a_secret_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "config:\n  aws:profile: {secure: AAAB}\n  tandem:sharing:\n    mode: {secure: AAAC}\n"
    (tmp_path / "Pulumi.s.yaml").write_text(text)
    values = {**GOOD, "tandem:sharing": {"mode": "hunter2"}, "aws:profile": "hunter2 "}
    said = refusal(tmp_path, values, monkeypatch, "tandem:sharing", "aws:profile")
    assert "hunter2" not in "".join(said)
    places = [line.split(": ")[0] for line in said]
    assert places == ["Pulumi.s.yaml:2:16  aws:profile", "Pulumi.s.yaml:4:5  sharing"]
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["tandem:sharing", "aws:profile"]')
    assert refusal(tmp_path, values, monkeypatch) == said
