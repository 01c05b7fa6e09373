"""The live checklist spends its user's money: its highest cost, and that it always destroys. And its questions."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import __main__ as checklist
from tests.live.attend import attend
from tests.live.cloud import ROOT, Cloud, account
from tests.live.questions import QUESTIONS, Question
from tests.live.sessions import RESERVE_HOURS, SESSIONS, RefusedError, check_cap

pytestmark = pytest.mark.slow

TIMESLICE = SESSIONS["timeslice"]
TAGS = {"llama2:7b", "mistral:7b"}
SAMPLE = {"region": "us-east-1", "kubernetes": "1.36", "cluster": "c", "group": "g", "model": "llama2:7b"}


def nothing(question: Question, cloud: Cloud, took: float, left: float) -> str:
    return ""


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """A cloud whose commands only note that they were called."""
    made = Cloud(tmp_path, "timeslice", note("up"), note("destroy"), note("leftovers"))
    made.prepare("timeslice")
    return made


def note(word: str, then: str = "true") -> tuple[str, ...]:
    return ("sh", "-c", f"echo {word} >> called; {then}")


# Its cost.


def test_the_cap_is_compared_with_the_price_of_the_whole_time_limit() -> None:
    # 3 h, whose last 45 minutes are the first destroy; two more of these, and 5 minutes for each command to end.
    assert check_cap(0.6, 3, 2.91) == pytest.approx(2.90)
    with pytest.raises(RefusedError, match=r"\$0.60 per hour for 3 h, and 1.8 h of destroy attempts, is \$2.90"):
        check_cap(0.6, 3, 2.89)
    with pytest.raises(RefusedError, match="are for the destroy"):
        check_cap(0.5, RESERVE_HOURS, 100)


def test_the_planned_price_is_that_of_the_most_expensive_step(cloud: Cloud) -> None:
    # $0.575 with the g4dn.2xlarge; while nodes are replaced, another of it ($0.32) and four system nodes ($0.04 each).
    assert 0.575 + 0.32 + 4 * 0.04 < cloud.highest_usd_per_hour() < 1.2


def test_the_cap_of_the_guide_is_enough(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "run-the-live-checklist.md").read_text(encoding="utf-8")
    [(usd, hours)] = re.findall(r'LIVE="--max-usd (\d+) --hours (\d+)"', text)
    clouds = {name: account(tmp_path / name, name) for name in SESSIONS}
    checklist._check_costs(list(SESSIONS.values()), clouds, float(hours), float(usd))


def test_a_live_run_needs_a_cap_before_anything_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TANDEM_LIVE", "1")
    monkeypatch.setenv("PATH", "")
    assert checklist.main(["timeslice"]) == 2
    assert "--max-usd is missing" in capsys.readouterr().err


# Its destroy, which always runs.

SLEEPS = "exec sleep 1000"
Ends = dict[str, tuple[dict[str, tuple[str, ...]], float, str, bool]]
INTERRUPTED: Ends = {
    f"SIG{name}": ({"up": note("up", f"kill -{name} {os.getpid()}; {SLEEPS}")}, 2.0, "up destroy leftovers", True)
    for name in ("INT", "TERM", "HUP")
}
ENDS: Ends = {
    "fine": ({}, 2.0, "up up up up destroy leftovers", True),
    "failed": ({"up": note("up", "exit 3")}, 2.0, "up destroy leftovers", True),
    "too long": ({"up": ("sh", "-c", SLEEPS)}, RESERVE_HOURS, "destroy leftovers", True),
    **INTERRUPTED,
    "third destroy": (
        {"destroy": note("destroy", "test $(grep -c destroy called) = 3")},
        2.0,
        "up up up up destroy destroy destroy leftovers",
        True,
    ),
    "no destroy": ({"destroy": note("destroy", "false")}, 2.0, "up up up up destroy destroy destroy", False),
    "leftovers": ({"leftovers": note("leftovers", "false")}, 2.0, "up up up up destroy leftovers", False),
}
"""Commands that end otherwise, the hours of the session, what is called, and whether the stack is destroyed."""


@pytest.mark.parametrize("end", ENDS)
def test_every_session_destroys_its_stack(cloud: Cloud, end: str) -> None:
    changed, hours, calls, is_deleted = ENDS[end]
    for command, words in changed.items():
        setattr(cloud, command, words)
    record = attend(TIMESLICE, cloud, QUESTIONS, hours, nothing)
    assert (cloud.folder / "called").read_text().split() == calls.split()
    assert (record.is_deleted, bool(record.errors)) == (is_deleted, end != "fine")


@pytest.mark.parametrize(
    ("seconds", "said", "destroyed"), [("1000", b"", True), ("1000", b"done\n", False), ("0", None, True)]
)
def test_the_guard_destroys_when_the_program_ends_without_a_word_or_the_time_is_over(
    tmp_path: Path, seconds: str, said: bytes | None, destroyed: bool
) -> None:
    guard = [sys.executable, "-m", "tests.live.guard", seconds, "touch", "destroyed"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(guard, stdin=subprocess.PIPE, cwd=tmp_path, env=env) as process:
        if said is not None:
            process.communicate(said)
        assert process.wait() == 0
    assert (tmp_path / "destroyed").exists() is destroyed


# The questions.


def test_the_commands_of_every_question_can_be_made_and_belong_to_a_step() -> None:
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS)
    for question in QUESTIONS:
        steps = [step.name for step in SESSIONS[question.session].steps]
        assert question.step in {"before", *steps}, question.id
        assert not question.provokes or question.step == steps[-1], question.id
        for command in question.commands(SAMPLE):
            checklist.check_command(command, TAGS)
            assert "<" not in command.replace("</", ""), question.id
            assert subprocess.run(["bash", "-n", "-c", command]).returncode == 0, question.id


def test_questions_that_the_documents_name_are_asked() -> None:
    text = (ROOT / "docs" / "reference" / "emulation.md").read_text(encoding="utf-8")
    _, _, table = text.partition("## Without a source")
    named = {name for row in table.splitlines() for name in re.findall(r"`([a-z0-9-]+)`", row.rpartition(" | ")[2])}
    assert named
    assert named <= {question.id for question in QUESTIONS}
