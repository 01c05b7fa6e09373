"""The schema of stack files, from which editors have completion, descriptions and errors."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stacks.stack_file.schema import FILE, stack_schema
from tests.several_pools import stack_file as several_pools
from tests.shipped import FILES

WRITTEN = Path(__file__).resolve().parent.parent.parent / "docs" / FILE
TEXT = """
config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice, replicas: 2}
  tandem:proof: "false"
  tandem:models: [{name: "llama2:7b", context: 2048}]
  tandem:budget: {max-usd-per-hour: "0.5"}
"""


@cache
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(stack_schema())


def found(document: object) -> list[str]:
    return [error.message for error in validator().iter_errors(document)]


def changed(**changes: object) -> dict[str, Any]:
    """The values of `TEXT` with some keys changed."""
    config = yaml.safe_load(TEXT)["config"]
    return {"config": {**config, **{f"tandem:{key.replace('_', '-')}": value for key, value in changes.items()}}}


def test_the_schema_is_valid() -> None:
    jsonschema.Draft7Validator.check_schema(stack_schema())


def test_editors_read_the_bounds_defaults_and_examples_of_every_key() -> None:
    assert json.loads(WRITTEN.read_text(encoding="utf-8")) == stack_schema()


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
        changed(sharing={"mode": "timeslice", "replicas": 1}),
        changed(models=[{"name": "llama2:7b", "contxt": 2048}]),
        {"config": {**changed()["config"], "aws:region": 7}},
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
