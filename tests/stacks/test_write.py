"""A written stack file has the given values. `Pulumi.dev.yaml` shows its form, with a comment above each key."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stacks.stack_file.write import stack_file
from stacks.stack_file.yaml import as_yaml, load
from tests.several_pools import stack_file as several_pools
from tests.shipped import FILES


def values(text: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(text)["config"]
    return config


@pytest.mark.parametrize("every_key", [False, True])
@pytest.mark.parametrize("text", [*(path.read_text(encoding="utf-8") for path in FILES), several_pools()])
def test_a_rewritten_stack_file_means_the_same(text: str, every_key: bool) -> None:
    again = stack_file(values(text), ["head"], every_key=every_key)
    assert again.startswith("# head\nconfig:\n  # ")
    assert values(again) == values(text)


def test_sections_and_the_first_item_of_a_list_have_a_line_for_each_key() -> None:
    models = [{"name": "llama2:7b", "context": 2048}, {"name": "mistral:7b"}]
    lines = stack_file({"tandem:models": models, "tandem:sharing": {"mode": "mps", "replicas": 2}}, []).split("\n")
    assert [line for line in lines if not line.lstrip().startswith("#")] == [
        "config:",
        "",
        "  tandem:sharing:",
        "    mode: mps",
        "    replicas: 2",
        "",
        "  tandem:models:",
        '    - name: "llama2:7b"',
        "      context: 2048",
        '    - {name: "mistral:7b"}',
        "",
    ]


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1)


@settings(max_examples=15)
@given(st.dictionaries(WORDS, WORDS | st.integers() | st.booleans() | st.none(), min_size=1))
def test_any_text_is_quoted_if_yaml_requires_it(tags: dict[str, Any]) -> None:
    """By the rules of Pulumi's own reader, for which `1e3` is a number and `on` is not a boolean."""
    loaded = load(stack_file({"tandem:tags": tags}, []), "written")
    assert (loaded.value, loaded.duplicates) == ({"config": {"tandem:tags": tags}}, ())


def test_a_number_is_written_without_the_noise_of_its_last_bits() -> None:
    assert [as_yaml(number) for number in (0.1 + 0.2, 3.0, 0.5)] == ["0.3", "3", "0.5"]


def test_letters_stay_readable() -> None:
    assert as_yaml("für uns") == '"für uns"'


def test_a_note_replaces_the_description_of_its_key_alone() -> None:
    given = {"tandem:gpu-nodes": {"instance-types": ["g4dn.xlarge"], "max": 1}}
    plain = stack_file(given, []).splitlines()
    noted = stack_file(given, [], notes={"gpu-nodes.instance-types": "One type."}).splitlines()
    [place] = [index for index, line in enumerate(plain) if line != noted[index]]
    assert noted[place : place + 2] == ["    # One type.", "    instance-types: [g4dn.xlarge]"]
    assert len(plain) == len(noted)
    long = stack_file(given, [], notes={"gpu-nodes.instance-types": "word " * 40}).splitlines()
    assert 100 < max(map(len, long)) <= 110


def test_comments_of_the_shipped_stack_files_are_above_their_keys() -> None:
    """`pulumi config set` moves a comment beside a value to the end of the line."""
    for path in FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "# yaml-language-server: $schema=docs/stack.schema.json", path.name
        assert [line for line in lines if " #" in line.lstrip() and not line.lstrip().startswith("#")] == [], path.name
