"""The engine: llama.cpp, built from a given folder or archive with Ollama's build options, here or elsewhere.

The source is not part of this project. Nothing is downloaded: the machine may have no network.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.machine import memory_gib
from tests.gpu.progress import Clock, FailedError, Result, SkipError, UnfinishedError

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
MOVABLE = ("-DCMAKE_BUILD_RPATH=$ORIGIN", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON")
"""Programs find libraries beside themselves, so the folder may move to another machine."""
CUDA_OPTIONS = {
    "GGML_CUDA": "ON",
    # On by default if the library is found. Ollama's images do not have it.
    "GGML_CUDA_NCCL": "OFF",
}
PARTS = ("CMakeLists.txt", "cmake", "common", "ggml", "include", "licenses", "scripts/ui-assets.cmake", "src", "vendor")
"""Files that the build reads besides `tools`: docs/how-to/run-the-gpu-tier.md packs it."""
PROGRAMS = ("llama-server", "llama-quantize")
"""Ollama starts the first for every model, and the second when it makes a model from a file."""
GIB_PER_JOB = 4
"""Memory of one CUDA compiler at its largest file, generously."""
VERSION = re.compile(r"build (?P<number>\d+), commit (?P<commit>\w+)")
"""In `version: 0.1.0-dev (build 10454, commit 4df29be4f)`, the answer to `--version`. Source: build-info.cpp.in."""
UNKNOWN = "unknown"
"""The version of an engine whose release was not given."""
RESERVED_SECONDS = 15
"""Seconds of a call's time that an interrupted build leaves, so that the state can be written."""
TRY_SECONDS = 60


