"""Two Ollama servers on one GPU, measured with `tandem bench`: each model alone, then both, as two pods of a stack.

The `ollama` program is given; it needs no GPU code of its own, since it starts the llama-server that this tier built.
Without it nothing is measured here: an adapter in front of llama-server would measure the adapter.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sharing.models.ollama import ALL_LAYERS, server_environment
from tests.gpu.engine import Served, Server, free_port, serving, wait_until_ready
from tests.gpu.limited_servers import gpu_of_rules, limits_of
from tests.gpu.machine import Machine
from tests.gpu.memory import START_SECONDS, Files
from tests.gpu.mps import mps_daemon
from tests.gpu.node_daemon import node_daemon
from tests.gpu.progress import Clock, FailedError, Result, SkipError
from tests.gpu.shapes import Shape

ROOT = Path(__file__).resolve().parents[2]
CONTEXT, SLOTS = 2048, 8
MPS_THREADS = {"mps": None, "mps-100": 100}
"""Percent of the GPU's threads for each model under MPS. None is the plugin's way: its part of them."""
OWN_THREADS = {"per-model-100": 1.0, "per-model-50": 0.5}
"""Part of the GPU's threads for each model where each has limits of its own, under the node's MPS daemon."""
CREATE_SECONDS, BENCH_SECONDS = 180, 420
NEEDED = ("httpcore", "httpx", "pydantic", "rich")
"""Packages that `tandem bench` imports."""


@dataclass(frozen=True)
class Pair:
    """The two servers' programs and folders."""

    ollama: Path | None
    programs: Path
    """Folder with llama-server and its libraries."""
    folder: Path
    logs: Path
    files: Files
    machine: Machine
    packages: Path | None
    """A folder with Python packages that this machine lacks."""
    load: Sequence[str]
    """Arguments of `tandem bench`."""

    def run(self, name: str, shapes: Sequence[Shape], total_mib: int, clock: Clock) -> Result:
        """Measures under a mode of plan.py; the rest of the name only tells runs apart.

        `tandem bench` keeps the model that finishes first under load until the other one has finished, too.
        """
        mode = name.partition(" ")[0]
        if self.ollama is None:
            raise SkipError("no `ollama` program was given: name one with --ollama")
        python = self._environment()
        with ExitStack() as opened:
            clients: list[Mapping[str, str]] = [{} for _ in shapes]
            limits = None
            if mode in MPS_THREADS:
                clients = [opened.enter_context(mps_daemon(total_mib, len(shapes), MPS_THREADS[mode]))] * len(shapes)
            elif mode in OWN_THREADS:
                limits = limits_of([_served(shape) for shape in shapes], gpu_of_rules(self.machine))
                daemon = opened.enter_context(node_daemon())
                clients = [daemon.client(limit, OWN_THREADS[mode]) for limit in limits]
            program = self._lay_out(self.ollama)
            out = self.folder / f"bench-{name}.json".replace(" ", "-")
            out.unlink(missing_ok=True)
            command = [sys.executable, "-m", "tandem", "bench", *self.load, "--label", mode, "-o", str(out), "--json"]
            for shape, own in zip(shapes, clients, strict=True):
                log = self.logs / f"pair-{name}-{shape.model.name}.log".replace(" ", "-").replace(":", "-")
                server = opened.enter_context(self._serving(program, shape, own, log))
                id = shape.model.name.partition(":")[0]
                command += ["--url", f"{id}={server.url}", "--model", f"{id}={shape.model.name}"]
            done = _run(command, python, min(BENCH_SECONDS, clock.left), check=False)
            processes, used = self.machine.processes(), self.machine.used_mib()
        try:
            # It ends with 1 if single requests failed, and names them: the others still count.
            summary = json.loads(done.stdout)
        except ValueError:
            said = (done.stdout + done.stderr).strip()[-800:]
            raise FailedError(f"`tandem bench` ended with {done.returncode}: {said}") from None
        if "figures" not in summary:
            raise FailedError(f"`tandem bench` measured nothing: {summary.get('error')}")
        summary.pop("result", None)
        return {
            "mode": mode,
            "command": ["tandem", "bench", *self.load],
            "models": [asdict(shape.model) for shape in shapes],
            "context": CONTEXT,
            "slots": SLOTS,
            "limits_mib": limits,
            "summary": summary,
            "gpu_mib": used,
            # Their ids have no meaning later.
            "processes": [{key: process[key] for key in ("program", "mib")} for process in processes],
        }

    def _environment(self) -> dict[str, str]:
        """For `tandem bench`. Raises `SkipError` where this Python lacks a package."""
        path = os.pathsep.join(str(part) for part in (ROOT, self.packages) if part)
        environment = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
        done = _run([sys.executable, "-c", f"import {', '.join(NEEDED)}"], environment, 60, check=False)
        if done.returncode:
            words = done.stderr.strip().splitlines()[-1]
            raise SkipError(f"`tandem bench` cannot run on this Python: {words}. Name a folder with it: --packages")
        return environment

    def _lay_out(self, ollama: Path) -> Path:
        """Puts the program beside the engine that it looks for in `../lib/ollama`, GPU libraries in a folder of it."""
        program, engines = self.folder / "bin" / "ollama", self.folder / "lib" / "ollama"
        # No links for the program: it resolves them to find its own folder.
        place_file(ollama, program, shutil.copy)
        for file in self.programs.iterdir():
            place_file(file, engines / ("cuda_v13" if "cuda" in file.name else "") / file.name, os.symlink)
        return program

    @contextmanager
    def _serving(self, program: Path, shape: Shape, clients: Mapping[str, str], log: Path) -> Iterator[Server]:
        """A server with its model loaded, as `components/ollama_pair/model_start.sh` starts one."""
        port = free_port()
        served = _served(shape)
        environment = {
            "HOME": str(self.folder),
            "OLLAMA_HOST": f"127.0.0.1:{port}",
            "OLLAMA_MODELS": str(self.folder / "models"),
            "OLLAMA_NO_CLOUD": "1",
            **server_environment(served),
            **clients,
        }
        with serving([str(program), "serve"], port, log, environment) as server:
            wait_until_ready(server, "/api/version", START_SECONDS)
            held = server.ask("/api/tags", timeout=START_SECONDS).get("models") or []
            if shape.model.name not in {model["name"] for model in held}:
                recipe, file = self.folder / "Modelfile", self.files.path(shape)
                # Ollama copies the file twice before it removes one of the copies.
                self.files.make_room(2 * shape.size, keep=file)
                batch = served.effective_batch
                lines = [f"FROM {file}", f"PARAMETER num_gpu {ALL_LAYERS}", f"PARAMETER num_batch {batch}", ""]
                recipe.write_text("\n".join(lines), encoding="utf-8")
                create = [str(program), "create", shape.model.name, "-f", str(recipe)]
                _run(create, {**os.environ, **environment}, CREATE_SECONDS)
            server.ask("/api/generate", {"model": shape.model.name, "stream": False}, timeout=START_SECONDS)
            yield server


def _served(shape: Shape) -> Served:
    return Served(model=shape.model, context=CONTEXT, slots=SLOTS)


def place_file(source: Path, place: Path, put: Callable[[Path, Path], object]) -> None:
    """Puts it there under another name first: an earlier call may have left half a file, or a broken link."""
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f"{place.name}.partial")
    partial.unlink(missing_ok=True)
    put(source, partial)
    partial.replace(place)


def _run(
    command: list[str], environment: Mapping[str, str], seconds: float, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    words = " ".join(Path(word).name for word in command[:4])
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=max(1.0, seconds),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"`{words}` did not end within {seconds:.0f} s") from None
    if check and done.returncode:
        raise FailedError(f"`{words}` ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
    return done
