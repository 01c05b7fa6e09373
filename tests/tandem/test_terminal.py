"""What all commands share: how they find the stack file, and how they report errors."""

import contextlib
import gc
import io
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from sharing.speed.estimate import Estimate
from tandem.columns import price_cell, speed_cell
from tandem.installation import OPTIONAL, version
from tandem.lookup import stack_file, state_folder
from tandem.main import entry, main
from tandem.terminal import open_console, print_line, progress, say, status
from tests.command import Ended, Screen, call

ROOT = Path(__file__).parents[2]


def test_a_stack_is_found_from_a_folder_below_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "tests")
    assert stack_file("mps") == ROOT / "Pulumi.mps.yaml"


def test_a_folder_of_state_is_made_with_those_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new" / "state"))
    assert state_folder("ports") == state_folder("ports") == tmp_path / "new" / "state" / "tandem" / "ports"
    assert (tmp_path / "new" / "state" / "tandem" / "ports").is_dir()


def test_a_name_with_a_slash_or_an_ending_is_a_file() -> None:
    assert stack_file("Pulumi.mps.yaml") == Path("Pulumi.mps.yaml")
    assert stack_file("mps.yml") == Path("mps.yml")
    assert stack_file("./mps") == Path("mps")


@pytest.mark.parametrize("command", ["chat", "bench"])
def test_a_server_that_is_unavailable_is_reported_before_anything_is_written(command: str, tmp_path: Path) -> None:
    away = (command, "--url", "a=http://127.0.0.1:1", "--url", "b=http://127.0.0.1:1")
    shown = call(*away, "--json", cwd=tmp_path)
    assert shown.json["error"].startswith("a (http://127.0.0.1:1) cannot be reached")
    assert (shown.json["schema_version"], shown.stdout.count("\n")) == (2, 1)  # docs/reference/exit-codes.md
    assert (shown.returncode, shown.stderr) == (1, "")
    assert call(*away, cwd=tmp_path) == Ended(1, "", f"error: {shown.json['error']}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["doctor", "quota", "verify", "watch", "run", "env", "open", "chat"])
def test_a_file_with_errors_is_refused_with_all_of_them(command: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text((ROOT / "Pulumi.dev.yaml").read_text().replace("timeslice", "timeslize"))
    ended = call(command, str(file))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert re.match(r"error: Pulumi.dev.yaml has 1 error\n  Pulumi.dev.yaml:\d+:\d+  sharing.mode: ", ended.stdout)
    assert ended.stdout.endswith("\nhint: memory, GPUs and cost are checked once these are fixed.\n")
    shown = call(command, str(file), "--json")
    [problem] = shown.json["problems"]
    assert (problem["path"], problem["fix"]) == ("sharing.mode", "Did you mean timeslice?")
    assert shown.stdout.count("\n") == 1, "docs/reference/exit-codes.md"


def test_the_packages_that_may_be_missing_are_those_of_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    del extras["dev"], extras["build"]
    # What one line of the documents installs is the union of the others.
    assert extras.pop("all") == [f"tandem-gpu[{','.join(sorted(extras))}]"]
    required = {re.split("[<>=]", each)[0] for requirements in extras.values() for each in requirements}
    assert {name.replace("-", "_") for name in required} == {*OPTIONAL}


def test_a_missing_package_that_no_extra_contains_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'ours'", name="ours")

    monkeypatch.setattr("tandem.lookup.existing", broken)
    with pytest.raises(ModuleNotFoundError, match="ours"):
        main(["verify"])


def test_an_exceeded_disk_quota_is_a_full_disk() -> None:
    program = (
        "import errno; from tandem import main\n"
        "def full(): raise OSError(errno.EDQUOT, 'Disk quota exceeded', 'r.json')\n"
        "main.main = full; main.entry()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    said = "error: r.json cannot be written (Disk quota exceeded). Free some space.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_error_in_another_encoding_has_question_marks_for_the_characters_that_it_lacks() -> None:
    call = [sys.executable, "-m", "tandem", "plan", "Pulumi.2 × 3.yaml"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True)
    assert "Pulumi.2 ? 3.yaml" in done.stderr


def test_a_closed_pipe_keeps_the_exit_code_of_a_command_that_has_ended() -> None:
    call = [sys.executable, "-c", "from tandem import main; main.main = lambda: print('one') or 2; main.entry()"]
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(call, cwd=ROOT, env=env, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_the_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        call = [sys.executable, "-m", "tandem", "models", "--json"]
        done = subprocess.run(call, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    said = "error: the output cannot be written (No space left on device). Free some space.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_word_that_is_longer_than_the_line_stays_whole_so_that_it_can_be_copied() -> None:
    console, path = Console(file=io.StringIO(), width=20), "tests/sharing/a_long_name_of_a_file.py"
    say(console, f"Written to {path}")
    assert isinstance(console.file, io.StringIO)
    assert path in console.file.getvalue()


@pytest.mark.parametrize(
    ("usd", "shown"), [(0.994, "0.99"), (0.996, "1.0"), (9.94, "9.9"), (9.96, "10"), (12.4, "12"), (123.4, "123")]
)
def test_a_price_per_token_has_two_digits(usd: float, shown: str) -> None:
    assert price_cell(Estimate(usd, usd, usd)) == f"{shown} ({shown}–{shown})"


@pytest.mark.parametrize(("speed", "shown"), [(9.94, "9.9"), (10.4, "10"), (12.4, "12")])
def test_a_speed_has_two_digits(speed: float, shown: str) -> None:
    assert speed_cell(Estimate(speed, speed, speed)) == f"{shown} ({shown}–{shown})"


@pytest.mark.parametrize(("word", "colour"), [("error", "31"), ("warning", "33"), ("hint", "36")])
def test_a_message_begins_in_its_colour(word: str, colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ECMA-48, 8.3.117: 1 is bold, 31 red, 33 yellow and 36 cyan."""
    monkeypatch.setenv("TERM", "xterm-256color")
    lines, console = Screen(), Screen()
    print_line(f"{word}: it", lines)
    say(open_console(file=console), f"{word}: it")
    assert lines.getvalue() == console.getvalue() == f"\x1b[1;{colour}m{word}:\x1b[0m it\n"


def test_what_goes_on_is_said_beside_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out, err = Screen(), Screen()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        with status("Reading"):
            pass
        with progress(quiet=False) as tell:
            tell("Waiting [1]")
    assert out.getvalue() == ""
    assert "Reading …" in err.getvalue()


def test_ctrl_c_ends_a_command_with_the_code_of_shells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """128 and the number of SIGINT."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tandem.main._answer", interrupt)
    assert main([]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "Interrupted.\n"


def test_the_version_of_a_wheel_is_that_of_our_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.installation.is_checkout", lambda: False)
    monkeypatch.setattr("importlib.metadata.version", {"tandem-gpu": "1.2.3", "tandem": "9"}.__getitem__)
    assert version() == "1.2.3"


def test_the_script_ends_with_the_code_of_the_command_and_on_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.main.main", lambda: 3)
    threshold, signals = gc.get_threshold(), (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in signals}
    gc.unfreeze()
    try:
        with pytest.raises(SystemExit, match=r"^3$"):
            entry()
        # Little time for garbage while it runs, and none for it at the end.
        assert (gc.get_threshold()[0] > threshold[0], gc.get_freeze_count() > 0) == (True, True)
        for number in signals:
            with pytest.raises(SystemExit, match=rf"^{128 + number}$"):  # as a shell says it
                signal.raise_signal(number)
            assert signal.getsignal(number) is signal.SIG_IGN, "a second one does not interrupt what the first began"
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
        for number, handler in before.items():
            signal.signal(number, handler)
