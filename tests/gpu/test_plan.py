"""Order, time limit and resuming of the GPU tier, the arguments it starts programs with, and its reasons to skip."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from components.ollama_pair import environment
from components.share_promise import promises
from components.share_proof import SCRIPTS
from sharing.gpus import gpus
from sharing.models import KvType, Served
from sharing.modes import Mps, TimeSlicing
from tests.gpu import machine as machines
from tests.gpu import pair, shares
from tests.gpu.__main__ import main
from tests.gpu.build import Build, Source, configure, unpack
from tests.gpu.engine import llama_arguments
from tests.gpu.machine import Machine
from tests.gpu.memory import Files
from tests.gpu.mps import mps_daemon
from tests.gpu.plan import FIRST_CASES, MORE_CASES, Options, steps
from tests.gpu.progress import Clock, FailedError, Result, SkipError, State, Step, UnfinishedError, run_steps
from tests.gpu.shapes import SHAPES

NO_GPU = Machine(has_gpu=False)


class Time:
    """A clock that only steps move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def quiet(_: str) -> None:
    pass


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
    left = run_steps(planned, state, Clock(480, time), quiet)
    assert [one.key for one in left] == ["c"]
    again = State.read(tmp_path / "state.json")
    assert list(again.done) == ["a", "b"]
    assert again.spent_seconds == 400
    assert run_steps(planned, again, Clock(480, time), quiet) == []
    assert list(again.done) == ["a", "b", "c"]
    assert again.spent_seconds == 700


def test_a_step_is_not_begun_without_the_time_for_it_but_a_shorter_one_is(tmp_path: Path) -> None:
    time, state = Time(), State(tmp_path / "state.json")
    left = run_steps([step("long", 500, time), step("short", 20, time)], state, Clock(480, time), quiet)
    assert [one.key for one in left] == ["long"]
    assert list(state.done) == ["short"]


def test_an_unfinished_build_leaves_what_needs_it_for_the_next_call(tmp_path: Path) -> None:
    time, state = Time(), State(tmp_path / "state.json")
    planned = [step("build", 60, time, error=UnfinishedError("later")), step("m", 1, time, needs=("build",))]
    left = run_steps(planned, state, Clock(480, time), quiet)
    assert [one.key for one in left] == ["build", "m"]
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


def options(tmp_path: Path, *, dry_run: bool = False) -> Options:
    return Options(tmp_path, None, None, None, (), dry_run)


def test_the_most_useful_steps_come_first(tmp_path: Path) -> None:
    keys = [one.key for one in steps(options(tmp_path), NO_GPU)]
    first, more = [case.key for case in FIRST_CASES], [case.key for case in MORE_CASES]
    proofs, pairs = ["shares time-slicing", "shares mps"], ["pair time-slicing", "pair mps"]
    assert keys == [*proofs, "build", *first, *pairs, *more]


def test_the_first_cases_have_every_model_once() -> None:
    assert sorted(case.model for case in FIRST_CASES) == sorted(SHAPES)


def test_the_whole_plan_fits_into_twenty_five_minutes_beside_a_build_of_eight(tmp_path: Path) -> None:
    # What is begun must fit, so these are upper bounds; a short overrun costs the last case.
    planned = steps(options(tmp_path), NO_GPU)
    first = planned[: planned.index(next(one for one in planned if one.key == "pair mps")) + 1]
    assert 8 * 60 + sum(one.seconds for one in first if one.key != "build") < 25 * 60
    assert all(one.seconds < 8 * 60 for one in planned)


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


def test_a_driver_without_a_gpu_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the driver.'\nexit 9\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SkipError, match="says 'NVIDIA-SMI has failed"):
        machines.Machine.find()


def test_without_the_daemon_mps_is_skipped_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(SkipError, match="`nvidia-cuda-mps-control` is not on PATH"), mps_daemon(1000, 2):
        raise AssertionError


def test_the_daemon_gets_the_limits_of_the_device_plugin_and_no_compute_mode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, log = tmp_path / "nvidia-cuda-mps-control", tmp_path / "log"
    program.write_text(f'#!/bin/sh\necho "args $*" >>{log}\n[ -n "$1" ] || cat >>{log}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with mps_daemon(143771, 2) as daemon:
        assert set(daemon.environment) == {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}
    orders = [line for line in log.read_text().splitlines() if line != "args "]
    # cmd/mps-control-daemon/mps/daemon.go: total / replicas in whole MiB, 100 / replicas.
    assert orders == [
        "args -d",
        "set_default_device_pinned_mem_limit 0 71885M",
        "set_default_active_thread_percentage 50",
        "quit -t 10",
    ]


@pytest.mark.parametrize("kind", [KvType.F16, KvType.Q8_0])
def test_the_engine_gets_the_arguments_that_ollama_gives_it(kind: KvType) -> None:
    served = Served(id="m", model=SHAPES["llama2:7b"].model, context=2048, slots=4, kv_type=kind)
    given = " ".join(llama_arguments(served, Path("/m.gguf"), 8080))
    # `starting llama-server` in the log of Ollama 0.32.15 (llm/llama_server.go), with this project's settings.
    cache = " --cache-type-k q8_0 --cache-type-v q8_0" if kind is KvType.Q8_0 else ""
    assert given == (
        "--model /m.gguf --port 8080 --host 127.0.0.1 --no-webui --offline -c 8192 -np 4 --log-verbosity 4 "
        f"--no-log-prefix --no-log-timestamps{cache} --flash-attn on -b {served.batch} -ub {served.batch} -ngl 999"
    )


def test_the_servers_of_a_pair_have_the_settings_of_a_pod() -> None:
    served = pair.served_as(SHAPES["llama2:7b"])
    assert pair.settings(served) == environment(served)


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
    ],
)
def test_a_gpu_is_found_in_the_catalogue_by_the_name_that_the_driver_gives_it(title: str, name: str) -> None:
    found = machines.in_catalogue(title)
    assert found is not None
    assert found.name == name


