"""`tandem chat` against two servers with scripted answers."""

import datetime
import errno
import functools
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tandem.chat.screen import Screen
from tandem.chat.talk import Speaker, Turn
from tandem.chat.transcript import Transcript, usual_name
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama, Piece
from tandem.terminal import open_console
from tests.command import Ended, call
from tests.tandem.fake_network import Network, raw, transport
from tests.tandem.fake_ollama import FakeOllama, ollama

ROOT = Path(__file__).parents[3]
TWO = ("--url", "a=http://h:1", "--url", "b=http://h:2")


def chat(a: FakeOllama, b: FakeOllama, folder: Path, *arguments: str) -> Ended:
    return call("chat", "--url", f"a={a.url}", "--url", f"b={b.url}", "--transcript", str(folder / "t.md"), *arguments)


def test_the_models_take_turns_each_with_the_conversation_from_its_side(tmp_path: Path) -> None:
    with ollama(pieces=["I am", " A."]) as a, ollama(pieces=["I am", " B."]) as b:
        ended = chat(a, b, tmp_path, "--turns", "3", "--prompt", "Begin.", "--system", "Be short.", "--seed", "7")
    assert ended.returncode == 0
    (first, third), [second] = a.requests, b.requests
    system, opening = {"role": "system", "content": "Be short."}, {"role": "user", "content": "Begin."}
    assert first["messages"] == [system, opening]
    assert second["messages"] == [system, {"role": "user", "content": "I am A."}]
    own, other = {"role": "assistant", "content": "I am A."}, {"role": "user", "content": "I am B."}
    assert third["messages"] == [system, opening, own, other]
    assert first["options"] == {"seed": 7, "num_predict": 400}
    shown = ended.stdout
    assert shown.startswith("tiny:1b (a)\nI am A.\n\ntiny:1b (b)\nI am B.\n\ntiny:1b (a)\nI am A.\n")
    assert "Transcript: " in shown
    text = (tmp_path / "t.md").read_text()
    assert text.startswith(f"# tiny:1b (a) and tiny:1b (b)\n\n- a: `tiny:1b` at {a.url}, Ollama 0.32.15\n- b: ")
    assert "\n- seed: 7\n- num_predict: 400\n" in text
    assert "> Be short.\n" in text
    assert "> Begin.\n" in text
    assert text.endswith("\n\n## 2. tiny:1b (b)\n\n> I am B.\n\n## 3. tiny:1b (a)\n\n> I am A.\n")


def test_thoughts_are_neither_shown_nor_passed_on_nor_recorded(tmp_path: Path) -> None:
    with (
        ollama("llama2:7b", thinking=["secret "], pieces=["Yes."]) as a,
        ollama("mistral:7b", thinking=["secret"], pieces=["No."]) as b,
    ):
        ended = chat(a, b, tmp_path, "--turns", "3")
        heard = str([one["messages"] for server in (a, b) for one in server.requests])
    shown = ended.stdout
    assert "secret" not in heard + shown + (tmp_path / "t.md").read_text()
    # Models with different tags need no name of their server.
    assert shown.startswith("llama2:7b\n(thinking)\nYes.\n\nmistral:7b\n(thinking)\nNo.\n")
    assert "Yes." in heard
    assert "No." in heard


def test_a_server_that_dies_ends_the_conversation_and_the_transcript_stays(tmp_path: Path) -> None:
    with ollama(pieces=["I am A."]) as a, ollama(pieces=["I ", "am ", "B."], fault="breaks") as b:
        ended = chat(a, b, tmp_path)
    assert ended.returncode == 1
    assert f"error: b ({b.url}) closed the connection early" in ended.stderr
    assert f"Transcript: {tmp_path / 't.md'}" in ended.stderr
    text = (tmp_path / "t.md").read_text()
    assert "## 2. tiny:1b (b)\n\n> I \n\n*b (" in text
    assert ended.stdout.endswith("tiny:1b (b)\nI \n\n")


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ({"fault": "says"}, "stopped early: an error was encountered while running the model: CUDA error"),
        ({"fault": "busy"}, "answered with 503: server busy"),
        ({"pieces": [" \n"]}, ") gave an empty answer. Try another"),
        ({"thinking": ["hm"], "pieces": []}, ") gave an empty answer. Try another"),
    ],
)
def test_an_error_is_reported_and_recorded(script: dict[str, Any], printed: str, tmp_path: Path) -> None:
    with ollama(pieces=["I am A."]) as a, ollama(**script) as b:
        ended = chat(a, b, tmp_path)
    assert ended.returncode == 1
    assert printed in ended.stderr
    text = (tmp_path / "t.md").read_text()
    assert "I am A." in text
    assert printed in text


@pytest.mark.parametrize(
    ("given", "seconds", "fix"),
    [("5", 5, "Raise `--timeout`, or check the server's log."), ("300", 30, "Check the server's log.")],
)
def test_the_timeout_also_limits_the_first_request(
    given: str, seconds: int, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Network(version=raw(1e6))
    answering = functools.partial(Ollama, transport=transport(silent), clock=silent.now)
    monkeypatch.setattr("tandem.chat.conversation.Ollama", answering)
    printed = f"error: a (http://h:1) did not answer within {seconds} s (/api/version). {fix}\n"
    assert call("chat", *TWO, "--timeout", given) == Ended(1, "", printed)
    assert silent.seconds == seconds


def test_the_timeout_also_limits_each_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[float, str]] = []

    def opened(endpoint: Endpoint, **options: Any) -> Ollama:
        limits.append((options["timeout"], options["option"]))
        return Ollama(endpoint, **options)

    monkeypatch.setattr("tandem.chat.conversation.Ollama", opened)
    with ollama() as a, ollama() as b:
        assert chat(a, b, tmp_path, "--turns", "1", "--timeout", "7").returncode == 0
    assert limits == [(7, "--timeout")] * 4, "of both servers: for what needs no model, and for answers"


