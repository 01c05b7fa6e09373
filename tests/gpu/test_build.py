"""The build of llama.cpp for the GPU tier: its source, its options, and its outcome."""

import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.__main__ import main
from tests.gpu.build import PARTS, PROGRAMS, UNKNOWN, Build, unpack
from tests.gpu.progress import Clock, FailedError, SkipError, State


def source_tree(folder: Path) -> Path:
    """The files that the guide packs, as in llama.cpp b10454; `tools/ui` runs the script while it builds."""
    for name in ("cmake", "common", "ggml", "include", "licenses", "scripts", "src", "tools/server", "vendor"):
        (folder / name).mkdir(parents=True)
    for name in ("CMakeLists.txt", "scripts/ui-assets.cmake"):
        (folder / name).touch()
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
    # Somebody may have unpacked it already.
    assert unpack(inside.parents[1], tmp_path / "other") == inside


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


def test_an_archive_that_lacks_a_part_is_refused_before_the_build(tmp_path: Path) -> None:
    source = source_tree(tmp_path / "llama.cpp")
    assert unpack(source, tmp_path / "out") == source
    (source / "scripts" / "ui-assets.cmake").unlink()
    with pytest.raises(FailedError, match=r"lacks scripts/ui-assets\.cmake: pack llama\.cpp again"):
        unpack(source, tmp_path / "out")


def test_the_guide_packs_all_files_that_the_build_reads() -> None:
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "run-the-gpu-tier.md"
    [packed] = re.findall(r"tar -C llama\.cpp -cJf \S+ \\\n(.*?)\n *```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert {*PARTS, "tools"} <= set(packed.replace("\\", "").split())


def test_the_build_has_ollamas_options_and_code_for_this_gpu(tmp_path: Path) -> None:
    build = Build(tmp_path, "b10454 (4df29be4f)", tmp_path / "build", "9.0", ("-DX=1",))
    command = build.configure("cmake", tmp_path, "/usr/local/cuda/bin/nvcc")
    # llama/server/CMakePresets.json of Ollama 0.32.15, presets `default` and `llama_cuda_v13_base`.
    ollamas = (
        "CMAKE_BUILD_TYPE=Release BUILD_SHARED_LIBS=ON GGML_BACKEND_DL=ON GGML_NATIVE=OFF GGML_OPENMP=OFF GGML_CUDA=ON"
    )
    assert {f"-D{option}" for option in ollamas.split()} <= set(command)
    # Ollama's images have no NCCL; where a machine has it, llama.cpp would take it (ggml/CMakeLists.txt).
    assert "-DGGML_CUDA_NCCL=OFF" in command
    assert {"-DCMAKE_CUDA_ARCHITECTURES=90-real", "-DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc"} <= set(command)
    assert {"-DLLAMA_BUILD_NUMBER=10454", "-DLLAMA_BUILD_COMMIT=4df29be4f"} <= set(command)
    # Libraries are found beside the programs, whose folder may move; what a person adds comes last, and wins.
    assert "-DCMAKE_BUILD_RPATH=$ORIGIN" in command
    assert command[-1] == "-DX=1"


def test_without_cudas_compiler_the_build_is_skipped_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "nvcc" else f"/usr/bin/{name}")
    with pytest.raises(SkipError, match="`nvcc` is neither on PATH nor in"):
        Build(tmp_path, "b10454", tmp_path / "build", "9.0").run(Clock(480))


SEES_A_GPU = """#!/bin/sh
# As llama-server b10454 answers; it writes its version to standard error.
case $1 in
--version) echo 'version: 0.1.0-dev (build 10454, commit 4df29be4f)' >&2 ;;
*) echo Available devices:; echo '  CUDA0: NVIDIA H200 (143156 MiB, 142600 MiB free)' ;;
esac
"""
SEES_NONE = "#!/bin/sh\necho Available devices:\n"
DOES_NOT_START = "#!/bin/sh\necho 'libcublas.so.13: cannot open shared object file' >&2\nexit 127\n"


