"""Runs a session: takes its steps, asks the questions, and always destroys the stack."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from tests.live.cloud import DESTROYS, Cloud, StepError
from tests.live.questions import Question
from tests.live.sessions import RESERVE_HOURS, Session, longest_hours

LEFTOVERS_SECONDS = 600
BEFORE = "before"
"""Questions of this step need no stack."""
Asker = Callable[[Question, Cloud, float, float], str]
"""Answers a question, given its cloud, how long the step took, and how much time is left."""
GROUPS = "aws eks list-nodegroups --region {region} --cluster-name {cluster} --output json"


@dataclass
class Record:
    """The results of a session."""

    answers: dict[str, str] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    """Reasons by the id of the question."""
    errors: list[str] = field(default_factory=list)
    is_deleted: bool = False
    """Whether the stack is destroyed, and nothing is left."""


def attend(session: Session, cloud: Cloud, questions: Iterable[Question], hours: float, asker: Asker) -> Record:
    """Runs the session. It also destroys the stack after an error, a delay or Ctrl-C.

    Each step asks the questions that disrupt the stack last.
    """
    asked = sorted(
        (question for question in questions if question.session == session.name), key=lambda one: one.provokes
    )
    record = Record()
    until = time.monotonic() + (hours - RESERVE_HOURS) * 3600

    def left() -> float:
        return until - time.monotonic()

    _ask(record, asked, BEFORE, cloud, 0.0, left, asker)
    with _guarded(cloud, hours), _ending_politely():
        try:
            for step in session.steps:
                print(f"{session.name}: {step.name}, {left() / 60:.0f} minutes left", flush=True)
                cloud.configure(step.sections)
                try:
                    took = cloud.run(cloud.up, left())
                except StepError:
                    _ask(record, [one for one in asked if one.after_failure], step.name, cloud, 0.0, left, asker)
                    raise
                _ask(record, asked, step.name, cloud, took, left, asker)
        except StepError as error:
            record.errors.append(f"{session.name}: {error}")
        except KeyboardInterrupt:
            record.errors.append(f"{session.name}: interrupted")
        finally:
            record.is_deleted = _destroy(session, cloud, record)
    known = record.answers.keys() | record.unanswered.keys()
    record.unanswered |= {one.id: "the session ended before" for one in asked if one.id not in known}
    return record


def from_the_account(question: Question, cloud: Cloud, took: float, left: float) -> str:
    """Asks `kubectl` and `aws`: each command, and what it printed. Raises StepError."""
    if not question.ask:
        return f"{took:.0f} seconds\n"
    values = planned_values(cloud)
    if question.step != BEFORE:
        values |= _deployed_values(cloud, left)
    return "".join(f"$ {command}\n{cloud.ask(command, left)}\n" for command in question.commands(values))


def planned_values(cloud: Cloud) -> dict[str, str]:
    """Values of the stack file that commands need. Raises StepError for a refused file."""
    plan = cloud.plan()
    [plane] = [line["item"] for line in plan["cost"]["lines"] if line["item"].startswith("control plane")]
    kubernetes = str(plane).rpartition(" ")[2]
    return {"region": cloud.region, "kubernetes": kubernetes, "model": plan["models"][0]["name"]}


def _deployed_values(cloud: Cloud, left: float) -> dict[str, str]:
    """Values of the deployed stack that commands need; writes its kubeconfig for `kubectl`."""
    outputs = json.loads(cloud.ask("pulumi stack output --json --show-secrets", left))
    kubeconfig = outputs["kubeconfig"]
    text = kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)
    path = cloud.folder / "kubeconfig.json"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    cluster = str(outputs["cluster_name"])
    groups = json.loads(cloud.ask(GROUPS.format(region=cloud.region, cluster=cluster), left))["nodegroups"]
    return {"cluster": cluster, "group": next((group for group in groups if "gpu" in group), "")}


def _ask(
    record: Record,
    questions: Iterable[Question],
    step: str,
    cloud: Cloud,
    took: float,
    left: Callable[[], float],
    asker: Asker,
) -> None:
    for question in questions:
        if question.step != step:
            continue
        try:
            record.answers[question.id] = asker(question, cloud, took, left())
        except (StepError, LookupError, ValueError, TypeError) as error:
            record.unanswered[question.id] = f"{type(error).__name__}: {error}"


def _destroy(session: Session, cloud: Cloud, record: Record) -> bool:
    """Destroys until that succeeds, and looks for leftovers. Ctrl-C does not stop it."""
    before = signal.signal(signal.SIGINT, lambda number, frame: print("still destroying", flush=True))
    try:
        for attempt in range(DESTROYS):
            try:
                cloud.run(cloud.destroy, RESERVE_HOURS * 3600)
                break
            except StepError as error:
                record.errors.append(f"{session.name}: destroy {attempt + 1} of {DESTROYS}: {error}")
        else:
            return False
        if cloud.leftovers:
            cloud.run(cloud.leftovers, LEFTOVERS_SECONDS)
        return True
    except StepError as error:
        record.errors.append(f"{session.name}: {error}")
        return False
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ending_politely() -> Iterator[None]:
    """SIGTERM and a closed terminal mean the same as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _guarded(cloud: Cloud, hours: float) -> Iterator[None]:
    """A second process that destroys the stack once if this one is killed or does not end."""
    # Later than the last attempt of `_destroy` and the search for leftovers: the guard removes Pulumi's lock.
    seconds = longest_hours(hours) * 3600 + 2 * LEFTOVERS_SECONDS
    command = [sys.executable, "-m", "tests.live.guard", f"{seconds:.0f}", *cloud.destroy]
    guard = subprocess.Popen(
        command, cwd=cloud.folder, env=cloud.environment, stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        assert guard.stdin
        try:
            guard.stdin.write(b"done\n")
            guard.stdin.close()
        except BrokenPipeError:
            print("the guard ended before this program", flush=True)
        guard.wait()
