"""How a call starts, finds and ends the process that keeps the ports open. No process is started here."""

import argparse
import io
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.deployed.endpoints import NotConnectedError
from tandem.env import background, command, foreground
from tandem.env.record import Place, Port, Record
from tandem.terminal import CallError
from tests.command import ROOT, Screen
from tests.tandem.deployed.pretended import Clock

CONNECTS = Record(stack="dev", pid=7, kubeconfig=None, context=None, log="l", ports=())
OPEN = CONNECTS.model_copy(update={"ports": (Port(id="a", model="m", url="http://127.0.0.1:1"),)})
FILE = ROOT / "Pulumi.dev.yaml"


def place(*records: Record | None, is_held: bool = True) -> Any:
    """A place in which these records are read, one after the other; the last one stays."""
    left = [*records]
    return SimpleNamespace(
        stack="dev", lock_path="l.lock", is_held=lambda: is_held, read=lambda: left.pop(0) if len(left) > 1 else left[0]
    )


def test_a_process_that_connects_is_waited_for() -> None:
    slept: list[float] = []
    assert background._running(place(None, CONNECTS, OPEN), slept.append) is OPEN
    assert (len(slept), set(slept)) == (2, {background.PAUSE_SECONDS})
    assert background._running(place(OPEN, is_held=False), slept.append) is None


@pytest.mark.parametrize(("record", "who"), [(CONNECTS, "Process 7"), (None, "The process that has l.lock open")])
def test_a_process_that_never_opens_its_ports_is_named(record: Record | None, who: str) -> None:
    """It may ask Pulumi, which has two minutes."""
    clock = Clock()
    with pytest.raises(CallError) as refused:
        background._running(place(record), clock.sleep)
    assert str(refused.value) == f"{who} opens no ports for stack dev. End it, and run the command again."
    assert 120 < clock.now < 300


def test_a_process_that_does_not_end_is_killed_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, clock = list[int](), Clock()
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(time, "sleep", clock.sleep)
    with pytest.raises(CallError, match="process 7 does not end"):
        background._end(place(OPEN), OPEN)
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert 10 <= clock.now <= 30


def test_an_unknown_model_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "Place", lambda _: pytest.fail("it starts a process"))
    with pytest.raises(CallError, match="nosuch"):
        background.start(argparse.Namespace(stack=str(FILE), model="nosuch", kubeconfig=None, context=None))


def test_a_process_says_who_it_is_before_it_connects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another call then waits for its ports, and may end it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    read: list[Record | None] = []
    there = Place(str(FILE))

    def reached(parsed: argparse.Namespace) -> None:
        read.append(there.read())
        raise NotConnectedError("no way")

    monkeypatch.setattr(foreground, "reached", reached)
    parsed = argparse.Namespace(stack=str(FILE), model=None, kubeconfig="k.yaml", context="c")
    with pytest.raises(NotConnectedError, match="no way"):
        foreground.keep_open(parsed, lambda _: None)
    path = str(Path("k.yaml").absolute())
    assert read == [Record(stack="dev", pid=os.getpid(), kubeconfig=path, context="c", log=str(there.log), ports=())]
    assert there.lock_path.stat().st_mode & 0o777 == 0o600


MODELS = {"llama2-7b": "llama2:7b", "mistral-7b": "mistral:7b"}
"""Those of the file."""
FITTING = OPEN.model_copy(
    update={"ports": tuple(Port(id=id, model=tag, url="http://h:1") for id, tag in MODELS.items())}
)
STARTED = OPEN.model_copy(update={"pid": 8})


