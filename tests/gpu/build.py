"""The engine: llama.cpp, built from its source with Ollama's build options.

docs/how-to/build-the-engine-for-a-gpu.md explains it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.machine import memory_gib
from tests.gpu.progress import FailedError, Result

PINNED = "b10488"
"""The llama.cpp of Ollama 0.32.15, which sharing/versions.py pins. Source: LLAMA_CPP_VERSION of that tag."""
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "ON",
    "GGML_BACKEND_DL": "ON",
    "GGML_NATIVE": "OFF",
    "GGML_OPENMP": "OFF",
    "LLAMA_BUILD_APP": "OFF",
    "LLAMA_BUILD_COMMON": "ON",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_SERVER": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_TOOLS": "ON",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_SUBPROCESS": "OFF",
    "LLAMA_TOOLS_INSTALL": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
"""Source: ollama 0.32.15, llama/server/CMakePresets.json (`default`) and llama/server/CMakeLists.txt."""
MOVABLE = {"CMAKE_BUILD_RPATH": "$ORIGIN", "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON"}
"""Programs find libraries beside themselves, so the folder may move to another machine."""
CUDA_OPTIONS = {
    "GGML_CUDA": "ON",
    # On by default if the library is found. Ollama's images do not have it.
    "GGML_CUDA_NCCL": "OFF",
}
PROGRAMS = ("llama-server", "llama-quantize")
"""Ollama starts the first for every model, and the second when it makes a model from a file."""
GIB_PER_JOB = 4
"""Memory of one CUDA compiler at its largest file, generously."""
VERSION = re.compile(r"build (?P<number>\d+), commit (?P<commit>\w+)")
"""In `version: 0.1.0-dev (build 10454, commit 4df29be4f)`, the answer to `--version`. Source: build-info.cpp.in."""
TRY_SECONDS = 60


def main(arguments: list[str]) -> int:
    """Builds the engine; the same command continues a build that was stopped."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.build", description="Builds the engine of the GPU tier.")
    parser.add_argument("source", type=Path, help="folder with the source of llama.cpp")
    parser.add_argument("folder", type=Path, help="folder of the build; the programs are in its `bin`")
    parser.add_argument("--release", default="b0", help="of the source, e.g. `b10454` or `b10454 (4df29be4f)`")
    parser.add_argument("--gpu", metavar="CAPABILITY", help="compute capability, e.g. 9.0; without it, for the CPU")
    parser.add_argument("--cmake", action="append", default=[], metavar="OPTION", help="one more option of cmake")
    given = parser.parse_args(arguments)
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = [*(f"-D{key}={value}" for key, value in options_of(given.release, given.gpu).items()), *given.cmake]
    jobs = max(1, min(len(os.sched_getaffinity(0)), memory_gib() // GIB_PER_JOB))
    for command in (
        ["cmake", "-S", given.source, "-B", given.folder, *ninja, *options],
        ["cmake", "--build", given.folder, "-j", str(jobs), "--target", *PROGRAMS],
    ):
        if code := subprocess.run(command).returncode:
            return code
    print(f"Built {given.folder / 'bin'}: name it with --programs.")
    return 0


def options_of(release: str, gpu: str | None) -> dict[str, str]:
    """The options of cmake for a release of llama.cpp and a compute capability."""
    # Otherwise llama.cpp asks git, which answers for the repository around the source.
    number, _, commit = release.removeprefix("b").partition(" ")
    named = {"LLAMA_BUILD_NUMBER": number, "LLAMA_BUILD_COMMIT": commit.strip("()") or "unknown"}
    options = {**OPTIONS, **MOVABLE, **named}
    if gpu:
        # Ollama ships PTX for every architecture, which the driver compiles at the first start. Machine code for one
        # GPU has the same result, and takes a tenth of the time to build.
        options |= {**CUDA_OPTIONS, "CMAKE_CUDA_ARCHITECTURES": f"{gpu.replace('.', '')}-real"}
    return options


def read_engine(programs: Path, *, has_gpu: bool) -> Result:
    """The release of a built engine. Raises `FailedError` for one that does not start, or that sees no GPU."""
    if missing := [name for name in PROGRAMS if not (programs / name).exists()]:
        raise FailedError(f"{programs} lacks {' and '.join(missing)}: name the folder of a whole build")
    said = _ask(programs, "--list-devices")
    if has_gpu and "CUDA0:" not in said:
        # It would serve with the CPU.
        raise FailedError(f"the engine sees no GPU:\n{said}")
    found = VERSION.search(_ask(programs, "--version"))
    return {"version": f"b{found['number']} ({found['commit']})" if found else "unknown", "pinned": PINNED}


def _ask(programs: Path, option: str) -> str:
    command: Sequence[str] = [str(programs / "llama-server"), option]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRY_SECONDS, check=False)
    except (subprocess.TimeoutExpired, OSError) as error:
        raise FailedError(f"`llama-server {option}` does not work: {error}") from None
    said = done.stdout + done.stderr
    if done.returncode:
        raise FailedError(f"`llama-server {option}` ended with {done.returncode}:\n{said[-2000:]}")
    return said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