def engine(folder: Path, program: str, *, for_another: bool = False) -> Build:
    """An engine that was built elsewhere, whose programs answer like this."""
    for name in PROGRAMS:
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    return Build(None, UNKNOWN, folder / "build", "9.0", elsewhere=folder, for_another=for_another)


def test_an_engine_from_elsewhere_is_taken_as_it_is_and_says_its_release(tmp_path: Path) -> None:
    build = engine(tmp_path, SEES_A_GPU)
    result = build.run(Clock(480))
    assert (build.programs, build.is_there()) == (tmp_path, True)
    assert (result["version"], result["compiler"]) == ("b10454 (4df29be4f)", "built on another machine")
    assert not build.folder.exists()


def test_a_machine_without_a_gpu_accepts_an_engine_for_another(tmp_path: Path) -> None:
    engine(tmp_path, SEES_NONE, for_another=True).run(Clock(480))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (SEES_NONE, "the engine sees no GPU"),
        (DOES_NOT_START, "ended with 127:\nlibcublas.so.13: cannot open"),
        # As one that was built for another processor.
        ("\x7fELF of another machine", "does not start: .*Exec format error"),
    ],
    ids=["sees none", "lacks a library", "another processor"],
)
def test_an_engine_that_would_serve_with_the_cpu_or_not_at_all_is_refused(
    program: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(FailedError, match=said):
        engine(tmp_path, program).run(Clock(480))


def test_half_an_engine_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    engine(tmp_path, SEES_A_GPU)
    (tmp_path / "llama-quantize").unlink()
    assert main(["--dry-run", f"--programs={tmp_path}", f"--folder={tmp_path / 'kept'}"]) == 1
    said = capsys.readouterr().out
    assert f"failed: build: {tmp_path} lacks llama-quantize: name the folder of a whole build" in said
    assert "skipped: memory llama2:7b context 1024 slots 1 kv f16: it needs `build`" in said


def test_an_engine_for_another_machine_needs_a_source(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--build-for", "9.0", f"--folder={tmp_path}"]) == 1
    assert "error: no engine was given: name llama.cpp's source with --llama-cpp" in capsys.readouterr().err


SAME = "b10454 (4df29be4f)"
HERE = {"version": SAME, "options": Build(None, SAME, Path("build"), None)._options()}


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        ({"version": SAME, "options": []}, ""),
        ({"version": "b10488 (aaaaaaaaa)", "options": []}, "elsewhere, but the kept results are of b10488"),
        (HERE, f"the engine is {SAME}, built elsewhere, but the kept results are of {SAME}, built here. Name another"),
    ],
    ids=["same", "another release", "built here"],
)
def test_a_folder_with_the_results_of_another_engine_is_refused_before_anything_changes(
    earlier: dict[str, object], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    engine(tmp_path, SEES_A_GPU)
    kept = State(tmp_path / "kept" / "dry-run" / "state.json", steps={"build": {"result": earlier}})
    kept.path.parent.mkdir(parents=True)
    kept.write()
    # No time: the engine is compared, and no step begins.
    code = main(["--dry-run", f"--programs={tmp_path}", f"--folder={tmp_path / 'kept'}", "--minutes=0"])
    assert code == (2 if said else 0)
    assert said in capsys.readouterr().err
    assert State.read(kept.path).having("result") == {"build": earlier}


def test_an_engine_with_other_options_is_another_one(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="built here with other options, but the kept"):
        Build(tmp_path, SAME, tmp_path, None, ("-DCMAKE_CUDA_ARCHITECTURES=90-virtual",)).check_same(HERE)
    Build(tmp_path, SAME, tmp_path, None).check_same(HERE)
    # Without an engine, the call shows what is kept.
    Build(None, UNKNOWN, tmp_path, None).check_same(HERE)
