"""An MPS daemon that ends under a model: what it leaves, and what the hook of the model's container does about it.

Nothing here needs an engine: the server is a process with a CUDA context, and `ollama` a stand-in that says that the
model is loaded. The hook is `components/ollama_pair/model_start.sh` as it is.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.engine import end
from tests.gpu.mps import SECONDS, find_control, mps_daemon
from tests.gpu.progress import FailedError, Result, SkipError, Step

ROOT = Path(__file__).resolve().parents[2] / "components"
HOOK = ROOT / "ollama_pair" / "model_start.sh"
CLIENT = (
    sys.executable,
    "-Bc",
    "import time; from in_pod.cuda import Share; print(Share().look().info_free_mib, flush=True); time.sleep(600)",
)
"""A process with a CUDA context that prints the memory, in MiB, that is free for it."""
OLLAMA = """#!/bin/sh
[ "$1" != ps ] || printf 'NAME ID SIZE PROCESSOR\\nmodel 1 1 GB 100%% GPU\\n'
"""
SHARES = 2
STAYS_SECONDS, STOPS_SECONDS = 6, 90
"""How long a server that must stay is watched, and how soon another must end: after the hook's next question."""


def restart_step(gpu: Result | None) -> Step:
    """The step for this GPU, which needs no build."""

    def run(_: object) -> Result:
        if gpu is None:
            raise SkipError("a dry run has no GPU")
        return restart_daemon(gpu["total_mib"], CLIENT)

    return Step("restarts mps", "MPS daemons that end under a model", 100, run)


