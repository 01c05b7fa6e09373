"""What all commands have in common: which file is meant, and how they tell what keeps them from their work."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tandem.arguments import stack_file
from tandem.command import main
from tandem.extras import EXTRAS, NEEDED
from tests.command import Printed

ROOT = Path(__file__).parents[2]


def test_a_stack_is_found_from_a_folder_below_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "tests")
    assert stack_file("mps") == ROOT / "Pulumi.mps.yaml"


def test_a_name_with_a_slash_or_an_ending_is_a_file() -> None:
    assert stack_file("Pulumi.mps.yaml") == Path("Pulumi.mps.yaml")
    assert stack_file("./mps") == Path("mps")


WITH_A_STACK = ("doctor", "leftovers", "quota", "prices", "verify", "watch", "chat", "bench")


@pytest.mark.parametrize("command", WITH_A_STACK)
def test_an_unknown_stack_is_told_with_the_nearest_one_to_people_and_to_machines(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(ROOT)
    told = f"there is no file {ROOT}/Pulumi.timeslise.yaml. Did you mean timeslice?"
    assert main([command, "timeslise"]) == 2
    assert capsys.readouterr() == ("", f"tandem: {told}\n")
    assert main([command, "timeslise", "--json"]) == 2
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"schema_version": 1, "error": told}, "")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (["modes", "--type", "g4dn.xlarg"], "Did you mean g4dn.xlarge"),
        (["report", "none.json"], "none.json cannot be read"),
        (["chat"], "--url NAME=URL"),
        (["leftovers", "--yes"], "write both"),
        (["choose", "lama2:7b"], "models[0].name: unknown model"),
    ],
)
def test_a_wrong_call_is_told_to_machines_in_one_object(call: list[str], told: str, capsys: Printed) -> None:
    assert main([*call, "--json"]) == 2
    out, err = capsys.readouterr()
    assert told in json.loads(out)["error"]
    assert err == ""


@pytest.mark.parametrize("command", ["chat", "bench"])
def test_a_server_that_is_away_is_told_before_anything_is_written(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(tmp_path)
    call = [command, "--url", "a=http://127.0.0.1:1", "--url", "b=http://127.0.0.1:1"]
    assert main(call) == 1
    told = capsys.readouterr().err
    assert told.startswith("tandem: a (http://127.0.0.1:1) cannot be reached")
    assert main([*call, "--json"]) == 1
    out, err = capsys.readouterr()
    assert (f"tandem: {json.loads(out)['error']}\n", err) == (told, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["doctor", "quota", "verify", "watch", "chat"])
def test_a_file_with_mistakes_is_refused_with_all_of_them(command: str, tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text((ROOT / "Pulumi.dev.yaml").read_text().replace("timeslice", "timeslize"))
    assert main([command, str(file)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("Pulumi.dev.yaml has 1 mistake:\n  sharing.mode: ")
    assert err == ""
    assert main([command, str(file), "--json"]) == 1
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert "Did you mean timeslice?" in problem


def test_what_the_project_names_as_extras_is_what_commands_tell_to_install() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    del extras["dev"], extras["build"]
    assert extras.keys() == EXTRAS.keys() == {extra for needed in NEEDED.values() for extra in needed}
    for extra, requirements in extras.items():
        assert {re.split("[<>=]", each)[0].replace("-", "_") for each in requirements} <= set(EXTRAS[extra])


def test_a_package_that_no_extra_brings_is_no_matter_of_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'ours'", name="ours")

    monkeypatch.setattr("tandem.arguments.existing", broken)
    with pytest.raises(ModuleNotFoundError, match="ours"):
        main(["verify"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_the_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        call = [sys.executable, "-m", "tandem", "models", "--json"]
        done = subprocess.run(call, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    said = "tandem: the output cannot be written (No space left on device). Free some space.\n"
    assert (done.returncode, done.stderr) == (1, said)
