"""Signals while a command uses a cluster: Ctrl-C at any moment prints one line, and no private file is left."""

import gc
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tandem.main import end_on_signals, main
from tests.tandem.deployed.fake_kubernetes import FakeKubernetes, serving
from tests.tandem.seen import ROOT

MOMENTS = 24


@pytest.fixture
def kept() -> Iterator[None]:
    """Restores the signal handlers afterwards."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_command_leaves_no_credentials_behind(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    seen: list[list[str]] = []

    def ends(path: str, token: str) -> bool:
        if not seen:
            seen.append([folder.name for folder in private.iterdir()])
            os.kill(os.getpid(), number)
        return False

    end_on_signals()
    with serving(FakeKubernetes()) as fake:
        fake.refuses = ends
        with pytest.raises(SystemExit) as ended:
            main(
                ["watch", "--once", str(ROOT / "Pulumi.timeslice.yaml"), "--kubeconfig", str(fake.kubeconfig(tmp_path))]
            )
    assert ended.value.code == 128 + number
    [[folder]] = seen
    assert folder.startswith("tandem-kubeconfig-")
    assert list(private.iterdir()) == []


def test_ignored_hangups_stay_ignored(kept: None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_on_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.fixture
def call(tmp_path: Path) -> Iterator[list[str]]:
    """A call of `verify` that checks everything. Its ports cannot be forwarded."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with serving(FakeKubernetes()) as fake:
        fake.ended.set()
        yield ["verify", str(ROOT / "Pulumi.timeslice.yaml"), "--kubeconfig", str(fake.kubeconfig(tmp_path))]
    signal.signal(signal.SIGINT, before)


def run(call: list[str], interrupted_at: int = 0) -> tuple[int, int]:
    """The exit code, and the number of functions called in this thread. Ctrl-C comes during the given one."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"
        if event == "call" and calls == interrupted_at:
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        return main(call), calls
    finally:
        sys.setprofile(None)


@pytest.mark.slow
def test_ctrl_c_is_one_line_whenever_it_comes(
    call: list[str],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    run(call)
    code, calls = run(call)
    assert code == 1
    capfd.readouterr()
    chosen = random.Random(13)
    for moment in sorted(chosen.randrange(1, calls) for _ in range(MOMENTS)):
        lost.clear()
        code, _ = run(call, moment)
        said = capfd.readouterr().err
        # If Python cannot raise it, the command handles it later: tests/tandem/test_interrupted.py.
        assert {one.exc_type for one in lost} <= {KeyboardInterrupt}, moment
        if not lost:
            assert (code, said.splitlines()[-1]) == (130, "Interrupted."), moment
        assert "Traceback" not in said, moment
        assert caplog.records == [], moment
    # Interrupted objects are collected here, not during another test.
    gc.collect()