def test_a_gpu_that_the_catalogue_lacks_is_not_taken_for_another() -> None:
    assert machines.in_catalogue("NVIDIA GeForce RTX 5090") is None


def test_the_files_of_the_share_proof_are_those_that_are_shipped() -> None:
    assert sorted(shares.SHIPPED) == sorted(f"{name}.py" for name in SCRIPTS if name not in ("node_prober",))


@pytest.mark.parametrize(
    ("mode", "limit"), [(TimeSlicing(replicas=2), None), (Mps(replicas=2), 15360 // 2)], ids=["time-slicing", "mps"]
)
def test_two_processes_expect_what_two_pods_do(mode: TimeSlicing | Mps, limit: int | None) -> None:
    [promised] = promises(mode, gpus()["t4"], 1)
    here, pods = shares.expectation("", promised.device_mib, limit), promised.to_pods()
    assert {name: pods[name] for name in ("shares", "pods", "per_device", "limit_mib")} == {
        "shares": here.shares,
        "pods": here.pods,
        "per_device": here.per_device,
        "limit_mib": here.limit_mib,
    }
    assert pods["sees_mib"] == list(here.sees_mib)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a libcuda.so.1 that pretends."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (`cc`) to build a driver that pretends")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parents[1] / "components" / "libcuda.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source], check=True)
    return folder


def test_the_prober_proves_shares_in_processes(driver: Path, tmp_path: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(driver)}
    result = shares.prove(shares.expectation("two shares", 15110, None), tmp_path, environment)
    assert result["verdict"]["proved"] == "two shares"
    assert result["verdict"]["devices"] == 1


def test_the_prober_reports_a_limit_that_nobody_enforces(driver: Path, tmp_path: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(driver)}
    with pytest.raises(FailedError, match="MiB, more than its share"):
        shares.prove(shares.expectation("two shares", 15110, 7680), tmp_path, environment)


def source_tree(folder: Path) -> Path:
    for name in ("tools/server", "ggml", "src"):
        (folder / name).mkdir(parents=True)
    (folder / "CMakeLists.txt").touch()
    return folder


def test_an_archive_is_unpacked_once_and_found_in_a_python_package(tmp_path: Path) -> None:
    inside = source_tree(tmp_path / "llama_cpp_python-0.3.35" / "vendor" / "llama.cpp")
    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(inside.parents[1], "llama_cpp_python-0.3.35")
    found = unpack(archive, tmp_path / "out")
    assert found == tmp_path / "out" / "llama_cpp_python-0.3.35" / "vendor" / "llama.cpp"
    archive.write_bytes(b"")
    assert unpack(archive, tmp_path / "out") == found


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("no archive"), "is not a tar archive"),
        (lambda path: path.mkdir(), "holds no llama.cpp"),
    ],
)
def test_a_wrong_source_is_named(make: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    make(tmp_path / "source")
    with pytest.raises(FailedError, match=said):
        unpack(tmp_path / "source", tmp_path / "out")


def test_the_build_has_ollamas_options_and_code_for_this_gpu(tmp_path: Path) -> None:
    build = Build(Source(tmp_path, "b10454 (4df29be4f)"), tmp_path / "build", "9.0", ("-DX=1",))
    command = configure("cmake", build, tmp_path, "/usr/local/cuda/bin/nvcc")
    # llama/server/CMakePresets.json of Ollama 0.32.15, presets `default` and `llama_cuda_v13_base`.
    ollamas = (
        "CMAKE_BUILD_TYPE=Release BUILD_SHARED_LIBS=ON GGML_BACKEND_DL=ON GGML_NATIVE=OFF GGML_OPENMP=OFF GGML_CUDA=ON"
    )
    assert {f"-D{option}" for option in ollamas.split()} <= set(command)
    assert {"-DCMAKE_CUDA_ARCHITECTURES=90-real", "-DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc"} <= set(command)
    assert {"-DLLAMA_BUILD_NUMBER=10454", "-DLLAMA_BUILD_COMMIT=4df29be4f", "-DX=1"} <= set(command)


def test_a_build_for_the_cpu_asks_for_no_cuda(tmp_path: Path) -> None:
    command = configure("cmake", Build(Source(tmp_path, "unknown"), tmp_path, None), tmp_path, None)
    assert not [word for word in command if "CUDA" in word]
    # It becomes an integer in C++.
    assert "-DLLAMA_BUILD_NUMBER=0" in command


def test_without_cudas_compiler_the_build_is_skipped_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "nvcc" else f"/usr/bin/{name}")
    with pytest.raises(SkipError, match="`nvcc` is neither on PATH nor in"):
        Build(Source(tmp_path, "b10454"), tmp_path / "build", "9.0").run(Clock(480))


def test_old_model_files_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for written, name in enumerate(("a", "b")):
        (tmp_path / f"{name}.gguf").touch()
        os.utime(tmp_path / f"{name}.gguf", (written, written))

    def usage(_: Path) -> SimpleNamespace:
        """4 GiB free with two files, 6 with one, 8 with none."""
        return SimpleNamespace(free=(8 - 2 * len(list(tmp_path.glob("*.gguf")))) * 2**30)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    Files(tmp_path).make_room(2 * 2**30)
    assert [file.name for file in tmp_path.iterdir()] == ["b.gguf"]
    with pytest.raises(FailedError, match="the disk has 6 GiB free; 13 are needed"):
        Files(tmp_path).make_room(10 * 2**30, keep=tmp_path / "b.gguf")
