"""`tandem run` on a real pseudo-terminal: typing, the history, Ctrl-C and the end."""

import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.tandem.deployed.reachable import Reachable, reachable
from tests.tandem.fake_ollama import FakeOllama, ollama

pytestmark = pytest.mark.slow

SECONDS = 60
UP, CTRL_C, CTRL_D = b"\x1b[A", b"\x03", b"\x04"
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execv(sys.executable, [sys.executable, "-m", "tandem", *words])
        self.seen = ""

    def types(self, keys: bytes) -> None:
        os.write(self._file, keys)

    def shows(self, text: str) -> str:
        """All that is new, up to this text."""
        until = time.monotonic() + SECONDS
        while text not in self.seen:
            ready, _, _ = select.select([self._file], [], [], max(until - time.monotonic(), 0))
            assert ready, f"{text!r} did not come after {self.seen!r}"
            self.seen += STEERING.sub("", self._read()).replace("\r", "")
        before, found, self.seen = self.seen.partition(text)
        return before + found

    def types_until(self, keys: bytes, text: str) -> None:
        """Types them until the text comes: CPython misses a signal between readline's prompt and its wait for a key."""
        until = time.monotonic() + SECONDS
        while text not in self.seen and time.monotonic() < until:
            self.types(keys)
            while text not in self.seen and select.select([self._file], [], [], 2)[0]:
                self.seen += STEERING.sub("", self._read()).replace("\r", "")
        self.shows(text)

    def _read(self) -> str:
        try:
            return os.read(self._file, 4096).decode()
        except OSError:  # Linux's error of a terminal whose program has ended
            return ""

    def ends(self) -> int:
        """The exit code."""
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._file)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def llama() -> Iterator[FakeOllama]:
    with ollama("llama2:7b", pieces=["Because ", "it is."]) as server:
        yield server


@pytest.fixture
def stack(llama: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reachable]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TERM", "xterm-256color")
    with reachable(tmp_path, {"llama2-7b": llama}) as found:
        yield found


def asked(server: FakeOllama) -> list[str]:
    """The last message of each request."""
    return [body["messages"][-1]["content"] for body in server.requests]


def test_a_conversation_with_history_that_a_later_one_still_has(stack: Reachable, llama: FakeOllama) -> None:
    words = ("run", str(stack.file), *stack.way)
    terminal = Terminal(*words)
    terminal.shows("/bye to leave.\n>>> ")
    terminal.types(b"Why?\n")
    assert terminal.shows(">>> ").endswith("Why?\nBecause it is.\n\n>>> ")
    terminal.types(UP + b"!\n")
    terminal.shows("it is.\n\n>>> ")
    terminal.types(CTRL_D)
    assert "2 answers, 4 tokens, 50.0 tokens/s." in terminal.shows("tokens/s.")
    assert terminal.ends() == 0
    assert asked(llama) == ["Why?", "Why?!"]
    terminal = Terminal(*words)
    terminal.shows(">>> ")
    terminal.types(UP + UP + b"\n")
    terminal.shows("it is.\n\n>>> ")
    terminal.types(b"/bye\n")
    assert terminal.ends() == 0
    assert asked(llama)[2] == "Why?"
    history = Path(os.environ["XDG_STATE_HOME"]) / "tandem" / "history"
    assert oct(history.stat().st_mode & 0o777) == "0o600"


def test_ctrl_c_ends_the_answer_but_not_the_conversation(stack: Reachable, llama: FakeOllama) -> None:
    llama.endless = True
    terminal = Terminal("run", str(stack.file), *stack.way)
    terminal.shows(">>> ")
    terminal.types(b"Why?\n")
    terminal.shows("more more")
    terminal.types(CTRL_C)
    terminal.shows(">>> ")
    llama.endless = False
    terminal.types_until(CTRL_C, "Leave with /bye or Ctrl-D.\n>>> ")
    terminal.types(b"Go on.\n")
    terminal.shows("it is.\n\n>>> ")
    terminal.types(b"/bye\n")
    terminal.shows("1 answer, 2 tokens")
    assert terminal.ends() == 0
    assert asked(llama) == ["Why?", "Go on."]
    said = llama.requests[1]["messages"][1]
    assert said["role"] == "assistant"
    assert said["content"].startswith("Because it is.more more")
