"""What `tandem init` writes around a stack file, and where it does not write."""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tandem.init import recipes
from tandem.init.command import _pick
from tandem.init.project import missing_files
from tandem.init.questions import Questions
from tandem.search import new_stack_file
from tandem.terminal import CallError


def runtime(folder: Path) -> object:
    """What the new Pulumi.yaml says."""
    return yaml.safe_load(missing_files(folder)[folder / "Pulumi.yaml"])["runtime"]


def test_a_virtual_environment_in_the_folder_is_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pulumi.com/docs/iac/languages-sdks/python has these options. The path is relative to Pulumi.yaml."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert runtime(tmp_path) == {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    assert runtime(tmp_path / "other") == "python"
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert runtime(tmp_path) == "python"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: [", "cannot be read. Correct it"),
        (b"name: \xff", "cannot be read. Correct it"),
        (b"- tandem", "is of the project `None`, not `tandem`"),
        (b"name: other", "is of the project `other`, not `tandem`"),
    ],
)
def test_another_project_stays_as_it_is(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_bytes(content)
    with pytest.raises(CallError, match=said):
        missing_files(tmp_path)


def test_a_project_that_may_not_be_read_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: Path, **_: Any) -> str:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "Pulumi.yaml").touch()
    monkeypatch.setattr(Path, "read_text", deny)
    with pytest.raises(CallError, match="cannot be read"):
        missing_files(tmp_path)


@pytest.mark.parametrize("place", ["Pulumi.taken.yaml", "nowhere/Pulumi.mine.yaml"])
def test_a_stack_file_needs_a_folder_and_a_name_that_is_free(place: str, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.taken.yaml").mkdir()
    with pytest.raises(CallError, match=r"cannot be written. Name a file in a folder that exists."):
        new_stack_file.check(tmp_path / place, force=True, asks=False)
    with pytest.raises(CallError, match=r"cannot be written: .*. Choose another place."):
        new_stack_file.save(tmp_path / place, "")


@pytest.mark.parametrize(
    ("place", "doubts", "said"),
    [
        (0, (), ""),
        (1, (), "Setup 2 is written: as cheap as setup 1, and without a warning.\n"),
        (2, ("it is slow",), "Setup 3 is written: as cheap as setup 1, and with fewer warnings.\n"),
        # It is below those that are shown.
        (3, (), ""),
    ],
)
def test_nobody_gets_the_proposed_setup_of_those_shown_and_reads_why(
    place: int, doubts: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [SimpleNamespace(doubts=()) for _ in range(4)]
    rows[place].doubts = doubts
    found: Any = SimpleNamespace(choices=SimpleNamespace(fitting=rows, proposed=place))
    picked: object = _pick(found, argparse.Namespace(json=False), Questions(asks=False))
    assert (picked is rows[place if said else 0], capsys.readouterr().out) == (True, said)
    _pick(found, argparse.Namespace(json=True), Questions(asks=False))
    assert capsys.readouterr().out == ""


def test_a_recipe_names_the_flags_that_it_needs() -> None:
    unknown = {"ui": None, "allow-cidr": None}
    with pytest.raises(CallError, match=r"the recipe `chat` needs --ui EMAIL. Pass it"):
        recipes.read("chat").require(unknown)
    with pytest.raises(CallError, match=r"the recipe `private` needs --ui EMAIL and --allow-cidr CIDR. Pass it"):
        recipes.read("private").require(unknown)
    recipes.read("private").require({"ui": "a@example.com", "allow-cidr": ["none"]})
