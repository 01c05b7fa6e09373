"""The steps of limits per model with stand-ins for driver, daemon and engine: a limit that does not hold fails them.

No GPU has run these steps yet, so the stand-ins show only that the steps notice it.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import daemon_restart
from tests.gpu.__main__ import main, parse
from tests.gpu.machine import Machine
from tests.gpu.plan import steps

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
DAEMON = HERE.parent / "ollama" / "nvidia_cuda_mps_control.py"
PROGRAMS = {
    # The answers that an H100 gave (tests/gpu/results); it names no processes, as in a container.
    "nvidia-smi": """case "$*" in
*uuid*) echo "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c, Disabled, Default" ;;
*query-gpu*) echo "NVIDIA H100 80GB HBM3, 580.159.04, 81559, 480, 0, 81079, Default, Disabled, 9.0" ;;
esac""",
    # With the options of the unit, and as the plugin starts it.
    "nvidia-cuda-mps-control": f"""case "$*" in
"-f -multiuser-server") exec {sys.executable} {DAEMON} -f ;;
-d)
    {sys.executable} {DAEMON} -f </dev/null >/dev/null 2>&1 &
    until echo get_server_list | {sys.executable} {DAEMON} >/dev/null 2>&1; do sleep 0.05; done ;;
"") exec {sys.executable} {DAEMON} ;;
*) echo "unknown options $*" >&2; exit 2 ;;
esac""",
    "llama-server": f'exec {sys.executable} -P {HERE / "engine_stand_in.py"} "$@"',
    "llama-quantize": "",
}
LIMITS = (int(81559 * 0.6), int(81559 * 0.3))
CONTEXT_MIB = 27
"""What the stand-in takes of each limit."""


@dataclass(frozen=True)
class Outcome:
    """What a call left."""

    code: int
    failed: dict[str, str]
    numbers: dict[str, Any]
    """Empty if nothing was measured, as the report."""
    report: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`make test-gpu` on a machine of stand-ins."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (`cc`) to build a fake driver")
    programs, models = tmp_path / "programs", tmp_path / "kept" / "models"
    programs.mkdir()
    models.mkdir(parents=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", programs / "libcuda.so.1", HERE / "libcuda.c"], check=True)
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    for name in ("llama2-7b", "llama3.2-3b"):
        # The stand-in reads no file, so none of gigabytes is written.
        (models / f"{name}.gguf").touch()
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    settings = {"LD_LIBRARY_PATH": str(programs), "FAKE_MIB": "81079", "PAUSE_SECONDS": "0.05"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(daemon_restart, "STAYS_SECONDS", 1)

    def call(only: str, **environment: str) -> Outcome:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        out, kept = tmp_path / "out", tmp_path / "kept"
        places = [f"--{name}={out}" for name in ("results", "reports")]
        code = main([f"--only={only}", f"--programs={programs}", f"--folder={kept}", *places])
        outcomes = json.loads((kept / "state.json").read_text())["steps"]
        failed = {key: one["failed"] for key, one in outcomes.items() if "failed" in one}
        numbers = [json.loads(path.read_text()) for path in out.glob("*.json")]
        return Outcome(
            code, failed, numbers[0] if numbers else {}, "".join(path.read_text() for path in out.glob("*.md"))
        )

    return call


def test_limits_that_hold_are_measured_and_reported(run: Run) -> None:
    done = run("limits,shares per-model")
    assert (done.code, done.failed, done.numbers["skipped"]) == (0, {}, {})
    found, report = done.numbers, done.report
    enforced = found["limits"]["enforced"]
    # 2 MiB is the smallest allocation, so the odd MiB of a limit stays free.
    most = [(limit - CONTEXT_MIB) // 2 * 2 for limit in LIMITS]
    for row, limit, got, processors in zip(enforced["clients"], LIMITS, most, (132, 66), strict=True):
        filled = {"allocated_mib": got, "refused": "CUDA_ERROR_OUT_OF_MEMORY"}
        assert (row["cuMemAlloc"], row["cuMemCreate"]) == (filled, filled)
        assert (row["limit_mib"], row["free_mib"]) == (limit, limit - CONTEXT_MIB)
        assert row["multiprocessors"] == processors
    # Why the prober exists: without its variable, a client of the same daemon has the entire GPU.
    assert enforced["without_limit"]["free_mib"] == 81079 - CONTEXT_MIB
    assert enforced["pid_file"] is True
    mount = enforced["read_only_mount"]
    assert "skipped" in mount or mount["free_mib"] == LIMITS[1] - CONTEXT_MIB
    assert found["shares"]["per-model"]["expected"]["limits_mib"] == [*LIMITS]
    loads = [(one["model"], one["loads"]) for one in found["limits"]["servers"]["tries"]]
    assert loads == [("llama2:7b", True), ("llama2:7b", False), ("llama3.2:3b", True), ("llama3.2:3b", False)]
    assert "| 48,935 | 100 % | 48,908 | 48,908 | 48,908 | 132 |" in report
    assert "- a client without a limit: 81,052 MiB free, 81,052 MiB allocated." in report
    assert "more than 48,935 or 24,467 MiB was refused." in report
    assert "75 % of the prediction: did not load (`alloc_buffer: allocating 3292.00 MiB" in report


@pytest.mark.parametrize(
    ("unlimited", "said"),
    [
        (
            "alloc",
            {"limits enforced": "81,052 MiB by cuMemAlloc: the limit is not enforced", "limits servers": "loaded"},
        ),
        ("create", {"limits enforced": "81,052 MiB by cuMemCreate: the limit is not enforced"}),
        ("free", {"limits enforced": "with a limit of 24,467 MiB saw 81,052 MiB free"}),
        ("threads", {"limits enforced": "50% of the threads saw 132 of 132 SMs"}),
    ],
    ids=str,
)
def test_a_limit_that_does_not_hold_fails_its_steps(run: Run, unlimited: str, said: dict[str, str]) -> None:
    done = run("limits", FAKE_UNLIMITED=unlimited)
    assert done.code == 1
    assert done.failed.keys() == said.keys()
    assert all(words in done.failed[key] for key, words in said.items()), done.failed


def test_the_prober_fails_too(run: Run) -> None:
    done = run("shares per-model", FAKE_UNLIMITED="alloc")
    assert done.code == 1
    assert "more than its share" in done.failed["shares per-model"]


@pytest.mark.parametrize(
    ("kind", "ends", "limited"),
    [
        ("per-model", ["daemon stopped", "daemon killed", "daemon restarted"], 81559 // 2 - CONTEXT_MIB),
        # The stand-in has no default limit.
        ("mps", ["daemon quit", "daemon killed"], 81079 - CONTEXT_MIB),
    ],
    ids=["of the node", "of the plugin"],
)
def test_a_model_stays_without_its_server_and_stops_without_its_daemon(
    run: Run, kind: str, ends: list[str], limited: int
) -> None:
    done = run(f"restarts {kind}")
    assert (done.code, done.failed) == (0, {})
    result = done.numbers["restarts"][kind]
    del result["seconds"]
    assert result.pop("server killed")["new_process"] == f"{limited:,} MiB"
    assert [*result] == ends
    for name, one in result.items():
        assert one["message"] == "model is outside MPS: its MPS daemon ended or restarted"
        assert one["with_a_new_daemon"] == f"{limited:,} MiB"
        entire = None if name == "daemon restarted" else f"{81079 - CONTEXT_MIB:,} MiB"
        assert one.get("without_daemon") == entire
    assert f"; the model's process had {limited:,} MiB." in done.report
    # `quit` and SIGTERM remove the file, a crash does not.
    assert done.report.count("no file with the process ID") == 1


def test_a_hook_that_does_nothing_fails_the_step(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hook").write_text("exit 0")
    monkeypatch.setattr(daemon_restart, "HOOK", tmp_path / "hook")
    monkeypatch.setattr(daemon_restart, "STAYS_SECONDS", 0)
    monkeypatch.setattr(daemon_restart, "STOPS_SECONDS", 0.5)
    done = run("restarts per-model")
    assert done.code == 1
    assert "after `daemon stopped`, the hook let the server run" in done.failed["restarts per-model"]


def test_what_no_gpu_has_shown_comes_first_and_all_that_matters_fits_a_quarter_of_an_hour(tmp_path: Path) -> None:
    planned = steps(parse([f"--programs={tmp_path}"]), tmp_path, Machine(has_gpu=False))
    keys = [step.key for step in planned]
    assert keys[:6] == [
        *("limits enforced", "shares per-model", "restarts per-model", "limits servers"),
        *("pair per-model-100", "pair per-model-50"),
    ]
    # A machine takes up to a minute to start.
    until = keys.index("pair mps")
    assert {"shares mps", "restarts mps", "pair time-slicing"} < {*keys[:until]}
    assert sum(step.seconds for step in planned[:until]) <= 14 * 60
