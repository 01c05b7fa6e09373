"""Steps of the GPU tier: time limit, resuming, what a stopped or killed call leaves, and the folder that it holds."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.gpu.folder import MARK, hold, marked
from tests.gpu.progress import (
    Clock,
    FailedError,
    Result,
    SkipError,
    State,
    Step,
    UnfinishedError,
    left_of,
    run_steps,
)


class Time:
    """A clock that only steps move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def quiet(_: str) -> None:
    pass


def keys(found: Sequence[Step]) -> list[str]:
    return [one.key for one in found]


def step(key: str, seconds: int, time: Time, *, needs: tuple[str, ...] = (), error: Exception | None = None) -> Step:
    def run(_: Clock) -> Result:
        time.now += seconds
        if error:
            raise error
        return {"key": key}

    return Step(key, key, seconds, run, needs)


def test_a_call_goes_on_from_what_the_last_one_left(tmp_path: Path) -> None:
    time = Time()
    state = State.read(tmp_path / "state.json")
    planned = [step("a", 100, time), step("b", 300, time), step("c", 300, time)]
    run_steps(planned, state, Clock(480, time), quiet)
    assert keys(left_of(planned, state)) == ["c"]
    again = State.read(tmp_path / "state.json")
    assert list(again.done) == ["a", "b"]
    assert again.spent_seconds == 400
    run_steps(planned, again, Clock(480, time), quiet)
    assert list(again.done) == ["a", "b", "c"]
    assert again.spent_seconds == 700


def test_a_step_is_not_begun_without_the_time_for_it_but_a_shorter_one_is(tmp_path: Path) -> None:
    time, state = Time(), State(tmp_path / "state.json")
    planned = [step("long", 500, time), step("short", 20, time)]
    run_steps(planned, state, Clock(480, time), quiet)
    assert keys(left_of(planned, state)) == ["long"]
    assert list(state.done) == ["short"]


def test_an_unfinished_build_leaves_what_needs_it_for_the_next_call(tmp_path: Path) -> None:
    time, state = Time(), State(tmp_path / "state.json")
    planned = [step("build", 60, time, error=UnfinishedError("later")), step("m", 1, time, needs=("build",))]
    run_steps(planned, state, Clock(480, time), quiet)
    assert keys(left_of(planned, state)) == ["build", "m"]
    assert not state.skipped


def test_what_needs_a_skipped_step_is_skipped_and_both_are_tried_again(tmp_path: Path) -> None:
    time, state = Time(), State(tmp_path / "state.json")
    needy = step("m", 1, time, needs=("build",))
    run_steps([step("build", 60, time, error=SkipError("no nvcc")), needy], state, Clock(480, time), quiet)
    assert state.skipped == {"build": "no nvcc", "m": "it needs `build`, which did not run"}
    run_steps([step("build", 60, time), needy], state, Clock(480, time), quiet)
    assert state.skipped == {}
    assert list(state.done) == ["build", "m"]


def test_a_failed_step_is_kept_with_its_reason_and_not_repeated(tmp_path: Path) -> None:
    time, state = Time(), State(tmp_path / "state.json")
    run_steps([step("m", 10, time, error=FailedError("cudaMalloc failed"))], state, Clock(480, time), quiet)
    assert state.failed == {"m": "cudaMalloc failed"}
    run_steps([step("m", 10, time)], state, Clock(480, time), quiet)
    assert time.now == 10


def running(key: str, run: Callable[[], Result], *, resumes: bool = False) -> Step:
    return Step(key, key, 10, lambda _: run(), resumes=resumes)


def test_a_step_that_fails_in_a_way_nobody_expected_does_not_keep_others_from_running(tmp_path: Path) -> None:
    def fail() -> Result:
        raise PermissionError("cannot execute llama-server")

    state = State(tmp_path / "state.json")
    run_steps([running("a", fail), running("b", lambda: {})], state, Clock(480, Time()), quiet)
    assert state.failed["a"].startswith("PermissionError: cannot execute llama-server (test_progress.py:")
    assert list(state.done) == ["b"]


def test_the_end_of_a_call_stops_a_step_which_the_next_call_begins_again(tmp_path: Path) -> None:
    def ring() -> Result:
        signal.raise_signal(signal.SIGALRM)
        return {}

    state = State(tmp_path / "state.json")
    planned = [running("a", ring), running("b", lambda: {})]
    run_steps(planned, state, Clock(480, Time()), quiet)
    assert keys(left_of(planned, state)) == ["a"]
    assert list(state.done) == ["b"]
    run_steps([running("a", lambda: {})], state, Clock(480, Time()), quiet)
    assert list(state.done) == ["b", "a"]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


@pytest.mark.parametrize(("resumes", "failed"), [(False, ["a"]), (True, [])], ids=["step", "build"])
def test_a_step_that_two_calls_could_not_end_is_given_up_unless_it_goes_on(
    resumes: bool, failed: list[str], tmp_path: Path
) -> None:
    def stop() -> Result:
        raise UnfinishedError("the time of this call is up")

    for _ in range(3):
        state = State.read(tmp_path / "state.json")
        run_steps([running("a", stop, resumes=resumes)], state, Clock(480, Time()), quiet)
    assert list(state.failed) == failed


def test_a_killed_call_counts_with_the_time_that_its_step_should_have_taken(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "state.json"
    kept: list[State] = []

    def be_killed() -> Result:
        # What the disk holds at that moment is all that the next call gets.
        kept.append(State.read(path))
        return {}

    run_steps([step("first", 30, time), running("a", be_killed)], State(path), Clock(480, time), quiet)
    assert (kept[0].spent_seconds, kept[0].started, list(kept[0].done)) == (40, {"a": 1}, ["first"])


def test_a_call_that_a_person_stops_keeps_its_time(tmp_path: Path) -> None:
    time = Time()

    def stop() -> Result:
        time.now += 7
        raise KeyboardInterrupt

    state = State(tmp_path / "state.json")
    with pytest.raises(KeyboardInterrupt):
        run_steps([running("a", stop)], state, Clock(480, time), quiet)
    assert State.read(tmp_path / "state.json").spent_seconds == 7


def test_what_another_machine_made_is_made_here_too(tmp_path: Path) -> None:
    state = State(tmp_path / "state.json", done={"build": {"made": "there"}})
    gone = Step("build", "build", 10, lambda _: {"made": "here"}, remains=lambda: False)
    run_steps([gone], state, Clock(480, Time()), quiet)
    assert state.done["build"]["made"] == "here"


def test_a_folder_serves_one_call_at_a_time(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(FailedError, match="is in use by another call"), hold(tmp_path):
        raise AssertionError
    with hold(tmp_path) as killed:
        assert killed == []


def test_what_a_killed_call_left_running_is_ended_with_its_children(tmp_path: Path) -> None:
    # A shell that starts another process, as Ollama starts its engine, in a session of its own.
    left = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & echo started; wait"],
        env={**os.environ, MARK: str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert left.stdout is not None
        assert left.stdout.readline() == b"started\n"
        with hold(tmp_path) as killed:
            assert left.pid in killed
            assert len(killed) == 2
            assert left.wait(60) == -signal.SIGKILL
            assert MARK in os.environ
        assert MARK not in os.environ
        assert left.stdout.read() == b""
        assert marked(tmp_path) == []
        assert other.poll() is None
    finally:
        left.kill()
        other.kill()
