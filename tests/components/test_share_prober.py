"""The prober as it runs in the cluster: the shipped files, real processes, and a fake driver in C.

`test_share_verdict.py` and `test_share_pods.py` have its answers to everything else."""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from components.share_proof.expectation import ShareExpectation
from components.share_proof.jobs import script_texts
from tests.components.test_share_verdict import ENFORCED, MPS, OWN_LIMITS, TIME_SLICES, Fakes

pytestmark = pytest.mark.slow

LONG, SHORT = "60", "2"
"""Limits in seconds: one that no test reaches, and one that a test reaches."""


@pytest.fixture
def cluster(tmp_path: Path, driver: Path) -> Iterator["Pods"]:
    pods = Pods(tmp_path, driver)
    yield pods
    pods.end()


class Pods:
    """The pods of one proof, each a process with only the shipped files."""

    def __init__(self, folder: Path, driver: Path) -> None:
        self._folder, self._driver = folder, driver
        self._processes: dict[int, subprocess.Popen[str]] = {}
        (folder / "in_pod").mkdir()
        for name, text in script_texts().items():
            (folder / "in_pod" / name).write_text(text, encoding="utf-8")
        self.port = free_port()

    def start(
        self,
        expected: ShareExpectation,
        index: int,
        fake: Mapping[str, str],
        limit: str = LONG,
        step: str = LONG,
        back: str = LONG,
    ) -> None:
        environment = {
            "EXPECTATION": json.dumps(asdict(expected.to_pods())),
            "JOB_COMPLETION_INDEX": str(index),
            "JUDGE": "127.0.0.1",
            "SERVICE": "localhost",
            "PORT": str(self.port),
            "LIMIT_SECONDS": limit,
            "BACK_SECONDS": back,
            "STEP_SECONDS": step,
            "EXCLUSIVE_SECONDS": "0",
            "LD_LIBRARY_PATH": str(self._driver),
            "PATH": os.environ["PATH"],
            **fake,
        }
        self._processes[index] = subprocess.Popen(
            [sys.executable, "-B", "-m", "in_pod.shares"],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(
        self,
        expected: ShareExpectation,
        *,
        every: Mapping[str, str],
        some: Fakes | None = None,
    ) -> "Ends":
        """Runs all pods. Their fake drivers are set up by `every`, and those of `some` pods differ."""
        for index in range(expected.pods):
            self.start(expected, index, {**every, **(some or {}).get(index, {})})
        return self.ends()

    def replace(self, expected: ShareExpectation, index: int, fake: Mapping[str, str]) -> int:
        """Starts a pod again once it has stopped, as its Job does. Returns the exit status of the stopped one."""
        status = self._processes[index].wait()
        self.start(expected, index, fake)
        return status

    def ends(self) -> "Ends":
        """Exit status and output of each pod, once all have stopped."""
        output = {index: process.communicate()[0].strip() for index, process in self._processes.items()}
        return {index: (self._processes[index].returncode, text) for index, text in output.items()}

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


Ends = dict[int, tuple[int, str]]


def free_port() -> int:
    """A port outside the ephemeral range: a pod that waits for the judge could otherwise connect to itself."""
    while True:
        port = random.randrange(20000, 32000)
        with suppress(OSError), socket.create_server(("", port)):
            return port


def proved(ends: Ends) -> dict[str, Any]:
    """The proof that all pods print if all is as expected."""
    [(status, text)] = set(ends.values())
    assert status == 0, text
    summary: dict[str, Any] = json.loads(text)
    return summary


def refused(ends: Ends) -> str:
    """The failure that all pods print if it is not."""
    [(status, text)] = set(ends.values())
    assert status == 1, text
    return text


def test_every_pod_prints_the_proof(cluster: Pods) -> None:
    summary = proved(cluster.run(MPS, every=ENFORCED))
    # All three pods held four fifths of a share of 5,120 MiB at once, and none could allocate 64 MiB more than a share.
    assert (summary["held_mib"], summary["refused_mib"]) == ([4096] * 3, [5184] * 3)


@dataclass(frozen=True)
class Directories:
    """Variables of a pod for the directory of an MPS daemon: that lives, and that crashed."""

    alive: Mapping[str, str]
    crashed: Mapping[str, str]


@pytest.fixture
def daemon() -> Iterator[Directories]:
    # The name of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="mps-") as folder, ExitStack() as open_sockets:
        made: dict[str, Mapping[str, str]] = {}
        for name in ("alive", "crashed"):
            pipe = Path(folder, name)
            pipe.mkdir()
            made[name] = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
            control = open_sockets.enter_context(socket.socket(socket.AF_UNIX))
            control.bind(str(pipe / "control"))
            if name == "alive":
                control.listen(64)
        yield Directories(**made)


def test_each_pod_is_proved_to_have_its_own_limit(cluster: Pods, daemon: Directories) -> None:
    summary = proved(cluster.run(OWN_LIMITS, every=daemon.alive))
    # 64 MiB above each limit, and then four fifths of each, but 400 MiB less than the limit for CUDA itself.
    assert (summary["refused_mib"], summary["held_mib"]) == ([9064, 3064, 2064], [7200, 2400, 1600])


def test_a_pod_outside_mps_is_found_by_the_allocation_above_its_limit(cluster: Pods, daemon: Directories) -> None:
    text = refused(cluster.run(OWN_LIMITS, every=daemon.alive, some={1: daemon.crashed}))
    assert "- pod 1: allocated 3,064 MiB, more than its share" in text
    assert "3 per GPU, limits of 9,000, 3,000 and 2,000 MiB, enforced" in text


@pytest.mark.parametrize("index", [0, 1], ids=["judge", "other"])
@pytest.mark.real_world(
    behaviour="A pod of a Job that a node's shutdown or an eviction ends is replaced by a pod of the same index",
    source="kubernetes v1.36 pkg/controller/job/pod_failure_policy.go and indexed_job_utils.go",
)
def test_the_pods_wait_for_the_replacement_of_an_interrupted_pod(cluster: Pods, index: int) -> None:
    for one in range(MPS.pods):
        cluster.start(MPS, one, {**ENFORCED, **({"FAKE_DIE": "1"} if one == index else {})})
    assert cluster.replace(MPS, index, ENFORCED) == 3
    ends = cluster.ends()
    assert {status for status, _ in ends.values()} == {0}, ends
    summaries = [json.loads(text.splitlines()[-1]) for _, text in ends.values()]
    assert all(one == summaries[0] for one in summaries)
    # The other pods have freed the memory of the interrupted round, so all of them could allocate again.
    assert summaries[0]["held_mib"] == [4096] * 3


def test_a_driver_call_that_never_returns_is_reported_and_ended(cluster: Pods) -> None:
    cluster.start(TIME_SLICES, 1, {})
    cluster.start(TIME_SLICES, 2, {"FAKE_HANG": "1"}, limit=SHORT, back=SHORT, step="1")
    cluster.start(TIME_SLICES, 0, {}, step="3")
    ends = cluster.ends()
    assert "pod 2 hung in the driver during step 'look'" in ends[2][1]
    assert "another user's processes use the MPS server" in ends[2][1]
    del ends[2]
    assert "- pod 2: hung and did not reply" in refused(ends)
