"""The live checklist without an account: its highest cost, its destroy, and the reading of answers."""

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.command import call
from tests.live import __main__ as checklist
from tests.live import readings
from tests.live.attend import Record, attend, from_the_account
from tests.live.cloud import ROOT, Cloud, StepError, account
from tests.live.questions import QUESTIONS, Question
from tests.live.sessions import RESERVE_HOURS, SESSIONS, RefusedError, check_cap

pytestmark = pytest.mark.slow

TIMESLICE = SESSIONS["timeslice"]
DOUBTS = {"1", "2", "4", "5", "7", "8", "11", "13", "15", "17", "18", "20", "D"}
"""Items of the review that are likely or need a live check, and its section D."""


TAGS = {"llama2:7b", "mistral:7b"}
PLAN = Cloud.plan
SAMPLE = {"region": "us-east-1", "kubernetes": "1.36", "cluster": "c", "group": "g", "model": "llama2:7b"}


def nothing(question: Question, cloud: Cloud, took: float, left: float) -> dict[str, Any]:
    return {}


@cache
def plan_of(stack: str, text: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"Pulumi.{stack}.yaml"
        file.write_text(text, encoding="utf-8")
        ended = call("plan", str(file), "--json")
    if ended.returncode:
        raise StepError(ended.stdout)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan in this process, once for each stack file; `Cloud.plan` itself has a test of its own."""
    monkeypatch.setattr(Cloud, "plan", lambda self: plan_of(self.stack, self.stack_file.read_text(encoding="utf-8")))


def test_a_plan_is_that_of_the_command_and_a_refused_one_an_error(cloud: Cloud) -> None:
    assert PLAN(cloud) == cloud.plan()
    cloud.configure({"sharing": {"replicas": 1}})
    with pytest.raises(StepError, match=r"(?s)Pulumi\.timeslice\.yaml is refused: .*replicas"):
        PLAN(cloud)


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """A cloud whose commands only note that they were called."""
    made = Cloud(tmp_path, "timeslice", note("up"), note("destroy"), note("leftovers"))
    made.prepare("timeslice")
    return made


def note(word: str, then: str = "true") -> tuple[str, ...]:
    return ("sh", "-c", f"echo {word} >> called; {then}")


def called(cloud: Cloud) -> list[str]:
    path = cloud.folder / "called"
    return path.read_text().split() if path.is_file() else []


def run(cloud: Cloud, hours: float = 2.0) -> Record:
    return attend(TIMESLICE, cloud, QUESTIONS, hours, nothing)


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
    clouds = {"timeslice": cloud}
    checklist._check_costs([TIMESLICE], clouds, 2.0, 5.0)
    with pytest.raises(RefusedError, match=r"--max-usd 0\.1 is too low"):
        checklist._check_costs([TIMESLICE], clouds, 2.0, 0.1)
    assert called(cloud) == []


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
    assert checklist.main(["--max-usd", "5", "timeslice"]) == 2
    assert "not on the PATH: pulumi, aws, kubectl, helm, curl. Install them first." in capsys.readouterr().err


def test_an_unknown_session_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        checklist.main(["nosuch"])
    assert "'nosuch' is no session. Choose from timeslice, mig, karpenter." in capsys.readouterr().err


def test_without_the_variable_it_is_a_dry_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TANDEM_LIVE", raising=False)
    monkeypatch.setenv("PATH", "")
    assert checklist.main(["--max-usd", "5"]) == 0
    said = capsys.readouterr().out
    assert "TANDEM_LIVE is not 1" in said
    assert "skipped: `pulumi` is not on the PATH" in said
    assert "tandem plan" not in said


# Its destroy, which always runs.


SLEEPS = "exec sleep 1000"


@pytest.mark.parametrize(
    ("changed", "hours", "calls", "is_deleted", "error"),
    [
        ({}, 2.0, "up up up up destroy leftovers", True, ""),
        ({"up": note("up", "exit 3")}, 2.0, "up destroy leftovers", True, "failed with exit code 3"),
        ({"up": ("sh", "-c", SLEEPS)}, RESERVE_HOURS, "destroy leftovers", True, "longer than the time limit"),
        *(
            (
                {"up": note("up", f"kill -{signal} {os.getpid()}; {SLEEPS}")},
                2.0,
                "up destroy leftovers",
                True,
                "interrupted",
            )
            for signal in ("INT", "TERM", "HUP")
        ),
        (
            {"destroy": note("destroy", "test $(grep -c destroy called) = 3")},
            2.0,
            "up up up up destroy destroy destroy leftovers",
            True,
            "destroy",
        ),
        ({"destroy": note("destroy", "false")}, 2.0, "up up up up destroy destroy destroy", False, "destroy"),
        ({"leftovers": note("leftovers", "false")}, 2.0, "up up up up destroy leftovers", False, "leftovers"),
    ],
    ids=["fine", "failed", "too long", "INT", "TERM", "HUP", "third destroy", "no destroy", "leftovers"],
)
def test_every_session_destroys_its_stack(
    cloud: Cloud, changed: dict[str, tuple[str, ...]], hours: float, calls: str, is_deleted: bool, error: str
) -> None:
    for command, words in changed.items():
        setattr(cloud, command, words)
    record = run(cloud, hours)
    assert called(cloud) == calls.split()
    assert record.is_deleted is is_deleted
    assert error in " ".join(record.errors)
    assert bool(record.errors) is bool(error)


def test_a_session_answers_its_questions(cloud: Cloud) -> None:
    record = run(cloud)
    assert record.unanswered == {}
    assert record.answers.keys() == {one.id for one in QUESTIONS if one.session == "timeslice"}


def test_each_step_has_its_own_stack_file(cloud: Cloud) -> None:
    cloud.up = ("sh", "-c", f"grep -o 'mode: [a-z]*' {cloud.stack_file.name} >> modes")
    run(cloud)
    assert (cloud.folder / "modes").read_text().split("\n")[:3] == ["mode: timeslice", "mode: mps", "mode: timeslice"]


def test_questions_about_a_failure_are_asked_after_it(cloud: Cloud) -> None:
    cloud.up = note("up", "test $(grep -c up called) != 4")
    record = run(cloud)
    assert called(cloud) == ["up", "up", "up", "up", "destroy", "leftovers"]
    assert "minimal-one-node" in record.answers
    assert record.unanswered["access-entry-delay"] == "the session ended before"


def test_a_question_that_cannot_be_asked_stops_nothing(cloud: Cloud) -> None:
    def refuses(question: Question, cloud: Cloud, took: float, left: float) -> dict[str, Any]:
        raise StepError("connection refused")

    record = attend(TIMESLICE, cloud, QUESTIONS, 2.0, refuses)
    assert called(cloud) == ["up", "up", "up", "up", "destroy", "leftovers"]
    assert set(record.unanswered.values()) == {"StepError: connection refused"}


def test_the_guard_waits_for_the_last_destroy(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    popen = subprocess.Popen

    def starts(command: list[str], *arguments: Any, **options: Any) -> Any:
        started.append(list(command))
        return popen(command, *arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", starts)
    run(cloud, 2.0)
    [seconds] = [float(one[3]) for one in started if one[1:3] == ["-m", "tests.live.guard"]]
    # 2 h with the first destroy; two more of 45 minutes.
    assert seconds > (2.0 + 2 * 0.75) * 3600


@pytest.mark.parametrize(("said", "destroyed"), [(b"", True), (b"something\n", True), (b"done\n", False)])
def test_the_guard_destroys_when_the_program_ends_without_a_word(tmp_path: Path, said: bytes, destroyed: bool) -> None:
    guard = [sys.executable, "-m", "tests.live.guard", "1000", "touch", "destroyed"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(guard, input=said, cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "destroyed").exists() is destroyed


def test_the_guard_destroys_when_the_time_is_over(tmp_path: Path) -> None:
    guard = [sys.executable, "-m", "tests.live.guard", "0", "touch", "destroyed"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(guard, stdin=subprocess.PIPE, cwd=tmp_path, env=env) as process:
        assert process.wait() == 0
    assert (tmp_path / "destroyed").exists()


# The questions.


def test_every_doubt_has_a_question() -> None:
    items = {item for one in QUESTIONS for item in DOUBTS if f" {item}" in one.doubt.partition(";")[0]}
    assert items == DOUBTS


def test_questions_belong_to_a_step_and_their_commands_can_be_made() -> None:
    assert len({one.id for one in QUESTIONS}) == len(QUESTIONS)
    for one in QUESTIONS:
        assert one.step in {"before", *(step.name for step in SESSIONS[one.session].steps)}, one.id
        for command in one.commands(SAMPLE):
            checklist.check_command(command, TAGS)
            assert "<" not in command.replace("</", ""), one.id
            assert subprocess.run(["bash", "-n", "-c", command]).returncode == 0, one.id


def _question(**changed: Any) -> Question:
    return Question.model_validate({**QUESTIONS[0].model_dump(), **changed})


def test_a_question_has_a_reading_for_all_that_its_commands_print_or_for_each() -> None:
    for one in QUESTIONS:
        wanted = len(one.ask) or 1
        if isinstance(one.read, str):
            assert len(inspect.signature(getattr(readings, one.read)).parameters) == wanted, one.id
        else:
            assert len(one.read) == wanted, one.id
    said = ["ResourceInUseException", '{"nodegroup": {"status": "DEGRADED", "health": {"issues": []}}}']
    answer = _question(read=["update_refused", "health"]).answer(said)
    assert answer == {"refused": True, "accepted": False, "status": "DEGRADED", "issues": []}
    with pytest.raises(ValidationError, match=r"readings\.py has no function 'nosuch'"):
        _question(read=["health", "nosuch"])


def test_questions_that_disrupt_the_stack_are_the_last_of_their_session(cloud: Cloud) -> None:
    for one in QUESTIONS:
        assert not one.provokes or one.step == SESSIONS[one.session].steps[-1].name, one.id
    harmless, disrupting = (_question(id=id, session="timeslice", step="back") for id in ("a", "b"))
    asked = (disrupting.model_copy(update={"provokes": True}), harmless)
    assert list(attend(TIMESLICE, cloud, asked, 2.0, nothing).answers) == ["a", "b"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("aws eks list-nodegroups --cluster-name c", "has no --region"),
        ("aws ec2 describe-regions --region r && aws sts get-caller-identity", "has no --region"),
        ("kubectl exec -n ollama deploy/m -- ollama run llama2-7b 'Say yes.'", "`llama2-7b` is no model"),
    ],
)
def test_a_rehearsal_refuses_commands_that_cannot_work(command: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checklist.check_command(command, TAGS)


def test_a_rehearsal_takes_its_values_from_the_stack_file(cloud: Cloud) -> None:
    asker = checklist.rehearse(cloud)
    for one in QUESTIONS:
        assert asker(one, cloud, 0.0, 0.0) == {"commands": len(one.ask)}


def test_commands_of_an_account_name_its_region_and_the_tag_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = account(tmp_path, "timeslice")
    cloud.prepare("timeslice")
    outputs = json.dumps({"cluster_name": "c", "kubeconfig": {}, "endpoints": {"llama2-7b": "http://llama2-7b"}})
    asked: list[str] = []

    def ask(self: Cloud, command: str, seconds: float) -> str:
        asked.append(command)
        return outputs if command.startswith("pulumi") else '{"nodegroups": ["system", "gpu-1"]}'

    monkeypatch.setattr(Cloud, "ask", ask)
    monkeypatch.setattr(Question, "answer", lambda self, printed: {})
    for one in QUESTIONS:
        if one.session == "timeslice" and one.ask:
            from_the_account(one, cloud, 0.0, 1.0)
    for command in asked:
        checklist.check_command(command, TAGS)
    assert any("ollama run llama2:7b" in one for one in asked)
    assert any("--nodegroup-name gpu-1" in one for one in asked)
    assert cloud.environment["AWS_REGION"] == "us-east-1"


def test_a_model_that_gives_no_answer_is_not_answered(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    [one] = [one for one in QUESTIONS if one.id == "model-after-daemon-restart"]
    tools = cloud.folder / "tools"
    tools.mkdir()
    kubectl = tools / "kubectl"
    kubectl.write_text('#!/bin/sh\ncase "$1" in exec) exit 1;; get) echo deployment.apps/llama2-7b;; esac\n')
    (tools / "sleep").write_text("#!/bin/sh\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    with pytest.raises(StepError):
        cloud.ask(one.commands(SAMPLE)[0], 60)


def test_answers_are_those_of_known_questions() -> None:
    texts = {one.id: one.text for one in QUESTIONS}
    for path in checklist.ANSWERS.glob("*.json"):
        answer = json.loads(path.read_text(encoding="utf-8"))
        assert (answer["id"], answer["question"]) == (path.stem, texts[path.stem])


READINGS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "readings.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", READINGS, ids=lambda row: row["read"])
def test_output_of_commands_is_read_without_names_of_the_account(row: dict[str, Any]) -> None:
    printed = [one if isinstance(one, str) else json.dumps(one) for one in row["printed"]]
    assert getattr(readings, row["read"])(*printed) == row["answer"]


def test_questions_that_the_documents_name_are_asked() -> None:
    text = (ROOT / "docs" / "reference" / "emulation.md").read_text(encoding="utf-8")
    _, _, table = text.partition("## Without a source")
    named = {name for row in table.splitlines() for name in re.findall(r"`([a-z0-9-]+)`", row.rpartition(" | ")[2])}
    assert named
    assert named <= {one.id for one in QUESTIONS}