@dataclass(frozen=True)
class Node:
    """The daemon's program and its clients' variables."""

    program: Path
    clients: Mapping[str, str]
    total_mib: int
    client: Sequence[str]

    @property
    def pipe(self) -> Path:
        return Path(self.clients["CUDA_MPS_PIPE_DIRECTORY"])

    @property
    def environment(self) -> dict[str, str]:
        """Also for the hook, which asks the daemon with the same program."""
        path = os.pathsep.join((str(self.program.parent), os.environ.get("PATH", os.defpath)))
        return {**os.environ, **self.clients, "PATH": path}

    def tell(self, *arguments: str, order: str = "") -> str:
        """Starts the daemon or gives it an order; returns what it says. Raises `FailedError`."""
        done = subprocess.run(
            [str(self.program), *arguments],
            input=order and f"{order}\n",
            env=self.environment,
            stdout=subprocess.DEVNULL if arguments else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise FailedError(f"the MPS daemon ended `{' '.join(arguments) or order}` with {done.returncode}")
        return done.stdout or ""

    def quit(self) -> None:
        """As the plugin does: without a time limit, so that the daemon waits for its clients."""
        with tempfile.TemporaryFile("w+") as order:
            order.write("quit\n")
            order.seek(0)
            silent = subprocess.DEVNULL
            subprocess.Popen([str(self.program)], env=self.environment, stdin=order, stdout=silent, stderr=silent)

    def start_again(self) -> None:
        self.tell("-d")
        self.tell(order=f"set_default_device_pinned_mem_limit 0 {self.total_mib // SHARES}M")

    def servers(self) -> list[int]:
        """The process IDs of its MPS servers."""
        return [int(word) for word in self.tell(order="get_server_list").split() if word.isdigit()]

    def new_process(self) -> str:
        """The memory that is free for a new process, or why it gets no context."""
        try:
            with self.running() as (_, free):
                return f"{free:,} MiB"
        except FailedError as error:
            return str(error)

    def kill_servers(self) -> None:
        for server in self.servers():
            os.kill(server, signal.SIGKILL)

    def kill(self) -> None:
        """Kills the daemon. Its servers would keep their clients in MPS, and nothing would end them later."""
        servers = self.servers()
        for process in (int((self.pipe / "nvidia-cuda-mps-control.pid").read_text()), *servers):
            os.kill(process, signal.SIGKILL)

    @contextmanager
    def running(self) -> Iterator[tuple["subprocess.Popen[str]", int]]:
        """A process that uses the GPU, and the memory that was free for it."""
        process = subprocess.Popen(
            self.client,
            cwd=ROOT / "share_proof",
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            assert process.stdout
            assert process.stderr
            line = process.stdout.readline()
            if not line.strip().isdigit():
                raise FailedError(f"a process got no CUDA context: {process.stderr.read().strip()[-300:]}")
            yield process, int(line)
        finally:
            end(process)  # type: ignore[arg-type]

    def files(self) -> list[str]:
        return sorted(file.name for file in self.pipe.iterdir())


def restart_daemon(total_mib: int, client: Sequence[str]) -> Result:
    """Ends the server, then the daemon in two ways. Raises `FailedError` where the hook does not do what it must."""
    with mps_daemon(total_mib, SHARES) as clients:
        node = Node(find_control(), clients, total_mib, client)
        ends: dict[str, Callable[[], object]] = {
            "server killed": node.kill_servers,
            "daemon quit": node.quit,
            "daemon killed": node.kill,
        }
        return {name: _end_under_a_model(node, name, how) for name, how in ends.items()}


def _end_under_a_model(node: Node, name: str, how: Callable[[], object]) -> Result:
    with tempfile.TemporaryDirectory(prefix="pod-") as folder, node.running() as (server, limited):
        pod, files = Path(folder), node.files()
        _start_model(node, pod, server.pid)
        begun = time.monotonic()
        how()
        if name == "server killed":
            time.sleep(STAYS_SECONDS)
            if (pod / "message").read_text():
                raise FailedError(f"after `{name}`, the hook stopped a model that is not outside MPS")
            return {"free_mib": limited, "files": files, "new_process": node.new_process()}
        try:
            server.wait(STOPS_SECONDS)
        except subprocess.TimeoutExpired:
            raise FailedError(f"after `{name}`, the hook let the server run for {STOPS_SECONDS} s") from None
        found: Result = {"free_mib": limited, "files": files, "stopped_s": round(time.monotonic() - begun, 1)}
        found |= {"message": (pod / "message").read_text().strip(), "files_after": node.files()}
    # What a client would get now, if the hook had not stopped the server.
    found["without_daemon"] = node.new_process()
    node.start_again()
    return {**found, "with_a_new_daemon": node.new_process()}


def _start_model(node: Node, pod: Path, server: int) -> None:
    """Runs the hook as kubelet does. Raises `FailedError`."""
    (pod / "bin").mkdir()
    (pod / "bin" / "ollama").write_text(OLLAMA)
    (pod / "bin" / "ollama").chmod(0o755)
    (pod / "message").touch()
    own = {
        "PATH": f"{pod / 'bin'}{os.pathsep}{node.environment['PATH']}",
        "WATCH_DIRECTORY": str(pod),
        "TERMINATION_LOG": str(pod / "message"),
        "CONTAINER_LOG": str(pod / "log"),
        "SERVER_PID": str(server),
    }
    command = ["/bin/sh", "-c", HOOK.read_text(encoding="utf-8"), "model_start", "model", "999", "512"]
    done = subprocess.run(
        command, env={**node.environment, **own}, stdin=subprocess.DEVNULL, timeout=STOPS_SECONDS, check=False
    )
    if done.returncode:
        raise FailedError(f"the hook did not load the model: {(pod / 'message').read_text().strip()}")


def describe_restarts(found: Mapping[str, Result]) -> Iterator[str]:
    """The report's section, of the step's result."""
    for result in found.values():
        yield "\n## MPS daemons that end under a model\n"
        yield "The model's process had {:,} MiB. MiB are those that are free for a new process.\n".format(
            result["server killed"]["free_mib"]
        )
        yield f"- server killed: the model stays. {result['server killed']['new_process']}."
        for name in ("daemon quit", "daemon killed"):
            one = result[name]
            yield (
                f"- {name}: the hook stopped the model after {one['stopped_s']:g} s. Without a daemon: "
                f"{one['without_daemon']}. With a new one: {one['with_a_new_daemon']}. "
                f"The daemon left {', '.join(one['files_after'])}."
            )
