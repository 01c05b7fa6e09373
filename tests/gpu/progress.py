"""Steps that fit a time limit: results are kept, and the next call runs the steps without one."""

import json
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sharing.files import write_whole

Result = dict[str, Any]


class SkipError(Exception):
    """This machine lacks what the step needs. The text says what."""


class FailedError(Exception):
    """The step ran and did not work. The text says why."""


class UnfinishedError(Exception):
    """The time of this call is up in the middle of a step."""


class Clock:
    """The time of one call, in seconds."""

    def __init__(self, limit: float) -> None:
        self._end = time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds until its end."""
        return self._end - time.monotonic()


@dataclass(frozen=True)
class Step:
    """One measurement."""

    key: str
    title: str
    seconds: int
    """How long it takes, as far as known: it does not start with less time left."""
    run: Callable[[Clock], Result]


@dataclass
class State:
    """The outcomes of all calls so far. It is written after every step."""

    path: Path
    engine: Result | None = None
    """The engine of all results."""
    steps: dict[str, Result] = field(default_factory=dict)
    """For each step that ran: its `result`, or the reason why it was `skipped` or `failed`."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The state of earlier calls, or an empty one."""
        return cls(path, **json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls(path)

    def write(self) -> None:
        """Keeps it."""
        write_whole(self.path, json.dumps({"engine": self.engine, "steps": self.steps}, indent=1))

    def having(self, what: str) -> Result:
        """The `result`, or the reason for `skipped` or `failed`, of each step that has one."""
        return {key: known[what] for key, known in self.steps.items() if what in known}

    def left_of(self, steps: Sequence[Step]) -> list[Step]:
        """Steps without any outcome yet."""
        return [step for step in steps if step.key not in self.steps]


def run_steps(steps: Sequence[Step], state: State, clock: Clock) -> None:
    """Runs the remaining steps in this order, and keeps their outcomes.

    Failed steps are not repeated: the same machine would most likely fail again, and its time is short. A skipped step
    is tried again, because its needs may be met the next time.
    """
    for step in steps:
        if state.steps.get(step.key, {}).keys() & {"result", "failed"} or clock.left < step.seconds:
            continue
        print(f"{step.title} …", flush=True)
        outcome = state.steps[step.key] = _outcome(step, clock)
        state.write()
        for what, value in outcome.items():
            print("  done" if what == "result" else f"  {what}: {value}", flush=True)


def _outcome(step: Step, clock: Clock) -> Result:
    begun = time.monotonic()
    try:
        with _stopped_after(clock.left):
            result = step.run(clock)
    except SkipError as reason:
        return {"skipped": str(reason)}
    except FailedError as reason:
        return {"failed": str(reason)}
    except UnfinishedError:
        return {"failed": "it did not end before the time of the call was up"}
    except Exception as error:
        # An unexpected failure of one step must not keep the others from running.
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {"failed": f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"}
    return {"result": {**result, "seconds": round(time.monotonic() - begun, 1)}}


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
