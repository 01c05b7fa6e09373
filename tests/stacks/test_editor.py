"""The schema of stack files, and an editor's completion, descriptions and errors with it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stacks.stack_file.schema import stack_schema
from tests.command import ROOT
from tests.several_pools import stack_file as several_pools
from tests.shipped import FILES
from tests.stacks.language_server import Editor, editor

SERVER = "yaml-language-server"
TEXT = """# yaml-language-server: $schema=stack.schema.json
config:
  aws:region: us-east-1
  tandem:sharing:
    mode: timeslice
    replicas: 2
  tandem:proof: "false"
  tandem:models:
    - name: "llama2:7b"
      context: 2048
      kv
  tandem:budget: {max-usd-per-hour: "0.5"}
"""


def found(document: object) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(stack_schema()).iter_errors(document)]


def changed(**changes: object) -> dict[str, Any]:
    """The values of `TEXT` with some keys changed."""
    config = yaml.safe_load(TEXT.replace("      kv\n", ""))["config"]
    return {"config": {**config, **{f"tandem:{key.replace('_', '-')}": value for key, value in changes.items()}}}


def test_the_schema_is_valid() -> None:
    jsonschema.Draft7Validator.check_schema(stack_schema())


@pytest.mark.parametrize("text", [*(path.read_text(encoding="utf-8") for path in FILES), several_pools()])
def test_all_our_stack_files_are_valid(text: str) -> None:
    assert found(yaml.safe_load(text)) == []


@pytest.mark.parametrize(
    "document",
    [
        changed(proof=False),
        changed(proof="true"),
        changed(budget={"max-usd-per-hour": 3}),
        changed(sharing='{"mode": "mps"}', tags='{"team": "ml"}'),
        changed() | {"encryptionsalt": "v1:x", "secretsprovider": "awskms://x"},
        {"config": {**changed()["config"], "kubernetes:context": "x", "team:key": {"a": 1}}},
    ],
)
def test_files_written_by_pulumi_are_valid(document: dict[str, Any]) -> None:
    assert found(document) == []


@pytest.mark.parametrize(
    "document",
    [
        changed(proof="no"),
        changed(budget={"max-usd-per-hour": "much"}),
        changed(budget={"max-usd-per-hour": 0}),
        changed(sharing={"mode": "shared"}),
        changed(sharing={"replicas": 2}),
        changed(sharing="mps"),
        changed(proofs=True),
        changed(cluster={"kubernetes": 1.36}),
        {**changed(), "configs": {}},
        {"config": {**changed()["config"], "aws:regions": "us-east-1"}},
        {"config": {**changed()["config"], "proof": True}},
        {},
    ],
)
def test_files_that_the_command_refuses_for_their_structure_are_invalid(document: dict[str, Any]) -> None:
    assert found(document) != []


@contextmanager
def opened(folder: Path, text: str) -> Iterator[Editor]:
    """An editor that has a stack file with this text open."""
    command = shutil.which(SERVER)
    if command is None:
        pytest.skip(f"`{SERVER}` is not on the PATH (npm install --global {SERVER})")
    (folder / "stack.schema.json").write_text(json.dumps(stack_schema()), encoding="utf-8")
    path = folder / "Pulumi.mine.yaml"
    path.write_text(text, encoding="utf-8")
    with editor(command, path) as opened:
        yield opened


@pytest.mark.slow
def test_an_editor_completes_keys_and_values(tmp_path: Path) -> None:
    with opened(tmp_path, TEXT.replace("mode: timeslice", "mode: ") + "  ") as one:
        assert {"kv-type", "kv-heads", "slots", "weights-gib"} <= {*one.completions(10, 8)}
        assert {"tandem:gpu-nodes", "tandem:cluster", "tandem:tags", "aws:profile"} <= {*one.completions(12, 2)}
        assert {"exclusive", "timeslice", "mps", "mig"} <= {*one.completions(4, 10)}


@pytest.mark.slow
def test_an_editor_shows_only_the_description(tmp_path: Path) -> None:
    text = TEXT.replace("      kv\n", "\n")
    reference = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8").splitlines()
    with opened(tmp_path, text) as one:
        for line, key in ((5, "replicas"), (6, "proof"), (9, "context"), (11, "budget")):
            # Version 1.25 of the server escapes backticks.
            shown = one.hover(line, text.splitlines()[line].index(key) + 1).replace("\\`", "`")
            place = next(number for number, each in enumerate(reference) if f"{key}:" in each)
            assert shown.startswith(reference[place - 1].strip().removeprefix("# "))
