"""Steps that fit a time limit and resume: results are kept, and the next call continues from there."""

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sharing.files import lock, write_whole

Result = dict[str, Any]
STARTS = 2
"""A step that two calls interrupted does not fit a call."""
MARK = "TANDEM_GPU_TIER"
"""In the environment of every program that a call starts, with the folder. Their children have it too."""
PAUSE_SECONDS = 0.05


class SkipError(Exception):
    """This machine lacks what the step needs. The text says what."""


class UnfinishedError(Exception):
    """The time of this call is up in the middle of a step."""


class FailedError(Exception):
    """The step ran and did not work. The text says why."""


class Clock:
    """The time of one call, in seconds."""

    def __init__(self, limit: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._begun, self._limit = now, now(), limit

    @property
    def spent(self) -> float:
        """Seconds since the call began."""
        return self._now() - self._begun

    @property
    def left(self) -> float:
        """Seconds until its end."""
        return self._limit - self.spent


@dataclass(frozen=True)
class Step:
    """One measurement, or a step that others need."""

    key: str
    title: str
    seconds: int
    """How long it takes, as far as known: it does not start with less time left."""
    run: Callable[[Clock], Result]
    needs: str = ""
    """Key of a step without which it cannot run."""
    resumes: bool = False
    """Whether the next call continues where this one stopped. Other steps start again."""
    remains: Callable[[], bool] = lambda: True
    """Whether its files still exist: another machine may have only the state."""


@dataclass
class State:
    """The results of all calls so far. It is written before and after every step."""

    path: Path
    spent_seconds: float = 0.0
    steps: dict[str, Result] = field(default_factory=dict)
    """For each step: its `result`, the reason why it was `skipped` or `failed`, or how many calls `started` it."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The state of earlier calls, or an empty one."""
        return cls(path, **json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls(path)

    def write(self) -> None:
        """Keeps it."""
        write_whole(self.path, json.dumps({"spent_seconds": self.spent_seconds, "steps": self.steps}, indent=1))

    def having(self, what: str) -> Result:
        """The `result`, or the reason for `skipped` or `failed`, of each step that has one."""
        return {key: known[what] for key, known in self.steps.items() if what in known}

    def left_of(self, steps: Sequence[Step]) -> list[Step]:
        """Steps without any outcome yet."""
        return [step for step in steps if self.steps.get(step.key, {}).keys() <= {"started"}]


def run_steps(steps: Sequence[Step], state: State, clock: Clock, show: Callable[[str], None]) -> None:
    """Runs the remaining steps in this order, and keeps their outcomes.

    Failed steps are not repeated: the same machine would most likely fail again, and its time is short. A skipped step
    is tried again, because its needs may be met the next time.
    """
    before = state.spent_seconds
    for step in steps:
        known, needed = state.steps.setdefault(step.key, {}), state.steps.get(step.needs, {})
        if "failed" in known or ("result" in known and step.remains()):
            continue
        known.pop("result", None)
        known.pop("skipped", None)
        if step.needs and "result" not in needed:
            if needed.keys() & {"skipped", "failed"}:
                known["skipped"] = f"it needs `{step.needs}`, which did not run"
            continue
        if clock.left < step.seconds:
            continue
        known["started"] = known.get("started", 0) + 1
        # If this call is killed, the next one counts the step with the time that it should have taken.
        state.spent_seconds = before + clock.spent + step.seconds
        state.write()
        try:
            show(f"{step.title} …")
            outcome = state.steps[step.key] = _outcome(step, known["started"], clock)
            for what, value in outcome.items():
                said = {"result": "done", "started": "not finished: the next call goes on"}.get(
                    what, f"{what}: {value}"
                )
                show(f"  {said}, {clock.spent:.0f} s after the call began")
        finally:
            state.spent_seconds = before + clock.spent
            state.write()
    state.write()


def _outcome(step: Step, started: int, clock: Clock) -> Result:
    begun = clock.spent
    try:
        if started > STARTS and not step.resumes:
            raise FailedError(f"{STARTS} calls were stopped in the middle of it")
        with _stopped_after(clock.left):
            result = step.run(clock)
    except SkipError as reason:
        return {"skipped": str(reason)}
    except UnfinishedError:
        return {"started": started}
    except FailedError as reason:
        return {"failed": str(reason)}
    except Exception as error:
        # An unexpected failure of one step must not keep the others from running.
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {"failed": f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"}
    return {"result": {**result, "seconds": round(clock.spent - begun, 1)}}


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raises `UnfinishedError` in the running step when the time of the call is up."""

    def stop(*_: object) -> None:
        raise UnfinishedError

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


@contextmanager
def hold(folder: Path) -> Iterator[list[int]]:
    """Locks the folder, and ends the processes that a killed call left; yields their ids.

    A remaining server would be measured with the next one, and two builds in one folder would spoil it. Raises
    `FailedError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = lock(folder / "lock")
    except BlockingIOError:
        raise FailedError(f"folder {folder} is in use by another call. Wait until that call has ended") from None
    with held:
        left = _end_left_running(folder)
        os.environ[MARK] = str(folder)
        try:
            yield left
        finally:
            del os.environ[MARK]


def _end_left_running(folder: Path) -> list[int]:
    """Looks until two looks in a row find nothing: a process shows no environment while it becomes another program."""
    ended, quiet = set[int](), 0
    while quiet < 2:
        found = marked(folder)
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        ended.update(found)
        quiet = 0 if found else quiet + 1
        time.sleep(PAUSE_SECONDS)
    return sorted(ended)


def marked(folder: Path) -> list[int]:
    """Processes whose environment names the folder."""
    wanted, found = f"{MARK}={folder}".encode(), []
    for place in Path("/proc").glob("[0-9]*/environ"):
        # A process that has ended, or belongs to another user, cannot be read.
        with suppress(OSError):
            if wanted in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
    return found
