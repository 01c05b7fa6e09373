"""The MPS daemon of a node, run as its systemd unit runs it: in the foreground, and without limits of its own.

`components/mps_daemon.py` has the unit. Importing it would import Pulumi, and this tier needs no package, so
test_agreement.py compares the two. The clients' variables come from the same code as those of a pod.
"""

import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sharing.modes.mps_clients import PIPE_VARIABLE, client_environment
from tests.gpu.mps import SECONDS, find_control
from tests.gpu.progress import FailedError, SkipError

OPTIONS = ("-f", "-multiuser-server")
PID_FILE = "nvidia-cuda-mps-control.pid"
QUESTION = "get_default_active_thread_percentage"
"""The question of the plugin's and of Amazon ECS's health checks: it needs no client."""
RESTART_SECONDS = 1
"""The unit's RestartSec."""
STOP_SECONDS = 10
"""How long it may take to stop. systemd waits 90 s by default (systemd-system.conf(5), DefaultTimeoutStopSec)."""


@dataclass
class NodeDaemon:
    """The daemon, and what systemd does to it."""

    program: Path
    folder: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def pipe(self) -> Path:
        return self.folder / "pipe"

    @property
    def variables(self) -> dict[str, str]:
        """Those of the unit, with the directory of this run. Without one for logs, it writes its log to its output."""
        return {PIPE_VARIABLE: str(self.pipe)}

    @property
    def environment(self) -> dict[str, str]:
        """For the daemon, which starts its server beside it, and for a hook, which asks with the same program."""
        path = os.pathsep.join((str(self.program.parent), os.environ.get("PATH", os.defpath)))
        return {**os.environ, **self.variables, "PATH": path}

    def client(self, limit_mib: int, threads: float = 1.0) -> Mapping[str, str]:
        """The variables of a model with these limits, as in its pod, with the directory of this run."""
        return {**client_environment(limit_mib, threads), PIPE_VARIABLE: str(self.pipe)}

    def start(self) -> float:
        """Starts it; returns the seconds until it answers. Raises `SkipError`: without it nothing can be measured."""
        begun = time.monotonic()
        with (self.folder / "said.log").open("ab") as said:
            self.process = subprocess.Popen(
                [str(self.program), *OPTIONS],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        while self.ask(QUESTION) is None:
            if self.process.poll() is not None or time.monotonic() - begun > SECONDS:
                raise SkipError(f"the MPS daemon did not start as the node runs it: {self.last_words()}")
            time.sleep(0.05)
        return time.monotonic() - begun

    def ask(self, order: str) -> str | None:
        """What it says; None if it does not answer."""
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [str(self.program)],
                env=self.environment,
                input=order + "\n",
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            return None if done.returncode else done.stdout
        return None

    def servers(self) -> list[int]:
        """The process IDs of its MPS servers."""
        return [int(word) for word in (self.ask("get_server_list") or "").split() if word.isdigit()]

    def stop(self) -> None:
        """As `systemctl stop`: SIGTERM for all processes of the unit, later SIGKILL (systemd.kill(5))."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """A crash: the daemon's servers are killed, too, because systemd ends what is left of a unit."""
        self._end(signal.SIGKILL)

    def kill_servers(self) -> None:
        """The end of nvidia-cuda-mps-server alone."""
        _signal(self.servers(), signal.SIGKILL)

    def restart(self) -> None:
        """As `systemctl restart`: too quick for a look every two seconds."""
        self.stop()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        servers = self.servers() if self.process.poll() is None else []
        self.process.send_signal(how)
        _signal(servers, how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _signal(servers, signal.SIGKILL)
        self.process = None

    def ends(self) -> dict[str, Callable[[], None]]:
        """The ways in which it can end under a model."""
        return {
            "server killed": self.kill_servers,
            "daemon stopped": self.stop,
            "daemon killed": self.kill,
            "daemon restarted": self.restart,
        }

    def start_again(self) -> None:
        """As systemd after a crash, in the same directory. It does nothing if the daemon runs."""
        if self.process is None:
            time.sleep(RESTART_SECONDS)
            self.start()

    def files(self) -> dict[str, str]:
        """What is in its directory: kind and mode of each file."""
        return describe_files(self.pipe)

    def last_words(self, lines: int = 6) -> str:
        """The end of its output."""
        said = self.folder / "said.log"
        text = said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def describe_files(folder: Path) -> dict[str, str]:
    """Kind and mode of each file of a folder, e.g. `socket 0777`."""
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "pipe", stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    modes = {file.name: file.lstat().st_mode for file in sorted(folder.iterdir())}
    return {name: f"{kinds.get(stat.S_IFMT(mode), 'other')} {stat.S_IMODE(mode):04o}" for name, mode in modes.items()}


def _signal(processes: list[int], how: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, how)


@contextmanager
def node_daemon() -> Iterator[NodeDaemon]:
    """A daemon that has started, with directories of its own. Raises `SkipError` where the program is missing."""
    program = find_control()
    # The name of a socket has at most 107 characters, so it cannot lie in the state folder.
    with tempfile.TemporaryDirectory(prefix="mps-") as name:
        daemon = NodeDaemon(program, Path(name))
        # systemd makes it before it starts the unit.
        daemon.pipe.mkdir(mode=0o755)
        # Other users are clients, too.
        daemon.folder.chmod(0o755)
        try:
            daemon.start()
            yield daemon
        except FailedError as error:
            raise FailedError(f"{error}\n{daemon.last_words()}".strip()) from None
        finally:
            daemon.stop()
