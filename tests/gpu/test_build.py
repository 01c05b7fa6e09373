"""The build of llama.cpp for the GPU tier: its source, its options, and its outcome."""

import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.build import PARTS, PROGRAMS, Build, find_tool, unpack
from tests.gpu.progress import Clock, FailedError, SkipError


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
    assert {"-DLLAMA_BUILD_NUMBER=10454", "-DLLAMA_BUILD_COMMIT=4df29be4f", "-DX=1"} <= set(command)


def test_a_build_for_the_cpu_asks_for_no_cuda(tmp_path: Path) -> None:
    command = Build(tmp_path, "unknown", tmp_path, None).configure("cmake", tmp_path, None)
    assert not [word for word in command if "CUDA" in word]
    # It becomes an integer in C++.
    assert "-DLLAMA_BUILD_NUMBER=0" in command


def test_without_cudas_compiler_the_build_is_skipped_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "nvcc" else f"/usr/bin/{name}")
    with pytest.raises(SkipError, match="`nvcc` is neither on PATH nor in"):
        Build(tmp_path, "b10454", tmp_path / "build", "9.0").run(Clock(480))


CMAKE = """#!/bin/sh
# Configures (-B FOLDER) and builds (--build FOLDER): makes programs that answer as the test wants.
echo "$@" >>{log}
[ "$1" = --build ] || exit {configure}
mkdir -p "$2/bin"
for name in {names}; do
    printf '%s' '{program}' >"$2/bin/$name"
    chmod 755 "$2/bin/$name"
done
"""
SEES_A_GPU = "#!/bin/sh\necho Available devices:\necho '  CUDA0: NVIDIA H200 (143156 MiB, 142600 MiB free)'\n"
SEES_NONE = "#!/bin/sh\necho Available devices:\n"
DOES_NOT_START = "#!/bin/sh\necho 'libcublas.so.13: cannot open shared object file' >&2\nexit 127\n"


def machine_with_cmake(monkeypatch: pytest.MonkeyPatch, folder: Path, *, program: str = "", configure: int = 0) -> Path:
    """Fake programs on the PATH; returns the log of `cmake`."""
    bin, log = folder / "path", folder / "cmake.log"
    bin.mkdir(exist_ok=True)
    # The script goes into single quotes.
    quoted = program.replace("'", "'\\''")
    script = CMAKE.format(log=log, configure=configure, names=" ".join(PROGRAMS), program=quoted)
    for name, text in (("cmake", script), ("nvcc", "#!/bin/sh\necho release 13.0\n")):
        (bin / name).write_text(text)
        (bin / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    return log


def built(tmp_path: Path, *, capability: str | None = "9.0", jobs: int | None = None) -> Build:
    source = tmp_path / "source"
    return Build(
        source if source.exists() else source_tree(source), "b10454", tmp_path / "build", capability, jobs=jobs
    )


def test_a_build_that_sees_the_gpu_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log, build = machine_with_cmake(monkeypatch, tmp_path, program=SEES_A_GPU), built(tmp_path, jobs=3)
    assert not build.is_there()
    result = build.run(Clock(480))
    assert build.is_there()
    assert (result["version"], result["compiler"]) == ("b10454", "release 13.0")
    assert "-j 3 --target llama-server llama-quantize" in log.read_text()


@pytest.mark.parametrize(
    ("program", "said"),
    [(SEES_NONE, "the engine sees no GPU"), (DOES_NOT_START, "ended with 127:\nlibcublas.so.13: cannot open")],
    ids=["sees none", "does not start"],
)
def test_an_engine_that_would_serve_with_the_cpu_fails_the_build(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine_with_cmake(monkeypatch, tmp_path, program=program)
    with pytest.raises(FailedError, match=said):
        built(tmp_path).run(Clock(480))


def test_a_dry_run_needs_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine_with_cmake(monkeypatch, tmp_path, program=SEES_NONE)
    assert built(tmp_path, capability=None).run(Clock(480))["compiler"] == "none: built for the CPU"


def test_a_configuration_that_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log, build = machine_with_cmake(monkeypatch, tmp_path, configure=1), built(tmp_path)
    build.folder.mkdir()
    # CMake writes it before it fails.
    (build.folder / "CMakeCache.txt").touch()
    for _ in range(2):
        with pytest.raises(FailedError, match="`cmake` ended with 1"):
            build.run(Clock(480))
    assert len(log.read_text().splitlines()) == 2


def test_a_tool_is_found_on_the_path_or_beside_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(SkipError, match="CMake is missing: `cmake` is neither on PATH nor in "):
        find_tool("cmake", "CMake", str(tmp_path))
    program = tmp_path / "cmake"
    program.touch(0o755)
    assert find_tool("cmake", "CMake", str(tmp_path)) == str(program)
