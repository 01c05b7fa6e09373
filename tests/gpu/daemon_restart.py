"""An MPS daemon that ends under a model: what it leaves, and what the hook of the model's container does about it.

The daemon is the device plugin's, or that of the node, which systemd keeps. Nothing here needs an engine: the server is
a process with a CUDA context, and `ollama` a stand-in that says that the model is loaded. The hook is
`components/ollama_pair/model_start.sh` as it is.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.gpu.engine import end
from tests.gpu.mps import SECONDS, find_control, mps_daemon
from tests.gpu.mps_client import command
from tests.gpu.node_daemon import PID_FILE, describe_files, node_daemon
from tests.gpu.progress import FailedError, Result

HOOK = Path(__file__).resolve().parents[2] / "components" / "ollama_pair" / "model_start.sh"
OLLAMA = """#!/bin/sh
[ "$1" != ps ] || printf 'NAME ID SIZE PROCESSOR\\nmodel 1 1 GB 100%% GPU\\n'
"""
SHARES = 2
STAYS_SECONDS, STOPS_SECONDS = 6, 90
"""How long a server that must stay is watched, and how soon another must end: after the hook's next question."""


class Daemon(Protocol):
    """An MPS daemon of either kind."""

    @property
    def environment(self) -> Mapping[str, str]:
        """For the hook, which asks the daemon."""

    def ends(self) -> Mapping[str, Callable[[], None]]:
        """The ways in which it can end. After `server killed`, the model must stay; after all others, it must not."""

    def start_again(self) -> None:
        """As the one who keeps it does, unless it runs."""

    def files(self) -> Mapping[str, str]:
        """What is in its directory."""


@dataclass(frozen=True)
class PluginDaemon:
    """The daemon that the device plugin starts, with a default limit for all clients."""

    program: Path
    clients: Mapping[str, str]
    total_mib: int

    @property
    def pipe(self) -> Path:
        return Path(self.clients["CUDA_MPS_PIPE_DIRECTORY"])

    @property
    def environment(self) -> dict[str, str]:
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

    def ends(self) -> dict[str, Callable[[], None]]:
        return {"server killed": self.kill_servers, "daemon quit": self.quit, "daemon killed": self.kill}

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

    def kill_servers(self) -> None:
        for server in self.servers():
            os.kill(server, signal.SIGKILL)

    def kill(self) -> None:
        """Kills the daemon. Its servers would keep their clients in MPS, and nothing would end them later."""
        servers = self.servers()
        for process in (int((self.pipe / PID_FILE).read_text()), *servers):
            os.kill(process, signal.SIGKILL)

    def files(self) -> dict[str, str]:
        return describe_files(self.pipe)


def restart_plugin_daemon(total_mib: int) -> Result:
    """Ends the server, then the daemon in two ways. Raises `FailedError` where the hook does not do what it must."""
    with mps_daemon(total_mib, SHARES) as clients:
        return _end_in_all_ways(PluginDaemon(find_control(), clients, total_mib), clients, {})


def restart_node_daemon(limit_mib: int) -> Result:
    """The same with the node's daemon, which systemd starts again. The model has a limit of its own."""
    with node_daemon() as daemon:
        return _end_in_all_ways(daemon, daemon.client(limit_mib), {"TANDEM_MPS": "node"})


def _end_in_all_ways(daemon: Daemon, client: Mapping[str, str], hook: Mapping[str, str]) -> Result:
    return {name: _end_under_a_model(daemon, client, hook, name, how) for name, how in daemon.ends().items()}


def _end_under_a_model(
    daemon: Daemon, client: Mapping[str, str], hook: Mapping[str, str], name: str, how: Callable[[], None]
) -> Result:
    with tempfile.TemporaryDirectory(prefix="pod-") as folder, _running(client) as server:
        pod, files = Path(folder), dict(daemon.files())
        _start_model({**daemon.environment, **client, **hook}, pod, server.process.pid)
        calls, begun = len(server.lines()), time.monotonic()
        how()
        found: Result = {"free_mib": server.free_mib, "files": files, "end_s": round(time.monotonic() - begun, 1)}
        if name == "server killed":
            time.sleep(STAYS_SECONDS)
            if (pod / "message").read_text():
                raise FailedError(f"after `{name}`, the hook stopped a model that is not outside MPS")
            return {**found, "meanwhile": server.since(calls), "new_process": new_process(client)}
        try:
            server.process.wait(STOPS_SECONDS)
        except subprocess.TimeoutExpired:
            raise FailedError(f"after `{name}`, the hook let the server run for {STOPS_SECONDS} s") from None
        found |= {"stopped_s": round(time.monotonic() - begun, 1), "meanwhile": server.since(calls)}
        found |= {"message": (pod / "message").read_text().strip(), "files_after": dict(daemon.files())}
    if name == "daemon restarted":
        return {**found, "with_a_new_daemon": new_process(client)}
    # What a client would get now, if the hook had not stopped the server.
    found["without_daemon"] = new_process(client)
    daemon.start_again()
    return {**found, "with_a_new_daemon": new_process(client)}


