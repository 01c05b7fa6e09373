"""Ctrl-C at any moment of `tandem bench`."""

import asyncio
import gc
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tandem.bench.interrupt import run_until_ctrl_c
from tandem.bench_results.result_file import read
from tests.command import Ended
from tests.tandem.conftest import Servers

ROOT = Path(__file__).parents[3]
HERE = (str(ROOT / "tandem" / "bench"), str(ROOT / "tandem" / "bench_results"))


def lines_of(servers: Servers, interrupt_at: int) -> tuple[Ended, int]:
    """Runs the benchmark and presses Ctrl-C before that line. Returns how it ended, and how many lines it ran."""
    count, inside = 0, False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, inside
        code = frame.f_code
        if not code.co_filename.startswith(HERE):
            return None
        inside = inside or (event == "call" and code.co_name == "run_until_ctrl_c")
        if inside and event == "line":
            count += 1
            if count == interrupt_at:
                signal.raise_signal(signal.SIGINT)
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        ended = servers.bench("--requests", "1", "--warm-up", "1", "--json")
    finally:
        sys.settrace(earlier)
    return ended, count


@pytest.mark.slow
def test_ctrl_c_is_quiet_on_every_line_and_loses_no_written_run(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unheard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)
    _, whole = lines_of(servers, 0)
    assert whole > 500
    kept = set()
    for number in range(1, whole, max(1, whole // 24)):
        servers.path = path = tmp_path / f"{number}.json"
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            ended, _ = lines_of(servers, number)
            gc.collect()  # a coroutine that was never awaited warns when it is collected
        assert ([str(one.message) for one in warned], unheard, caplog.text) == ([], [], ""), number
        if ended.returncode == 0:  # pressed when there was nothing left to interrupt
            assert read(path).complete, number
            continue
        assert ended.returncode == 130, number
        runs = len(read(path).runs) if path.exists() else 0
        kept.add(runs)
        said = (
            f"{runs} {'run is' if runs == 1 else 'runs are'} in {path}. Continue with --resume."
            if runs
            else "No run was kept."
        )
        assert ended.stderr in (f"Interrupted. {said}\n", "Interrupted.\n"), number
        assert not list(tmp_path.glob(".*.part")), number
    assert kept >= {0, 1, 2}


def test_ctrl_c_wakes_a_loop_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[bool] = []

    async def work() -> None:
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select

        def waiting(timeout: float | None) -> object:
            if timeout is not None or woken:
                return select(timeout)
            signal.raise_signal(signal.SIGINT)
            events = select(5)  # immediate, unless nothing wakes the loop
            woken.append(bool(events))
            return events

        monkeypatch.setattr(selector, "select", waiting)
        await asyncio.Event().wait()

    assert not run_until_ctrl_c(work)
    assert woken == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_the_loop_runs_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    run, reached = asyncio.run, []

    def pressed(whole: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        run(whole)

    async def work() -> None:
        await asyncio.sleep(0)
        reached.append(True)

    monkeypatch.setattr(asyncio, "run", pressed)
    assert not run_until_ctrl_c(work)
    assert reached == []


def test_a_second_ctrl_c_does_not_disturb_the_cleanup() -> None:
    cleaned = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
            cleaned.append(True)

    assert not run_until_ctrl_c(work)
    assert cleaned == [True]


def test_finished_work_is_not_interrupted() -> None:
    async def work() -> None:
        signal.raise_signal(signal.SIGINT)

    assert run_until_ctrl_c(work)
