"""The fix for each key of a stack file stands beside its field: as an example that is accepted, or as a sentence."""

import pytest
from pydantic import BaseModel

from stacks.stack_file.hints import UNSUPPORTED, fields, hint
from stacks.stack_file.schema import stack_schema
from tests.program.conftest import judge_with, source_of
from tests.stacks.test_every_error import said, with_value

EXAMPLES = [(path, example) for path, field in fields().items() for example in field.examples or ()]


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[f"{path}-{example}" for path, example in EXAMPLES])
def test_every_example_is_a_valid_value(path: str, example: object) -> None:
    key = path.replace("[]", "[0]")
    for mode in ("exclusive", "timeslice", "mps", "mig"):
        key = key.replace(f"sharing.{mode}.", "sharing.")
    wrong = [line for line in said(with_value(path, example)) if line.startswith((f"{key}:", f"{key}.", f"{key}["))]
    assert not [line for line in wrong if "must be " in line or "unknown" in line or "is not valid" in line]


def test_a_fix_is_derived_from_the_examples_of_the_field() -> None:
    assert hint("models[].batch") == "Write `batch: 512`, for example."
    assert hint("ui.enabled") == "Write `enabled: true` or `enabled: false`."
    assert hint("park").startswith('Write `tandem:park: {schedule: "0 20 * * MON-FRI", wake: ')
    assert hint("models[]") == 'Write `{name: "llama2:7b"}`, for example.', "an item of a list"
    assert hint("cluster.admins[]") == "Write `admins: [arn:aws:iam::111122223333:role/ci]`, for example."
    assert hint("cluster.zones") == "", "the default is enough"
    assert hint("tags.team") == "", "a key of the user's own"


def test_the_editor_offers_the_same_examples() -> None:
    [model] = [section for section in stack_schema()["$defs"].values() if "batch" in section.get("properties", {})]
    assert model["properties"]["batch"]["examples"] == [512]


def test_every_key_has_a_hint_or_a_default_to_return_to() -> None:
    sections = [path for path, field in fields().items() if isinstance(field.default, BaseModel | dict)]
    required = [path for path, field in fields().items() if field.is_required()]
    assert {"cluster", "models"} <= {*sections, *required}
    assert [path for path in (*sections, *required) if not hint(path)] == []


def test_keys_without_support_are_keys_of_no_stack_file() -> None:
    assert not {*UNSUPPORTED} & {*fields()}


@pytest.mark.parametrize(("mode", "unit"), [("timeslice", "GPU"), ("mps", "GPU"), ("mig", "slice")])
def test_a_pool_in_a_list_gets_the_hint_of_its_own_mode(mode: str, unit: str) -> None:
    pools = [{"name": "a", "instance-types": ["g7e.2xlarge"], "sharing": {"mode": mode, "replicas": 1}}]
    models = [{**one, "pool": "a"} for one in source_of("timeslice").sections["models"]]
    [problem] = judge_with("timeslice", {"gpu-nodes": pools, "models": models, "budget": {}}).problems
    assert problem.path == "gpu-nodes[0].sharing.replicas"
    assert problem.fix.startswith(f"For one pod per {unit}, ")
