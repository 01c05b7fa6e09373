"""What becomes of a model when its MPS daemon ends: `model_start.sh` with a stand-in for the daemon, on real sockets.

A test is kubelet and device plugin: it makes containers, each with its termination message and its server, and gives
them the daemon's directory. None waits for a time to pass.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.ollama.test_model_start import TAG, Start, Stub, stub

__all__ = ["stub"]
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("nvidia_cuda_mps_control.py")
NEVER = "1000000"
"""Turns after which the daemon is asked: not during a test."""
OUTSIDE = f"{TAG} is outside MPS: its MPS daemon ended or restarted\n"
OF_NODE = {"TANDEM_MPS": "node", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9216M"}
"""Variables of a model with a limit of its own, under the daemon of the node."""


@dataclass
class Daemon:
    """The MPS daemon of a node, and its directory."""

    pipe: Path
    program: Path
    process: "subprocess.Popen[bytes] | None" = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe), **self.settings}

    def start(self) -> None:
        self.pipe.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen([sys.executable, self.program, "-f"], env=self.environment)
        wait_until(lambda: self.says("get_server_list") == 0)

    def says(self, order: str) -> int:
        done = subprocess.run([sys.executable, self.program], input=order, text=True, env=self.environment, check=False)
        return done.returncode

    def quit(self) -> None:
        assert self.process
        self.says("quit")
        self.process.wait()

    def stop(self) -> None:
        """`systemctl stop` of the node's daemon."""
        assert self.process
        self.process.terminate()
        self.process.wait()

    def stop_and_start(self) -> None:
        """`systemctl restart`."""
        self.stop()
        self.start()

    def crash(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def hang(self) -> None:
        """It listens, but answers nothing."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def restart(self) -> None:
        self.quit()
        self.start()

    def restart_after_a_crash(self) -> None:
        self.crash()
        self.start()

    def reboot(self) -> None:
        """The node loses /run."""
        self.crash()
        shutil.rmtree(self.pipe)


@dataclass
class Container:
    """One life of the server's container."""

    stub: Stub
    daemon: Daemon
    settings: dict[str, str] = field(default_factory=dict)
    server: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self.watch = self.stub.folder / "watch"
        self.watch.mkdir(exist_ok=True)
        self.termination = Path(tempfile.mkstemp(dir=self.stub.folder)[1])
        self.server = subprocess.Popen(["sleep", "600"])
        (self.stub.folder / "calls").unlink(missing_ok=True)

    def start(self) -> Start:
        """The hook."""
        environment = {
            "WATCH_DIRECTORY": str(self.watch),
            "TERMINATION_LOG": str(self.termination),
            "SERVER_PID": str(self.server.pid),
            "CUDA_MPS_PIPE_DIRECTORY": str(self.daemon.pipe),
            "DAEMON_TURNS": "2",
            "ANSWER_SECONDS": "2",
            **self.settings,
        }
        return self.stub.start(**environment)

    def has(self, name: str) -> bool:
        return (self.watch / name).exists()

    def has_loaded(self) -> bool:
        return (self.stub.folder / "calls").exists() and bool(self.stub.calls("run"))


def wait_until(seen: Callable[[], bool]) -> None:
    for _ in range(3000):
        if seen():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


Make = Callable[..., Container]


@pytest.fixture
def daemon(stub: Stub) -> Iterator[Daemon]:
    shutil.copy(PROGRAM, stub.folder / "bin" / "nvidia-cuda-mps-control")
    # The name of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        daemon = Daemon(Path(folder) / "pipe", PROGRAM)
        daemon.start()
        yield daemon
        if daemon.process:
            daemon.process.kill()


@pytest.fixture
def container(stub: Stub, daemon: Daemon) -> Iterator[Callable[..., Container]]:
    made: list[Container] = []

    def make(**settings: str) -> Container:
        made.append(Container(stub, daemon, settings))
        return made[-1]

    yield make
    for one in made:
        one.server.kill()
        one.server.wait()


OF_PLUGIN_ENDS = ("quit", "crash", "hang", "restart", "restart_after_a_crash", "reboot")
OF_NODE_ENDS = ("quit", "crash", "stop", "stop_and_start", "restart_after_a_crash")
"""systemd starts the daemon again after each end. The look may be before or after that."""


@pytest.mark.parametrize(
    ("settings", "end"),
    [*(({}, end) for end in OF_PLUGIN_ENDS), *((OF_NODE, end) for end in OF_NODE_ENDS)],
    ids=[*OF_PLUGIN_ENDS, *(f"{end} on the node" for end in OF_NODE_ENDS)],
)
@pytest.mark.real_world(
    behaviour="After the end of the MPS daemon, Ollama's next runner is a process without MPS, with the entire GPU",
    source="run on an H100 (2026-11-26); man nvidia-cuda-mps-control: without a connection, a program runs without MPS",
)
def test_the_server_stops_when_its_mps_daemon_ends_and_says_why(
    container: Make, daemon: Daemon, settings: dict[str, str], end: str
) -> None:
    if settings:
        daemon.stop()
        daemon.settings = {"WITHOUT_PID_FILE": "1"}
        daemon.start()
    pod = container(**settings)
    assert pod.start().exit_code == 0
    (pod.watch / "ready").touch()
    getattr(daemon, end)()
    assert pod.server.wait(60) == -signal.SIGTERM
    assert pod.termination.read_text() == OUTSIDE
    assert not pod.has("ready")
    assert not pod.has("started")


def test_a_model_stays_while_its_daemon_does_and_its_sidecar_knows_it(container: Make, daemon: Daemon) -> None:
    pod = container()
    assert pod.start().exit_code == 0
    wait_until(lambda: pod.has("mps"))
    # A client, a new MPS server and a line in the log change the other files of the daemon.
    daemon.says("get_default_active_thread_percentage")
    for other in ("log", "control_lock"):
        (daemon.pipe / other).touch()
    for _ in range(5):
        (pod.watch / "mps").unlink()
        wait_until(lambda: pod.has("mps"))
    assert pod.server.poll() is None
    assert pod.has("started")


@pytest.mark.real_world(
    behaviour="After a crash the socket stays, but the kernel refuses its connections, of another type of socket, too",
    source="Linux 6.6 net/unix/af_unix.c, unix_find_bsd: ECONNREFUSED without a socket, EPROTOTYPE with another type",
)
@pytest.mark.parametrize(
    ("missing", "turns"), [("", NEVER), ("nvidia-cuda-mps-control", NEVER), ("perl", "2")], ids=str
)
def test_a_crash_needs_no_question_where_the_container_has_perl(
    container: Make, daemon: Daemon, stub: Stub, missing: str, turns: str
) -> None:
    if missing == "perl":
        (stub.folder / "bin" / "perl").write_text("#!/bin/sh\nexit 127\n")
        (stub.folder / "bin" / "perl").chmod(0o755)
    elif missing:
        (stub.folder / "bin" / missing).unlink()
    pod = container(DAEMON_TURNS=turns)
    assert pod.start().exit_code == 0
    wait_until(lambda: pod.has("mps"))
    daemon.crash()
    assert pod.server.wait(60) == -signal.SIGTERM
    assert pod.termination.read_text() == OUTSIDE


def test_one_question_without_an_answer_does_not_stop_the_model(container: Make, daemon: Daemon) -> None:
    pod, busy = container(), daemon.pipe / "busy"
    assert pod.start().exit_code == 0
    busy.touch()
    wait_until(lambda: not busy.exists())
    for _ in range(5):
        (pod.watch / "mps").unlink(missing_ok=True)
        wait_until(lambda: pod.has("mps") or pod.server.poll() is not None)
    assert pod.server.poll() is None
    assert pod.has("started")


def come_late(daemon: Daemon, stub: Stub) -> None:
    """The daemon answers again once the hook waits for it: the hook then stops what a client has loaded without MPS."""
    daemon.quit()
    (stub.folder / "stop.hook").write_text(
        f"[ -e stopped ] || {sys.executable} {PROGRAM} -f </dev/null >/dev/null 2>&1 &\ntouch stopped\n"
    )


@pytest.mark.real_world(
    behaviour="Each pod of the MPS daemon mounts another /dev/shm, which containers that run already do not see",
    source="k8s-device-plugin v0.20.0 cmd/mps-control-daemon/mount/mount-shm.go; internal/plugin/mps.go",
)
def test_a_model_is_loaded_only_by_a_container_that_is_newer_than_the_daemon(
    container: Make, daemon: Daemon, stub: Stub
) -> None:
    come_late(daemon, stub)
    early = container()
    start = early.start()
    assert start.exit_code == 1
    assert f"waiting for the MPS daemon before {TAG} is loaded" in start.log
    assert early.termination.read_text().startswith("the MPS daemon started after this container")
    assert stub.calls("stop")
    assert not early.has_loaded()
    try:
        later = container()
        assert later.start().exit_code == 0
        assert later.has_loaded()
    finally:
        daemon.says("quit")


@pytest.mark.real_world(
    behaviour="Amazon ECS mounts only the directory of the node's daemon into a container, and no /dev/shm",
    source="amazon-ecs-agent#5082; the server of driver 580 uses anonymous memory (bottlerocket-kernel-kit#415)",
)
def test_under_the_daemon_of_the_node_an_older_container_waits_and_loads_the_model(
    container: Make, daemon: Daemon, stub: Stub
) -> None:
    come_late(daemon, stub)
    pod = container(**OF_NODE)
    try:
        assert pod.start().exit_code == 0
        assert pod.has_loaded()
        # Once more, now that there is a daemon: a client's request may have been faster.
        later = container(**OF_NODE)
        assert later.start().exit_code == 0
        calls = (stub.folder / "calls").read_text().splitlines()
        assert [call.split()[0] for call in calls][-3:] == ["stop", "run", "ps"]
    finally:
        daemon.says("quit")


@pytest.mark.parametrize(
    ("settings", "check"),
    [({}, "Check its pod on this node"), (OF_NODE, "Check tandem-mps.service on this node")],
    ids=["plugin", "node"],
)
def test_a_daemon_that_never_answers_fails_the_start_without_a_load(
    container: Make, daemon: Daemon, settings: dict[str, str], check: str
) -> None:
    daemon.crash()
    pod = container(DAEMON_SECONDS="0", **settings)
    assert pod.start().exit_code == 1
    why = f"the MPS daemon did not answer within 0 s, so {TAG} was not loaded. {check}\n"
    assert pod.termination.read_text() == why
    assert not pod.has_loaded()
    assert not pod.has("started")


@pytest.mark.real_world(
    behaviour="With a limit for a number that no GPU has, or without the daemon, a process has no limit and no error",
    source="run on an H100 (2026-11-26): memory was refused only beyond that of the entire GPU",
)
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ""}, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT must be a limit of GPU 0"),
        ({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=9216M"}, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT must be a limit of GPU 0"),
        ({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=0M"}, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT must be a limit of GPU 0"),
        ({"CUDA_MPS_PIPE_DIRECTORY": ""}, "CUDA_MPS_PIPE_DIRECTORY is missing"),
    ],
)
def test_a_model_that_would_have_no_limit_is_not_loaded(container: Make, changed: dict[str, str], why: str) -> None:
    pod = container(**{**OF_NODE, **changed})
    assert pod.start().exit_code == 1
    assert pod.termination.read_text() == f"{why}, so {TAG} was not loaded: it would have the entire GPU\n"
    assert not pod.has_loaded()


def test_a_daemon_that_ends_during_the_load_fails_the_start(container: Make, daemon: Daemon, stub: Stub) -> None:
    (stub.folder / "run.hook").write_text(f"rm {daemon.pipe}/nvidia-cuda-mps-control.pid\n")
    pod = container()
    assert pod.start().exit_code == 1
    assert pod.termination.read_text() == f"the MPS daemon ended or restarted while {TAG} was loading\n"
    assert not pod.has("started")


def test_a_model_that_needs_mps_is_not_loaded_where_the_plugin_gives_no_daemon(container: Make) -> None:
    pod = container(CUDA_MPS_PIPE_DIRECTORY="", TANDEM_MPS="required")
    assert pod.start().exit_code == 1
    assert pod.termination.read_text().startswith("the device plugin gave this container no MPS daemon")
    assert not pod.has_loaded()
    # It has spilled onto a pool of another mode, or is of a stack of another mode.
    elsewhere = container(CUDA_MPS_PIPE_DIRECTORY="")
    assert elsewhere.start().exit_code == 0
    assert not elsewhere.has("mps")
