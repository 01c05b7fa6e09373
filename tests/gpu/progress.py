"""Steps that fit a time limit and resume: what is measured is kept, and the next call goes on from there."""

from __future__ import annotations

import json
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sharing.files import write_whole

Result = dict[str, Any]
STARTS = 2
"""A step that two calls interrupted does not fit a call."""


class SkipError(Exception):
    """This machine lacks what the step needs. The text says what."""


class UnfinishedError(Exception):
    """The time of this call is up in the middle of a step."""


class FailedError(Exception):
    """The step ran and did not work. The text says why."""


@dataclass(frozen=True)
class Step:
    """One measurement, or what must come before others."""

    key: str
    title: str
    seconds: int
    """How long it takes, as far as known: it is not begun with less time left."""
    run: Callable[[Clock], Result]
    needs: tuple[str, ...] = ()
    """Keys of steps without which it cannot run."""
    resumes: bool = False
    """Whether the next call goes on where this one stopped. Another step begins again."""
    remains: Callable[[], bool] = lambda: True
    """Whether what it made is still there: another machine may have the state alone."""


class Clock:
    """The time of one call, and of all calls together."""

    def __init__(self, limit: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._begun, self._limit = now, now(), limit

    @property
    def left(self) -> float:
        """Seconds."""
        return self._limit - self.spent

    @property
    def spent(self) -> float:
        """Seconds since the call began."""
        return self._now() - self._begun


@dataclass
class State:
    """What all calls so far have found. It is written before and after every step."""

    path: Path
    done: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    """How many calls began a step that none has ended."""
    spent_seconds: float = 0.0

    @classmethod
    def read(cls, path: Path) -> State:
        """The state of earlier calls, or an empty one."""
        if not path.exists():
            return cls(path)
        return cls(path, **json.loads(path.read_text(encoding="utf-8")))

    def write(self) -> None:
        """Keeps it. A call that is killed while it writes leaves the earlier state."""
        content = asdict(self)
        del content["path"]
        write_whole(self.path, json.dumps(content, indent=1))


def left_of(steps: Sequence[Step], state: State) -> list[Step]:
    """Steps of which nothing is known yet."""
    return [step for step in steps if step.key not in {*state.done, *state.failed, *state.skipped}]


def run_steps(steps: Sequence[Step], state: State, clock: Clock, show: Callable[[str], None]) -> None:
    """Runs what is not done, in this order, and keeps what comes of it.

    Failed steps are not repeated: the same machine would most likely fail again, and its time is short. A skipped step
    is tried again, because what it needs may be there the next time.
    """
    before = state.spent_seconds
    for step in steps:
        if step.key in state.done and not step.remains():
            del state.done[step.key]
        if step.key in state.done or step.key in state.failed:
            continue
        if missing := [need for need in step.needs if need not in state.done]:
            if any(need in state.skipped or need in state.failed for need in missing):
                state.skipped[step.key] = f"it needs `{missing[0]}`, which did not run"
            else:
                state.skipped.pop(step.key, None)
            continue
        if clock.left < step.seconds:
            continue
        state.started[step.key] = state.started.get(step.key, 0) + 1
        # If this call is killed, the next one counts the step with the time that it should have taken.
        state.spent_seconds = before + clock.spent + step.seconds
        state.write()
        try:
            _run(step, state, clock, show)
        finally:
            state.spent_seconds = before + clock.spent
            state.write()


def _run(step: Step, state: State, clock: Clock, show: Callable[[str], None]) -> None:
    show(f"{step.title} …")
    begun = clock.spent
    state.skipped.pop(step.key, None)
    try:
        if state.started[step.key] > STARTS and not step.resumes:
            raise FailedError(f"{STARTS} calls were stopped in the middle of it")
        with _stopped_after(clock.left):
            result = step.run(clock)
    except SkipError as reason:
        state.skipped[step.key] = str(reason)
        show(f"  skipped: {reason}")
    except UnfinishedError as reason:
        show(f"  not finished: {reason}")
        return
    except FailedError as reason:
        state.failed[step.key] = str(reason)
        show(f"  failed: {reason}")
    except Exception as error:
        # One step that nobody expected to fail so must not keep the others from running.
        place = traceback.extract_tb(error.__traceback__)[-1]
        state.failed[step.key] = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        show(f"  failed: {state.failed[step.key]}")
    else:
        state.done[step.key] = {**result, "seconds": round(clock.spent - begun, 1)}
        show(f"  done in {clock.spent - begun:.0f} s")
    del state.started[step.key]


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raises `UnfinishedError` in whatever runs when the time of the call is up."""

    def stop(*_: object) -> None:
        raise UnfinishedError("the time of this call is up")

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