def test_a_pipe_gets_the_lines_as_the_model_wrote_them() -> None:
    out, text = io.StringIO(), "more [bold] words than a terminal is wide " * 9
    turn = Turn(1, cast(Speaker, None), text)
    Screen(open_console(file=out), named=False).add(turn, Piece(text=text))
    assert out.getvalue() == text


def test_an_existing_transcript_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("mine")
    with ollama() as a, ollama() as b:
        ended = chat(a, b, tmp_path)
    path = tmp_path / "t.md"
    assert ended == Ended(2, "", f"error: {path} already exists. Choose another file with `--transcript`.\n")
    assert (tmp_path / "t.md").read_text() == "mine"


def test_a_transcript_is_named_after_its_time() -> None:
    assert usual_name(datetime.datetime(2026, 1, 2, 13, 4, 5)) == Path("chat-20260102-130405.md")


def test_each_piece_is_in_the_file_before_the_next_one_is_asked_for(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "t.md")
    transcript.note("It ends here.")
    assert transcript.path.read_text() == "\n\n*It ends here.*\n"
    transcript.close()


class FullDisk(io.BytesIO):
    """Accepts part of the data and then nothing, like `write(2)` on a full disk."""

    room = 330

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = super().write(bytes(data)[: self.room])
        self.room -= taken
        return taken

    def close(self) -> None:
        """Keeps the content readable."""


def test_a_full_disk_ends_the_conversation_with_one_line_and_all_its_text_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[FullDisk] = []

    def opened(*_: object, **__: object) -> FullDisk:
        files.append(FullDisk())
        return files[-1]

    monkeypatch.setattr("tandem.chat.transcript.Path.open", opened)
    with ollama(pieces=["I am A."]) as a, ollama(pieces=["I am B."]) as b:
        ended = chat(a, b, tmp_path, "--prompt", "Begin.")
        printed = chat(a, b, tmp_path, "--prompt", "Begin.", "--json")
    path = tmp_path / "t.md"
    why = f"Cannot continue {path} (No space left on device). Free disk space, or choose another file with"
    assert (ended.returncode, ended.stderr) == (1, f"error: {why} `--transcript`.\nTranscript: {path}\n")
    assert ended.stdout.startswith("tiny:1b (a)\nI am A.")
    assert files[0].getvalue().startswith(b"# tiny:1b (a) and tiny:1b (b)\n")
    assert len(files[0].getvalue()) == 330
    assert (printed.returncode, printed.json["ended"], printed.json["turns"][0]["text"]) == (1, "failed", "I am A.")


def test_a_transcript_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with ollama() as a, ollama() as b:
        ended = chat(a, b, tmp_path / "nowhere")
    assert ended.returncode == 2
    assert "No such file or directory" in ended.stderr


def test_json_is_one_object_with_every_turn(tmp_path: Path) -> None:
    with ollama(thinking=["hm"], pieces=["A"]) as a, ollama(fault="stops", pieces=["B", "C"]) as b:
        ended = chat(a, b, tmp_path, "--json")
    printed = ended.json
    assert (ended.returncode, printed.pop("why").startswith(f"b ({b.url}) ")) == (1, True)
    said = {"model": "tiny:1b", "text": "A", "thinking": "hm", "done_reason": "stop"}
    broken = {"speaker": "b", **said, "text": "B", "thinking": "", "done_reason": None}
    turns = [{"speaker": "a", **said}, broken]
    assert printed == {"ended": "failed", "transcript": str(tmp_path / "t.md"), "turns": turns}


def test_json_and_transcript_say_how_the_conversation_and_each_turn_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    transcript = tmp_path / "t.md"
    with ollama() as a, ollama() as b:
        whole = chat(a, b, tmp_path, "--turns", "2", "--max-tokens", "3", "--json")
        assert transcript.read_text().count("\n\n*truncated at --max-tokens*\n") == 2
        transcript.unlink()
        monkeypatch.setattr("tandem.chat.conversation.talk", interrupt)
        stopped = chat(a, b, tmp_path, "--json")
    assert (whole.returncode, whole.json["ended"], whole.json["why"]) == (0, "complete", "")
    assert [turn["done_reason"] for turn in whole.json["turns"]] == ["length", "length"]
    end = {"ended": "interrupted", "why": "interrupted", "transcript": str(transcript), "turns": []}
    assert (stopped.returncode, stopped.json) == (130, end)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_transcript_is_on_the_disk_however_the_command_is_ended(end: signal.Signals, tmp_path: Path) -> None:
    transcript = tmp_path / "t.md"
    with ollama(pieces=["on and on "], endless=True) as a, ollama() as b:
        servers = ("--url", f"a={a.url}", "--url", f"b={b.url}")
        # Few enough tokens that an endless answer stays within the size limit.
        command = ["tandem", "chat", *servers, "--transcript", str(transcript), "--max-tokens", "100000"]
        with subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout
            assert process.stderr
            shown = b""
            while b"on and on" not in shown:
                # The line on the screen never ends.
                piece = os.read(process.stdout.fileno(), 100)
                assert piece, shown
                shown += piece
            process.send_signal(end)
            out, err = process.stdout.read(), process.stderr.read().decode()
    text = transcript.read_text()
    assert "## 1. tiny:1b (a)\n\n> on and on " in text
    if end is signal.SIGINT:
        assert (process.returncode, err) == (130, f"Interrupted.\nTranscript: {transcript}\n")
        assert out.endswith(b"\n")
        assert text.endswith("\n\n*interrupted*\n")
