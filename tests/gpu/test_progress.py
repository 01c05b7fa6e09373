"""Steps of the GPU tier: time limit, resuming, the remains of a stopped or killed call, and the locked folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.progress import (
    MARK,
    Clock,
    FailedError,
    Result,
    SkipError,
    State,
    Step,
    UnfinishedError,
    hold,
    marked,
    run_steps,
)


class Calls:
    """Calls of at most eight minutes, whose clock only steps move; each starts with the state on the disk."""

    def __init__(self, folder: Path) -> None:
        self.path, self.now, self.said = folder / "state.json", 0.0, list[str]()

    def step(
        self, key: str, seconds: int = 10, end: BaseException | Callable[[], object] | None = None, **options: object
    ) -> Step:
        """A step that takes its time, and raises an error or calls a function at its end."""

        def run(_: Clock) -> Result:
            self.now += seconds
            if isinstance(end, BaseException):
                raise end
            if end:
                end()
            return {"made": key}

        return Step(key, key, seconds, run, **options)  # type: ignore[arg-type]

    def call(self, *planned: Step) -> State:
        state = State.read(self.path)
        run_steps(planned, state, Clock(480, lambda: self.now), self.said.append)
        assert State.read(self.path) == state
        self.left = [one.key for one in state.left_of(planned)]
        self.done = list(state.having("result"))
        return state


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def test_a_call_continues_where_the_last_one_stopped(calls: Calls) -> None:
    planned = [calls.step("a", 100), calls.step("b", 300), calls.step("c", 300)]
    assert calls.call(*planned).spent_seconds == 400
    assert (calls.done, calls.left) == (["a", "b"], ["c"])
    assert calls.call(*planned).spent_seconds == 700
    assert (calls.done, calls.left) == (["a", "b", "c"], [])


def test_an_unfinished_build_leaves_what_needs_it_for_the_next_call(calls: Calls) -> None:
    state = calls.call(calls.step("build", 60, UnfinishedError()), calls.step("m", needs="build"))
    assert (calls.left, state.having("skipped")) == (["build", "m"], {})
    assert calls.said == ["build …", "  not finished: the next call goes on, 60 s after the call began"]


def test_a_step_that_needs_a_skipped_one_is_skipped_and_both_are_tried_again(calls: Calls) -> None:
    needy = calls.step("m", needs="build")
    state = calls.call(calls.step("build", 60, SkipError("no nvcc")), needy)
    assert state.having("skipped") == {"build": "no nvcc", "m": "it needs `build`, which did not run"}
    assert calls.call(calls.step("build", 60, UnfinishedError()), needy).having("skipped") == {}
    assert calls.left == ["build", "m"]
    assert calls.call(calls.step("build", 60), needy).having("skipped") == {}
    assert calls.done == ["build", "m"]


def test_a_failed_step_is_kept_with_its_reason_and_not_repeated(calls: Calls) -> None:
    calls.call(calls.step("m", 10, FailedError("cudaMalloc failed")))
    assert calls.call(calls.step("m", 10)).having("failed") == {"m": "cudaMalloc failed"}
    assert (calls.now, calls.left) == (10, [])


def test_a_step_that_fails_in_a_way_nobody_expected_does_not_keep_others_from_running(calls: Calls) -> None:
    state = calls.call(calls.step("a", 10, PermissionError("cannot execute llama-server")), calls.step("b"))
    assert state.having("failed")["a"].startswith("PermissionError: cannot execute llama-server (test_progress.py:")
    assert calls.done == ["b"]


def test_the_end_of_a_call_stops_a_step_which_the_next_call_begins_again(calls: Calls) -> None:
    calls.call(calls.step("a", 10, lambda: signal.raise_signal(signal.SIGALRM)), calls.step("b"))
    assert (calls.done, calls.left) == (["b"], ["a"])
    calls.call(calls.step("a"))
    assert calls.done == ["a", "b"]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


@pytest.mark.parametrize(("resumes", "failed"), [(False, ["a"]), (True, [])], ids=["step", "build"])
def test_a_step_that_two_calls_could_not_end_is_given_up_unless_it_goes_on(
    resumes: bool, failed: list[str], calls: Calls
) -> None:
    for _ in range(3):
        state = calls.call(calls.step("a", 10, UnfinishedError(), resumes=resumes))
    assert list(state.having("failed")) == failed


def test_a_killed_call_counts_with_the_time_that_its_step_should_have_taken(calls: Calls) -> None:
    kept: list[State] = []
    # The next call gets only the state on the disk at that moment.
    calls.call(calls.step("first", 30), calls.step("a", end=lambda: kept.append(State.read(calls.path))))
    assert (kept[0].spent_seconds, kept[0].steps["a"], list(kept[0].having("result"))) == (
        40,
        {"started": 1},
        ["first"],
    )


def test_files_of_another_machine_are_made_here_too_before_the_steps_that_need_them(calls: Calls) -> None:
    gone = calls.step("build", 481, remains=lambda: False)
    calls.call(calls.step("build"))
    assert "result" not in calls.call(gone, calls.step("m", needs="build")).steps["build"]
    assert (calls.done, calls.left) == ([], ["build", "m"])


def test_a_folder_serves_one_call_at_a_time(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(FailedError, match="is in use by another call"), hold(tmp_path):
        raise AssertionError
    with hold(tmp_path) as killed:
        assert killed == []


def test_processes_of_a_killed_call_are_ended_with_their_children(tmp_path: Path) -> None:
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
