"""How `tandem sandbox` is called, and what it says of a wrong call. Nothing is started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tandem.command import main
from tandem.sandbox.command import VERBS
from tandem.sandbox.verbs import HOME

ROOT = Path(__file__).parents[3]
PASSING_ON = ("up", "preview", "refresh", "destroy", "pulumi")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one stack, as the working directory. There is no `pulumi`."""
    for name in ("Pulumi.yaml", "Pulumi.timeslice.yaml", "__main__.py"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def call(*arguments: str) -> int:
    """The exit code of `tandem sandbox`."""
    try:
        return main(["sandbox", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_fits_80_columns(project: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert call(verb, "--help") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: tandem sandbox {verb} ")
    assert max(map(len, said.splitlines())) <= 80
    usage = said.partition("\n\n")[0]
    assert ("-- ARGUMENT ..." in usage) == (verb in PASSING_ON)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_without_arguments_ends_with_an_error_for_people(
    project: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """There is no `pulumi`, so each ends before it starts anything."""
    assert call(verb) == 2
    said = capsys.readouterr().err
    expected = {"delete": "STACK|FILE, TYPE, ID", "pulumi": "Write it after `--`"}
    assert expected.get(verb, "no `pulumi` on the PATH") in said


@pytest.mark.parametrize("given", [("timeslice",), ("timeslice", "vpc")])
def test_an_incomplete_delete_names_what_it_lacks(capsys: pytest.CaptureFixture[str], given: tuple[str, ...]) -> None:
    assert call("delete", *given) == 2
    assert "the following arguments are required: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [("pulumi", "dev", "stack", "output"), ("up", "dev", "--target", "x"), ("destroy", "dev", "--refresh")]
)
def test_a_forgotten_separator_is_named(capsys: pytest.CaptureFixture[str], given: tuple[str, ...]) -> None:
    assert call(*given) == 2
    said = capsys.readouterr().err
    assert f"usage: tandem sandbox {given[0]}" in said
    options = " ".join(given[2:])
    assert f"unrecognized arguments: {options}. Write what goes to pulumi after `--`" in said


@pytest.mark.parametrize("verb", ["status", "delete"])
def test_what_calls_no_pulumi_refuses_arguments_for_it(
    project: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    thing = ("aws:ec2/vpc:Vpc", "vpc-1") if verb == "delete" else ()
    assert call(verb, "timeslice", *thing, "--", "--refresh") == 2
    assert f"`{verb}` passes nothing to pulumi" in capsys.readouterr().err


@pytest.mark.parametrize("pace", ["-1", "nan", "inf", "fast"])
def test_a_pace_that_is_no_duration_is_refused(capsys: pytest.CaptureFixture[str], pace: str) -> None:
    assert call("up", f"--pace={pace}") == 2
    assert f"{pace!r} is not a number of seconds, 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["refresh", "destroy", "status", "pulumi", "delete"])
@pytest.mark.parametrize(
    ("stack", "says"), [("timslice", "Did you mean timeslice?"), ("nowhere/Pulumi.foo.yaml", "Stacks there: none.")]
)
def test_an_unknown_stack_is_refused_and_creates_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], verb: str, stack: str, says: str
) -> None:
    more = {"pulumi": ("--", "stack"), "delete": ("aws:ec2/vpc:Vpc", "vpc-1")}
    assert call(verb, stack, *more.get(verb, ())) == 2
    assert says in capsys.readouterr().err
    assert not (project / ".tandem").exists()


def test_a_sandbox_outlives_its_stack_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / HOME / "old").mkdir(parents=True)
    assert call("destroy", "old") == 2
    assert "no `pulumi` on the PATH" in capsys.readouterr().err
