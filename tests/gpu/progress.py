"""Steps that fit a time limit and resume: what is measured is kept, and the next call goes on from there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class SkipError(Exception):
    """This machine lacks what the step needs. The text says what."""


class UnfinishedError(Exception):
    """The time of this call is up in the middle of a step that can go on in the next call."""


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
    """What all calls so far have found. It is written after every step."""

    path: Path
    done: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    spent_seconds: float = 0.0

    @classmethod
    def read(cls, path: Path) -> State:
        """The state of earlier calls, or an empty one."""
        if not path.exists():
            return cls(path)
        return cls(path, **json.loads(path.read_text(encoding="utf-8")))

    def write(self) -> None:
        """Keeps it. A call that is killed while it writes leaves the earlier state."""
        content = {name: getattr(self, name) for name in ("done", "failed", "skipped", "spent_seconds")}
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        partial.rename(self.path)


def run_steps(steps: Sequence[Step], state: State, clock: Clock, show: Callable[[str], None]) -> list[Step]:
    """Runs what is not done, in this order; returns the steps that are left for the next call.

    Failed steps are not repeated: the same machine would most likely fail again, and its time is short. A skipped step
    is tried again, because what it needs may be there the next time.
    """
    left: list[Step] = []
    before = state.spent_seconds
    for step in steps:
        if step.key in state.done or step.key in state.failed:
            continue
        if missing := [need for need in step.needs if need not in state.done]:
            if any(need in state.skipped or need in state.failed for need in missing):
                state.skipped[step.key] = f"it needs `{missing[0]}`, which did not run"
            else:
                left.append(step)
            continue
        if clock.left < step.seconds:
            left.append(step)
            continue
        _run(step, state, clock, show, left)
        state.spent_seconds = before + clock.spent
        state.write()
    return left


def _run(step: Step, state: State, clock: Clock, show: Callable[[str], None], left: list[Step]) -> None:
    show(f"{step.title} …")
    begun = clock.spent
    state.skipped.pop(step.key, None)
    try:
        result = step.run(clock)
    except SkipError as reason:
        state.skipped[step.key] = str(reason)
        show(f"  skipped: {reason}")
    except UnfinishedError as reason:
        left.append(step)
        show(f"  not finished: {reason}")
    except FailedError as reason:
        state.failed[step.key] = str(reason)
        show(f"  failed: {reason}")
    else:
        state.done[step.key] = {**result, "seconds": round(clock.spent - begun, 1)}
        show(f"  done in {clock.spent - begun:.0f} s")
