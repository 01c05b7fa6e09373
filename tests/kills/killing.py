"""Starts `tandem sandbox` as a user does, and kills the trial's processes at the trial's moment."""

import os
import re
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tandem.sandbox.processes import running
from tests.engine.command_line import COMMAND, environment
from tests.engine.emulated import Stack
from tests.kills.trials import Kind, Trial

HANGS = 600
"""Seconds after which a command counts as hanging; the longest takes half a minute."""
LOOKS = 0.005
"""Seconds between two looks at what a command has printed."""
CALL = "tandem sandbox "
SECONDS = re.compile(rb"\(\d[\d.]*s\)")


class HangError(Exception):
    """A command does not end."""


def start(stack: Stack, said: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The command, printing into a file: a pipe would end with its reader, a terminal does not."""
    env = {**environment(), "PYTHONUNBUFFERED": "1"}
    with said.open("wb") as out:
        return subprocess.Popen([*COMMAND, *arguments], cwd=stack.folder, env=env, stdout=out, stderr=subprocess.STDOUT)


def call(stack: Stack, *arguments: str) -> tuple[int, str]:
    """Runs a command to its end; returns its exit code and what it printed. Raises `HangError`."""
    said = stack.folder / "said"
    process = start(stack, said, *arguments)
    return _ended(process), said.read_text(encoding="utf-8", errors="replace")


def advised(said: str) -> list[str]:
    """The commands that `status` names, in order: each has a line of its own."""
    lines = [line.removeprefix("sandbox:").strip() for line in said.splitlines()]
    return [line.removeprefix(CALL) for line in lines if line.startswith(CALL)]


def follow(stack: Stack, command: str) -> tuple[int, str]:
    """Runs a command word for word as `status` names it."""
    return call(stack, *shlex.split(command))


def steps(said: bytes) -> int:
    """How many beginnings and ends of operations on resources were printed; each line ends with its seconds."""
    return len(SECONDS.findall(said))


def kill_in_the_middle(trial: Trial, stack: Stack, arguments: tuple[str, ...], awaited: int) -> bool:
    """Runs the command and kills it after this many steps; returns False if it ends before that."""
    said, home = stack.folder / "killed", stack.place.folder / "home"
    process = start(stack, said, *arguments)
    while process.poll() is None and steps(said.read_bytes()) < awaited:
        time.sleep(LOOKS)
    while process.poll() is None and not (numbers := chosen(trial.kind, process.pid, home)):
        time.sleep(LOOKS)
    if process.poll() is not None:
        return False
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    _ended(process)
    if not trial.at_once:
        _wait_for(home)
    return True


def chosen(kind: Kind, tandem: int, home: Path) -> list[int]:
    """The running processes of a kind."""
    if kind == "providers":
        return [tandem]
    found, engines = running(home), engines_of(home)
    if kind == "pulumi":
        return engines
    if kind == "hosts":
        return [number for number in found if number not in engines]
    return [tandem, *found]


def engines_of(home: Path) -> list[int]:
    """The running processes that are `pulumi` itself."""
    names = {}
    for number in running(home):
        with suppress(OSError):
            names[number] = Path("/proc", str(number), "comm").read_text(encoding="utf-8")
    return [number for number, name in names.items() if name == "pulumi\n"]


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(HANGS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise HangError(f"process {process.pid} does not end") from None


def _wait_for(home: Path) -> None:
    """Waits until processes that outlive their providers have ended. A host whose engine was killed never ends."""
    for _ in range(int(30 / 0.1)):
        if not running(home):
            return
        time.sleep(0.1)
