"""The fix for each key of a stack file stands beside its field: as an example that is accepted, or as a sentence."""

import pytest
from pydantic import BaseModel

from sharing.modes.modes import mode_names
from sharing.verdict import matrix
from stacks.stack_file.form_errors import WAYS, fields, hint
from tests.stacks.test_every_error import key_of, said, with_value

EXAMPLES = [(path, example) for path, field in fields().items() for example in field.examples or ()]


@pytest.mark.usefixtures("without_advice")
def test_every_example_is_a_valid_value() -> None:
    for path, example in EXAMPLES:
        key = key_of(path)
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


def test_each_name_of_a_mode_that_is_no_value_of_a_file_has_a_fix() -> None:
    assert set(WAYS) == set(matrix.WAYS) - set(mode_names())


def test_every_key_has_a_hint_or_a_default_to_return_to() -> None:
    without = [
        path
        for path, field in fields().items()
        if (field.is_required() or isinstance(field.default, BaseModel | dict)) and not hint(path)
    ]
    assert without == []