@dataclass(frozen=True)
class Build:
    """A build: its source, its folder, and its GPU."""

    source: Path | None
    """A folder, or a tar archive of one."""
    version: str
    """Its release, e.g. `b10454 (4df29be4f)`."""
    folder: Path
    compute_capability: str | None
    """E.g. `9.0`; None for a build without CUDA."""
    extra: Sequence[str] = ()
    """More options of cmake."""
    jobs: int | None = None
    """Compilers at a time; by default as many as cores and memory allow."""
    elsewhere: Path | None = None
    """Folder with programs that were built before. Then nothing is built here."""
    for_another: bool = False
    """Whether another machine will run it, so that this one needs no GPU."""

    @property
    def programs(self) -> Path:
        """Folder with the programs and their libraries."""
        return self.elsewhere or self.folder / "bin"

    def run(self, clock: Clock) -> Result:
        """Configures and builds, or continues where the last call stopped. An engine from elsewhere is only tried."""
        if self.elsewhere:
            if missing := [name for name in PROGRAMS if not (self.programs / name).exists()]:
                raise FailedError(f"{self.programs} lacks {' and '.join(missing)}: name the folder of a whole build")
            self._try()
            return {"version": self._built(), "pinned": PINNED, "options": [], "compiler": "built on another machine"}
        if self.source is None:
            raise SkipError("no engine was given: name llama.cpp's source with --llama-cpp, or a build with --programs")
        # Python's package of CMake puts the program beside Python.
        cmake = find_tool("cmake", "CMake", str(Path(sys.executable).parent))
        home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        compiler = find_tool("nvcc", "CUDA's compiler", f"{home}/bin") if self.compute_capability else None
        unpacked = unpack(self.source, self.folder.parent / "llama.cpp")
        # In every call: options may have changed, and a stopped configuration is incomplete.
        _run(self.configure(cmake, unpacked, compiler), clock)
        jobs = self.jobs or max(1, min(len(os.sched_getaffinity(0)), memory_gib() // GIB_PER_JOB))
        _run([cmake, "--build", str(self.folder), "-j", str(jobs), "--target", *PROGRAMS], clock)
        self._try()
        return {
            "version": self.version,
            "pinned": PINNED,
            "options": self._options(),
            "compiler": _version(compiler) if compiler else "none: built for the CPU",
        }

    def check_same(self, earlier: Result) -> None:
        """Raises `FailedError` if the results that a folder has are of another engine than this one.

        One report would then give the measurements of two engines as those of one.
        """
        if not (self.elsewhere or self.source):
            return
        now = (self._built(), []) if self.elsewhere else (self.version, self._options())
        before = (earlier["version"], earlier["options"])
        if now != before:
            here, kept = (
                f"{version}, built {'here' if options else 'elsewhere'}" for version, options in (now, before)
            )
            other = " with other options" if here == kept else ""
            raise FailedError(
                f"the engine is {here}{other}, but the kept results are of {kept}. Name another folder with --folder"
            )

    def is_there(self) -> bool:
        """Whether the programs exist."""
        return all((self.programs / name).exists() for name in PROGRAMS)

    def configure(self, cmake: str, source: Path, compiler: str | None) -> list[str]:
        """The command that prepares the build."""
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        # Otherwise llama.cpp asks git, which answers for the repository around the source.
        number, _, commit = self.version.removeprefix("b").partition(" ")
        named = [
            f"-DLLAMA_BUILD_NUMBER={number if number.isdecimal() else 0}",
            f"-DLLAMA_BUILD_COMMIT={commit.strip('()') or 'unknown'}",
        ]
        chosen = [f"-DCMAKE_CUDA_COMPILER={compiler}"] if compiler else []
        return [cmake, "-S", str(source), "-B", str(self.folder), *ninja, *MOVABLE, *named, *chosen, *self._options()]

    def _options(self) -> list[str]:
        options = dict(OPTIONS)
        if self.compute_capability:
            # Ollama ships PTX for every architecture, which the driver compiles at the first start. Machine code for
            # this GPU alone has the same result, and takes a tenth of the time to build.
            options |= CUDA_OPTIONS
            options["CMAKE_CUDA_ARCHITECTURES"] = f"{self.compute_capability.replace('.', '')}-real"
        return [*(f"-D{name}={value}" for name, value in options.items()), *self.extra]

    def _try(self) -> None:
        """Raises `FailedError` for a server that does not start, or sees no GPU: it would serve with the CPU."""
        said = self._ask("--list-devices")
        if self.compute_capability and not self.for_another and "CUDA0:" not in said:
            raise FailedError(f"the engine sees no GPU:\n{_tail(said)}")

    def _built(self) -> str:
        """Its release: the given one, or its own answer, which has 0 or 1 if it was built without a number."""
        found = VERSION.search(self._ask("--version"))
        return f"b{found['number']} ({found['commit']})" if found and self.version == UNKNOWN else self.version

    def _ask(self, option: str) -> str:
        words = f"`llama-server {option}`"
        command = [str(self.programs / "llama-server"), option]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TRY_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise FailedError(f"{words} did not end within {TRY_SECONDS} s") from None
        except OSError as error:
            raise FailedError(f"{words} does not start: {error}") from None
        if done.returncode:
            raise FailedError(f"{words} ended with {done.returncode}:\n{_tail(done.stdout + done.stderr)}")
        return done.stdout + done.stderr


def unpack(path: Path, folder: Path) -> Path:
    """The folder with llama.cpp's CMakeLists.txt; an archive is unpacked into `folder` once."""
    if not path.exists():
        raise FailedError(f"{path} does not exist: name a folder or an archive with --llama-cpp")
    if path.is_file() and not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with tarfile.open(path) as archive:
                # Python 3.11 before 3.11.4 has no filter.
                archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                archive.extractall(partial)
        except tarfile.TarError as error:
            raise FailedError(f"{path} is not a tar archive: {error}") from None
        partial.rename(folder)
    found = folder if path.is_file() else path
    within = (match for pattern in ("*/", "vendor/llama.cpp/", "*/vendor/llama.cpp/") for match in found.glob(pattern))
    for candidate in (found, *within):
        if (candidate / "tools" / "server").is_dir():
            if missing := [part for part in PARTS if not (candidate / part).exists()]:
                raise FailedError(f"{path} lacks {', '.join(missing)}: pack llama.cpp again with these parts")
            return candidate
    raise FailedError(f"{path} holds no llama.cpp: there is no folder with tools/server in it")


def find_tool(name: str, title: str, beside: str) -> str:
    """The program on PATH or in one more folder. Raises `SkipError`."""
    found = shutil.which(name) or shutil.which(name, path=beside)
    if found is None:
        raise SkipError(f"{title} is missing: `{name}` is neither on PATH nor in {beside}")
    return found


def _run(command: list[str], clock: Clock) -> None:
    """Runs it in its own process group, which ends with the time of this call."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )
    try:
        output, _ = process.communicate(timeout=max(1.0, clock.left - RESERVED_SECONDS))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise UnfinishedError from None
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        raise
    if process.returncode:
        raise FailedError(
            f"`{Path(command[0]).name}` ended with {process.returncode}:\n{_tail(output.decode(errors='replace'))}"
        )


def _tail(said: str, lines: int = 25) -> str:
    return "\n".join(said.splitlines()[-lines:])


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return next((line.strip() for line in done.stdout.splitlines() if "release" in line), "unknown")
