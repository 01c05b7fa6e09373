"""Writing the description of a model into a stack file, without changing anything else in it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.models.served import ServedModel
from stacks.stack_file.edit import with_description, write_description
from stacks.stack_file.errors import UnreadableError
from tests.shipped import FILES

OWN: dict[str, object] = {"gguf": "mine.json"}
FILE = """\
# Mine.
config:
  aws:region: us-east-1   # home

  tandem:sharing: {mode: timeslice}
  tandem:models:
    # the first
    - name: "mine:7b"     # pulled by hand
      context: 2048       # tokens
      # gguf: null
    - {name: "mistral:7b", context: 2048}
  # tandem:proof: true
  tandem:tags: {team: "a"}
"""


def edited(text: str, name: str = "mine:7b", own: dict[str, object] = OWN) -> str:
    after, _ = with_description(text, "Pulumi.x.yaml", name, own)
    return after


def models(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(text)["config"]["tandem:models"]
    return found


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.lstrip().startswith("#")]


def test_a_description_comes_after_the_last_key_of_its_entry_and_nothing_else_changes() -> None:
    new = "      gguf: mine.json\n"
    assert edited(FILE) == FILE.replace("# tokens\n", f"# tokens\n{new}")


def test_an_entry_on_one_line_gets_one_line_per_key() -> None:
    lines = """\
    - name: "mistral:7b"
      context: 2048
      gguf: mine.json