def new_process(client: Mapping[str, str]) -> str:
    """The memory that is free for a new process, or why it gets no context."""
    try:
        with _running(client) as process:
            return f"{process.free_mib:,} MiB"
    except FailedError as error:
        return str(error)


@dataclass(frozen=True)
class _Watching:
    """A process that says again and again how much memory is free for it, until a call fails."""

    process: "subprocess.Popen[bytes]"
    said: Path

    def lines(self) -> list[str]:
        return self.said.read_text(encoding="utf-8").splitlines()

    @property
    def free_mib(self) -> int:
        """At first."""
        return int(self.lines()[0])

    def since(self, calls: int) -> str:
        """What became of its calls since then."""
        later = self.lines()[calls:]
        failed = [line for line in later if not line.isdigit()]
        # One call may have begun before.
        return failed[0] if failed else "its calls succeeded" if len(later) > 1 else "no call ended"


@contextmanager
def _running(client: Mapping[str, str]) -> Iterator[_Watching]:
    """A process that uses the GPU. Raises `FailedError` if it gets no context."""
    with tempfile.TemporaryDirectory(prefix="client-") as folder:
        said = Path(folder) / "said"
        with said.open("wb") as out:
            process = subprocess.Popen(
                command("watch"), env={**os.environ, **client}, stdout=out, stderr=subprocess.STDOUT, process_group=0
            )
        try:
            watching, until = _Watching(process, said), time.monotonic() + SECONDS
            while not watching.lines() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            first = next(iter(watching.lines()), "it said nothing")
            if not first.isdigit():
                raise FailedError(f"a process got no CUDA context: {first[-300:]}")
            yield watching
        finally:
            end(process)


def _start_model(environment: Mapping[str, str], pod: Path, server: int) -> None:
    """Runs the hook as kubelet does. Raises `FailedError`."""
    (pod / "bin").mkdir()
    (pod / "bin" / "ollama").write_text(OLLAMA)
    (pod / "bin" / "ollama").chmod(0o755)
    (pod / "message").touch()
    own = {
        "PATH": f"{pod / 'bin'}{os.pathsep}{environment['PATH']}",
        "WATCH_DIRECTORY": str(pod),
        "TERMINATION_LOG": str(pod / "message"),
        "CONTAINER_LOG": str(pod / "log"),
        "SERVER_PID": str(server),
    }
    command = ["/bin/sh", "-c", HOOK.read_text(encoding="utf-8"), "model_start", "model", "999", "512"]
    done = subprocess.run(
        command, env={**environment, **own}, stdin=subprocess.DEVNULL, timeout=STOPS_SECONDS, check=False
    )
    if done.returncode:
        raise FailedError(f"the hook did not load the model: {(pod / 'message').read_text().strip()}")


TITLES = {"mps": "of the device plugin", "per-model": "of the node"}


def describe_restarts(found: Mapping[str, Result]) -> Iterator[str]:
    """The report's section, of the steps' results."""
    if found:
        yield "\n## MPS daemons that end under a model\n"
        yield "MiB are those that are free for a new process with the model's variables."
    for kind, result in found.items():
        killed = result["server killed"]
        yield f"\nA daemon {TITLES[kind]}; the model's process had {killed['free_mib']:,} MiB.\n"
        yield f"- its files: {list_files(killed['files'])}."
        meanwhile, later = killed["meanwhile"], killed["new_process"]
        yield f"- server killed: the model stays. Its process: {meanwhile}. A new one: {later}."
        for name, one in result.items():
            if not isinstance(one, dict) or "stopped_s" not in one:
                continue
            without = f"Without a daemon: {one['without_daemon']}. " if "without_daemon" in one else ""
            yield (
                f"- {name} in {one['end_s']:g} s: the hook stopped the model after {one['stopped_s']:g} s; until then: "
                f"{one['meanwhile']}. {without}With a new one: {one['with_a_new_daemon']}. "
                f"Files: {list_files(one['files_after'])}."
            )


def list_files(files: Mapping[str, str]) -> str:
    """Each file with its kind and mode, and whether there is one with the daemon's process ID."""
    shown = ", ".join(f"{name} ({kind})" for name, kind in files.items()) or "none"
    return shown if PID_FILE in files else f"{shown}; no file with the process ID"
