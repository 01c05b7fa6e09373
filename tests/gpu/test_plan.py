"""The plan of the GPU tier, the arguments it starts programs with, and its reasons to skip."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from components.share_proof.expectation import expectations
from components.share_proof.jobs import SCRIPTS
from sharing.hardware.gpus import gpus
from sharing.models.catalogue import KvType, models
from sharing.models.served import ServedModel
from sharing.modes.modes import Mps, TimeSlicing
from tests.gpu import machine as machines
from tests.gpu import shares
from tests.gpu.__main__ import main, parse
from tests.gpu.engine import llama_arguments
from tests.gpu.machine import Machine, read_gpu
from tests.gpu.mps import mps_daemon
from tests.gpu.pair import MPS_THREADS, SLOTS, idle_seconds
from tests.gpu.plan import TABLE, cases, check_compute_mode, steps
from tests.gpu.progress import FailedError, SkipError
from tests.gpu.shapes import SHAPES

NO_GPU = Machine(has_gpu=False)


def test_the_most_useful_steps_come_first_and_have_every_model_once(tmp_path: Path) -> None:
    first, more = ([f"memory {case}" for case in cases(which)] for which in ("first", "more"))
    pairs = ["pair time-slicing", "pair mps", "pair mps-100"]
    planned = steps(parse([]), tmp_path, NO_GPU)
    keys = [one.key for one in planned]
    proofs = ["shares time-slicing", "shares mps", "restarts mps"]
    assert keys == [*proofs, "build", *first, *pairs, *more, "kernels", *(f"{pair} again" for pair in pairs)]
    assert sorted(case.model for case in cases("first")) == sorted(SHAPES)
    # With an engine built elsewhere, everything up to the last pair fits into a quarter of an hour.
    seconds = [one.seconds for one in planned if one.key != "build"]
    assert sum(seconds[: len(proofs) + len(first) + len(pairs)]) < 15 * 60
    assert max(seconds) < 8 * 60


def test_a_dry_run_tries_every_model_with_a_window_of_slots_and_a_quantized_cache(tmp_path: Path) -> None:
    keys = [one.key for one in steps(parse(["--dry-run"]), tmp_path, NO_GPU)]
    assert len(keys) == 4 + len(SHAPES) + 2 + 3
    assert {"memory gemma3:4b context 1024 slots 2 kv f16", "memory qwen3:8b context 1024 slots 1 kv q8_0"} <= {*keys}


def test_a_model_is_predicted_without_the_projector_that_its_file_lacks() -> None:
    assert [shape.model.name for shape in SHAPES.values() if shape.model.projector_bytes] == []
    assert models()["gemma3:4b"].projector_bytes > 0


def test_twice_as_many_requests_for_one_model_are_measured_for_every_load_that_both_get() -> None:
    words = TABLE["load"]["full"].split()
    levels = [int(level) for level in words[words.index("--concurrency") + 1].split(",")]
    assert [2 * level for level in levels[:-1]] == levels[1:]
    # Every slot has a request at the largest load, and every model more requests than slots.
    assert levels[-1] == SLOTS < int(words[words.index("--requests") + 1])


@pytest.mark.parametrize(
    ("last", "idle"),
    [("stopped at the end of the run", 0.0), (None, 1.0)],
    ids=["kept under load", "left alone"],
)
def test_a_model_that_was_measured_while_the_other_was_idle_is_known(last: str | None, idle: float) -> None:
    # In the form of `tandem bench` (tandem/bench_results/result.py): the slower model's last reply ends after 9 s.
    rows = [
        {"endpoint": "slow", "counted": True, "sent_us": 5_000_000, "arrivals_us": [4_000_000], "error": None},
        {"endpoint": "fast", "counted": True, "sent_us": 1_000_000, "arrivals_us": [2_000_000], "error": None},
        {"endpoint": "fast", "counted": False, "sent_us": 8_000_000, "arrivals_us": [], "error": last},
    ]
    alone = {"endpoints": ["slow"], "rows": rows[:1]}
    assert idle_seconds([alone, {"endpoints": ["slow", "fast"], "rows": rows}]) == idle


def test_a_machine_without_a_gpu_skips_the_tier_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert main(["--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said == "gpu tier skipped: this machine has no NVIDIA GPU: `nvidia-smi` is not on PATH\n"
    assert list(tmp_path.iterdir()) == []


def test_the_tier_needs_no_package() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        # Without the folders of packages.
        [sys.executable, "-S", "-c", "import tests.gpu.__main__"],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


SMI = """#!/bin/sh
# As `nvidia-smi` of driver 580 answers, for the GPU that is asked for.
echo "$@" >>{log}
[ -z '{error}' ] || {{ echo '{error}'; exit 9; }}
case $1 in
*=uuid,*) echo 'GPU-1, {mig}, {compute}' ;;
*gpu=*) echo '{state}' ;;
esac
"""
STATE = "NVIDIA H200, 580.159.03, 143771, 615, 4, 143152, Default, Disabled, 9.0"


def driver_that_answers(monkeypatch: pytest.MonkeyPatch, folder: Path, **answers: str) -> Path:
    """An `nvidia-smi` that is the only program of the PATH; returns its log."""
    program, log = folder / "nvidia-smi", folder / "smi.log"
    given = {"error": "", "mig": "Disabled", "compute": "Default", "state": STATE, **answers}
    program.write_text(SMI.format(log=log, **given))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return log


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            {"error": "NVIDIA-SMI has failed because it could not communicate with the driver."},
            "with 9: NVIDIA-SMI has",
        ),
        ({"state": "Unable to determine the device handle"}, "an answer that this tier does not know"),
        ({"mig": "Enabled"}, "the GPU is in MIG mode"),
        # A user without rights sees no memory of a GPU in MIG mode: https://github.com/NVIDIA/k8s-device-plugin/issues
        ({"mig": "Enabled", "state": STATE.replace("143152", "[Insufficient Permissions]")}, "the GPU is in MIG mode"),
        ({"compute": "Prohibited"}, "compute mode PROHIBITED"),
    ],
    ids=["driver", "answer", "mig", "mig without rights", "prohibited"],
)
def test_a_gpu_that_cannot_be_measured_skips_the_tier_and_says_why(
    answers: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver_that_answers(monkeypatch, tmp_path, **answers)
    with pytest.raises(SkipError, match=said):
        machines.Machine.find()


@pytest.mark.parametrize(("variable", "asked"), [(None, "0"), ("2", "2"), ("GPU-7,GPU-8", "GPU-7")])
def test_the_gpu_that_is_read_is_the_one_that_this_process_was_given(
    variable: str | None, asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = driver_that_answers(monkeypatch, tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    machine = machines.Machine.find()
    first, second = log.read_text().splitlines()
    assert first.endswith(f"-i {asked}")
    # From then on by its identity, in which CUDA and the driver agree; their numbers may differ.
    assert second.endswith("-i GPU-1")
    assert machine.uuid == "GPU-1"
    monkeypatch.setattr("platform.release", lambda: "6.18.44-somebodys-machine")
    assert machine.describe()["kernel"] == "6.18.44"
    assert "GPU-1" not in str(machine.describe())


def test_started_programs_use_the_gpu_that_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    driver_that_answers(monkeypatch, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    places = [f"--{name}={tmp_path / name}" for name in ("folder", "results", "reports")]
    # No time: the plan is made, and no step begins.
    assert main([*places, "--minutes", "0"]) == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert capsys.readouterr().out.endswith("Run the same command again; it goes on from here.\n")


def test_a_gpu_for_one_process_is_not_shared_without_mps() -> None:
    state = read_gpu(STATE.replace("Default", "Exclusive_Process"))
    with pytest.raises(SkipError, match="EXCLUSIVE_PROCESS"):
        check_compute_mode("time-slicing", state)
    check_compute_mode("mps", state)
    check_compute_mode("time-slicing", read_gpu(STATE))


def test_without_the_daemon_mps_is_skipped_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(SkipError, match="`nvidia-cuda-mps-control` is neither on PATH nor beside"), mps_daemon(1000, 2):
        raise AssertionError


def control_that_writes(folder: Path, then: str = "") -> Path:
    """An `nvidia-cuda-mps-control` that writes what it gets; returns its log."""
    program, log = folder / "nvidia-cuda-mps-control", folder / "log"
    program.write_text(f'#!/bin/sh\necho "args $*" >>{log}\n[ -n "$1" ] || cat >>{log}\n{then}\n')
    program.chmod(0o755)
    return log


def test_the_daemon_is_found_beside_the_drivers_other_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Images link single programs into the PATH.
    driver, linked = tmp_path / "driver", tmp_path / "linked"
    driver.mkdir()
    linked.mkdir()
    driver_that_answers(monkeypatch, driver)
    (linked / "nvidia-smi").symlink_to(driver / "nvidia-smi")
    log = control_that_writes(driver, then='echo "path $PATH" >>"$CUDA_MPS_LOG_DIRECTORY/../../path-$$"')
    monkeypatch.setenv("PATH", f"{linked}:/usr/bin:/bin")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with mps_daemon(1000, 2):
        pass
    assert log.read_text().startswith("args -d\n")
    # It starts the server, which lies there too.
    assert {file.read_text().split(":")[0] for file in tmp_path.glob("path-*")} == {f"path {driver}"}


def test_a_failure_under_the_daemon_is_kept_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    control_that_writes(
        tmp_path, then='echo "User did not send valid credentials" >"$CUDA_MPS_LOG_DIRECTORY/control.log"'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(FailedError, match="CUDA_ERROR_MPS_CONNECTION_FAILED\nUser did not send"), mps_daemon(1000, 2):
        raise FailedError("CUDA_ERROR_MPS_CONNECTION_FAILED")


@pytest.mark.parametrize(("mode", "threads"), [("mps", 50), ("mps-100", 100)])
def test_the_daemon_gets_the_limits_of_the_device_plugin_and_no_compute_mode(
    mode: str, threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = control_that_writes(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with mps_daemon(143771, 2, MPS_THREADS[mode]) as clients:
        assert set(clients) == {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}
    orders = [line for line in log.read_text().splitlines() if line != "args "]
    # cmd/mps-control-daemon/mps/daemon.go: total / replicas in whole MiB, 100 / replicas.
    assert orders == [
        "args -d",
        "set_default_device_pinned_mem_limit 0 71885M",
        f"set_default_active_thread_percentage {threads}",
        "quit -t 10",
    ]


@pytest.mark.parametrize("kind", [KvType.F16, KvType.Q8_0])
def test_the_engine_gets_the_arguments_that_ollama_gives_it(kind: KvType) -> None:
    served = ServedModel.of(SHAPES["llama2:7b"].model, context=2048, slots=4, kv_type=kind)
    given = " ".join(llama_arguments(served, Path("/m.gguf"), 8080))
    # `starting llama-server` in the log of Ollama 0.32.15 (llm/llama_server.go), with this project's settings.
    cache = " --cache-type-k q8_0 --cache-type-v q8_0" if kind is KvType.Q8_0 else ""
    batch = served.effective_batch
    assert given == (
        "--model /m.gguf --port 8080 --host 127.0.0.1 --no-webui --offline -c 8192 -np 4 --log-verbosity 4 "
        f"--no-log-prefix --no-log-timestamps{cache} --flash-attn on -b {batch} -ub {batch} -ngl 999"
    )


@pytest.mark.parametrize(
    ("title", "name"),
    [
        # `nvidia-smi -L` of each.
        ("Tesla T4", "t4"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla V100-SXM2-32GB", "v100-32gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-server-6000"),
        # Not in the catalogue, and not taken for another GPU.
        ("NVIDIA GeForce RTX 5090", None),
    ],
)
def test_a_gpu_is_found_in_the_catalogue_by_the_name_that_the_driver_gives_it(title: str, name: str | None) -> None:
    found = machines.in_catalogue(title)
    assert (found and found.name) == name


def test_the_files_of_the_share_proof_are_those_that_are_shipped() -> None:
    assert sorted(shares.SHIPPED) == sorted(f"{name}.py" for name in SCRIPTS if name not in ("node",))


@pytest.mark.parametrize(
    ("mode", "limit"), [(TimeSlicing(replicas=2), None), (Mps(replicas=2), 15360 // 2)], ids=["time-slicing", "mps"]
)
def test_two_processes_expect_what_two_pods_do(mode: TimeSlicing | Mps, limit: int | None) -> None:
    [expected] = expectations(mode, gpus()["t4"], 1)
    here = shares.expectation(expected.summary, expected.device_mib, limit)
    assert here == json.loads(json.dumps(asdict(expected.to_pods())))


def test_the_prober_proves_shares_in_processes(driver: Path, tmp_path: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(driver)}
    result = shares.prove(shares.expectation("two shares", 15110, None), tmp_path, environment)
    assert result["verdict"]["proved"] == "two shares"
    assert result["verdict"]["devices"] == 1


def test_the_prober_reports_a_limit_that_nobody_enforces(driver: Path, tmp_path: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(driver)}
    with pytest.raises(FailedError, match="MiB, more than its share"):
        shares.prove(shares.expectation("two shares", 15110, 7680), tmp_path, environment)