"""
    assert edited(FILE, "mistral:7b") == FILE.replace('    - {name: "mistral:7b", context: 2048}\n', lines)


def test_a_missing_model_is_added_at_the_end_of_the_list() -> None:
    after = edited(FILE, "hf.co/me/New-GGUF:Q4_K_M")
    added = '    - name: "hf.co/me/New-GGUF:Q4_K_M"\n      gguf: mine.json\n'
    assert after == FILE.replace("context: 2048}\n", f"context: 2048}}\n{added}")
    assert with_description(FILE, "x", "new:1b", OWN)[1] == 1
    block = "config:\n  tandem:models:\n  - name: mine:7b\n  tandem:tags: {}\n"
    added = '  - name: "new:1b"\n    gguf: mine.json\n'
    assert edited(block, "new:1b") == block.replace("mine:7b\n", f"mine:7b\n{added}")


def test_a_newer_description_replaces_the_older_one_and_its_keys() -> None:
    old = FILE.replace("context: 2048       # tokens", "weights-gib: 4.5\n      layers: 32\n      context: 2048")
    assert models(edited(old))[0] == {"name": "mine:7b", "context": 2048, **OWN}
    again = edited(FILE, own={"gguf": "other.json"})
    assert edited(again) == edited(FILE)
    assert edited(edited(FILE)) == edited(FILE)


def test_keys_that_share_a_line_become_null() -> None:
    text = 'config:\n  tandem:models: [{name: "mine:7b", swa-layers: 4, gguf: a.json}]\n'
    assert edited(text) == 'config:\n  tandem:models: [{name: "mine:7b", swa-layers: null, gguf: mine.json}]\n'
    first = "config:\n  tandem:models:\n  - swa-layers: 4\n    name: mine:7b\n"
    assert models(edited(first))[0] == {"swa-layers": None, "name": "mine:7b", **OWN}


def test_an_empty_value_and_an_empty_list_are_filled() -> None:
    assert models(edited("config:\n  tandem:models:\n  - gguf:\n    name: mine:7b\n"))[0] == {**OWN, "name": "mine:7b"}
    assert models(edited("config:\n  tandem:models: []\n")) == [{"name": "mine:7b", **OWN}]


@pytest.mark.parametrize(
    ("written", "asked"),
    [("mine", "mine:latest"), ("mine:latest", "mine"), ("registry.ollama.ai/library/mine", "mine")],
)
def test_a_name_without_a_version_means_latest(written: str, asked: str) -> None:
    text = f"config:\n  tandem:models:\n  - name: {written}\n"
    assert [model["name"] for model in models(edited(text, asked))] == [written]


def test_every_entry_of_the_model_is_described() -> None:
    text = FILE.replace("mistral:7b", "mine:7b")
    after, count = with_description(text, "x", "mine:7b", OWN)
    assert count == 2
    assert [model["gguf"] for model in models(after)] == ["mine.json", "mine.json"]


@pytest.mark.parametrize(
    "text",
    [
        FILE.replace("\n", "\r\n"),
        "\ufeff" + FILE,
        FILE.rstrip("\n"),
        FILE.replace("    ", "  "),
        FILE.replace("# Mine.", "# Müll \U0001f600"),
        "config:\n  tandem:models:\n  - name: mine:7b",
        "config:\n  tandem:models:\n  - name: mine:7b # last",
        "config: {tandem:models: [{name: 'mine:7b'}]}",
        "config:\n  tandem:models:\n  - name: mine:7b\n    gguf:\n",
        "config:\n  tandem:models:\n  - {name: 'mine:7b', gguf: a.json, slots: 2}\n",
        "config:\n  tandem:models: [\n    {name: 'mine:7b'},\n    {name: 'b:1b'}\n  ]\n",
        "config:\n  tandem:models:\n  - {\n    name: 'mine:7b', # the name\n    slots: 2\n    }\n",
        "config:\n  tandem:models:\n  -\n    name: mine:7b\n    slots: 2\n\n\n  tandem:tags: {}\n",
        *(path.read_text(encoding="utf-8") for path in FILES),
    ],
)
@pytest.mark.parametrize("name", ["mine:7b", "new:1b"])
def test_files_keep_their_style(text: str, name: str) -> None:
    after = edited(text, name)
    before = models(text)
    expected = before if name in [model["name"] for model in before] else [*before, {"name": name}]
    assert models(after) == [{**model, **OWN} if model["name"] == name else model for model in expected]
    assert ("\r\n" in after, "\n" in after.replace("\r\n", "")) == ("\r\n" in text, "\n" in text.replace("\r\n", ""))
    assert comments(after) == comments(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("config: {}\n", 'has no list of models. Add `tandem:models: [{name: "mine:7b"}]` under `config:`.'),
        ("config:\n  tandem:models: {name: a}\n", "has no list of models"),
        ("config:\n  tandem:models: [a]\n", "has no list of models"),
        ("[]\n", "has no list of models"),
        ("a: [\n", "cannot be read as YAML"),
        (FILE + FILE, "has a key twice: config. Keep one of the two."),
        (
            "config:\n  tandem:models:\n  - &a {name: 'mine:7b', slots: 1}\n  - <<: *a\n    slots: 2\n",
            "is written so that this entry cannot be changed alone. Write the description by hand.",
        ),
        # Another model would get the description, too.
        (
            "config:\n  tandem:models:\n  - &a\n    name: mine:7b\n  - {<<: *a, name: 'b:1b'}\n",
            "cannot be changed alone",
        ),
        ("config:\n  tandem:models: [{name: 'b:1b'},]\n", "cannot be changed alone"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_alone(text: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(text)
    with pytest.raises(UnreadableError) as refusal:
        write_description(path, "mine:7b", OWN)
    assert str(refusal.value).startswith("Pulumi.x.yaml ")
    assert shown in str(refusal.value)
    assert path.read_text() == text


def test_the_file_behind_a_link_is_replaced(tmp_path: Path) -> None:
    path, link = tmp_path / "real.yaml", tmp_path / "Pulumi.x.yaml"
    path.write_text(FILE)
    link.symlink_to(path)
    assert write_description(link, "mine:7b", OWN) == 1
    assert link.is_symlink()
    assert path.read_text() == edited(FILE)


def test_a_file_that_another_process_changes_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(FILE)
    monkeypatch.setattr("sharing.files.os.fsync", lambda _: path.write_text("# other\n"))
    with pytest.raises(UnreadableError, match="changed by another process"):
        write_description(path, "mine:7b", OWN)
    assert path.read_text() == "# other\n"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    with pytest.raises(UnreadableError, match="cannot be written: No such file"):
        write_description(path, "mine:7b", OWN)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableError, match="is not UTF-8 text"):
        write_description(path, "mine:7b", OWN)


@settings(max_examples=20)
@given(name=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40))
def test_any_description_is_read_back_unchanged(name: str) -> None:
    model = models(edited(FILE, own={"gguf": name}))[0]
    assert ServedModel.model_validate({**model, "name": "mine:7b"}).gguf == name