def test_a_narrow_terminal_folds_no_line_that_a_shell_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "20")
    parsed = argparse.Namespace(stack=str(FILE), model=None, json=False, shell="sh", foreground=True)
    command._print_start(parsed, FITTING)
    assert screen.getvalue().replace("\r", "").splitlines() == [
        "export OLLAMA_HOST=http://h:1",
        "export OPENAI_BASE_URL=http://h:1/v1",
        "export OPENAI_API_KEY=ollama",
        "# llama2:7b: http://h:1",
        f"# mistral:7b: http://h:1 (tandem env {FILE} mistral-7b)",
        f'# Use: eval "$(tandem env {FILE})"   End: Ctrl-C',
    ]


@pytest.mark.parametrize(
    ("running", "started", "steps", "found"),
    [
        ([FITTING], STARTED, [], FITTING),
        ([OPEN], STARTED, ["end", "start"], STARTED),
        ([None], STARTED, ["start"], STARTED),
        # Another call was faster.
        ([None, OPEN], None, ["start"], OPEN),
        ([None, None], None, ["start"], None),
    ],
    ids=["it serves the file", "it serves other models", "none", "another call's", "none starts"],
)
def test_a_process_that_serves_the_file_is_used_and_any_other_is_replaced(
    running: list[Record | None],
    started: Record | None,
    steps: list[str],
    found: Record | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    left = [*running]

    def spawn(*_: object) -> Record:
        done.append("start")
        if started is None:
            raise background.NotStartedError("late", 2)
        return started

    monkeypatch.setattr(background, "Place", lambda _: None)
    monkeypatch.setattr(background, "_running", lambda _: left.pop(0))
    monkeypatch.setattr(background, "_end", lambda *_: done.append("end"))
    monkeypatch.setattr(background, "_spawn", spawn)
    parsed = argparse.Namespace(stack=str(FILE), model=None, kubeconfig=None, context=None)
    with nullcontext() if found else pytest.raises(background.NotStartedError):
        assert background.start(parsed) == found
    assert done == steps


class Started:
    """A process that has printed this line; it ends with this code, or is left alone."""

    pid = 7

    def __init__(self, line: bytes, code: int) -> None:
        self.stdout, self._code = io.BytesIO(line), code

    def wait(self) -> int:
        return self._code


def spawn(folder: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, record: Record, code: int = 0) -> Any:
    """The result, and how the process was started."""
    calls: list[Any] = []

    def start(command: list[str], **options: Any) -> Started:
        calls.append((command, options))
        return Started(line, code)

    monkeypatch.setattr(subprocess, "Popen", start)
    there: Any = SimpleNamespace(log=folder / "log", read=lambda: record)
    parsed = argparse.Namespace(stack=str(FILE), kubeconfig="k.yaml", context="c")
    return background._spawn(parsed, there), *calls


def test_a_process_is_started_apart_from_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, (command, options) = spawn(tmp_path, monkeypatch, b'{"models": []}\n', OPEN)
    assert found is OPEN
    way = ["--foreground", "--json", "--kubeconfig", str(Path("k.yaml").absolute()), "--context", "c"]
    assert command == [sys.executable, "-m", "tandem", "env", str(FILE), *way]
    assert options.pop("stderr").name == str(tmp_path / "log")
    assert options == {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True}
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("line", "pid", "code", "said", "exits"),
    [
        (b'{"error": "no way. Fix it."}\n', 7, 1, "no way. Fix it.", 1),
        (b"", 7, 3, "the ports were not opened. See why in ", 3),
        # Of another call, which was faster.
        (b'{"models": []}\n', 8, 2, "the ports were not opened. See why in ", 2),
        # A signal, or no reason at all, is no exit code of ours.
        (b"", 7, -9, "the ports were not opened. See why in ", 2),
        (b"killed\n", 8, 0, "the ports were not opened. See why in ", 2),
    ],
)
def test_a_process_that_ends_early_says_why(
    line: bytes, pid: int, code: int, said: str, exits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(background.NotStartedError) as failed:
        spawn(tmp_path, monkeypatch, line, OPEN.model_copy(update={"pid": pid}), code)
    assert str(failed.value).startswith(said)
    assert failed.value.exit_code == exits
