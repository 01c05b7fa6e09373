"""The step with daemons that end, tried with a stand-in for the daemon's program."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.gpu import daemon_restart
from tests.gpu.daemon_restart import describe_restarts, restart_daemon, restart_step
from tests.gpu.progress import Clock, FailedError, SkipError

CONTROL = Path(__file__).parents[1] / "ollama" / "nvidia_cuda_mps_control.py"
CLIENT = (sys.executable, "-c", "import time; print(4096, flush=True); time.sleep(600)")
FILES = ["control", "nvidia-cuda-mps-control.pid"]
pytestmark = pytest.mark.slow


@pytest.fixture
def _daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CONTROL, tmp_path / "nvidia-cuda-mps-control")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in {"PAUSE_SECONDS": "0.05", "DAEMON_TURNS": "2"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_daemon")
def test_a_model_stays_without_its_server_and_stops_without_its_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_restart, "STAYS_SECONDS", 1)
    found = restart_daemon(8192, CLIENT)
    killed = found.pop("server killed")
    assert killed == {"free_mib": 4096, "files": FILES, "new_process": "4,096 MiB"}
    assert {name: one["message"] for name, one in found.items()} == dict.fromkeys(
        ("daemon quit", "daemon killed"), "model is outside MPS: its MPS daemon ended or restarted"
    )
    assert list(describe_restarts({"mps": {"server killed": killed, **found}}))[-1].endswith(
        "Without a daemon: 4,096 MiB. With a new one: 4,096 MiB. The daemon left control, nvidia-cuda-mps-control.pid."
    )
    assert found["daemon quit"]["files_after"] == ["control"]
    assert found["daemon killed"]["files_after"] == FILES


@pytest.mark.usefixtures("_daemon")
def test_a_hook_that_does_nothing_fails_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("exit 0")
    monkeypatch.setattr(daemon_restart, "HOOK", tmp_path / "hook")
    monkeypatch.setattr(daemon_restart, "STAYS_SECONDS", 0)
    monkeypatch.setattr(daemon_restart, "STOPS_SECONDS", 0.5)
    with pytest.raises(FailedError, match="after `daemon quit`, the hook let the server run"):
        restart_daemon(8192, CLIENT)


def test_a_dry_run_skips_the_step() -> None:
    with pytest.raises(SkipError, match="a dry run has no GPU"):
        restart_step(None).run(Clock(1))
