"""The prober as it runs in the cluster: the shipped files, real processes, real sockets, and a fake driver."""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.share_proof.expectation import MOST_PODS, ShareExpectation, expectations
from components.share_proof.jobs import script_texts
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Exclusive, Mps, Sharing, TimeSlicing

pytestmark = pytest.mark.slow

LONG, SHORT = "60", "2"
"""Limits in seconds: one that no test reaches, and one that a test reaches."""
WHOLE_MIB = 15110
Fakes = Mapping[int, Mapping[str, str]]
SLICES = ShareExpectation(
    resource="nvidia.com/mig-1g.5gb",
    gpu="a100-40gb",
    title="A100-40GB",
    gpus_per_node=1,
    per_node=3,
    per_device=1,
    device_mib=4864,
    memory_mib=4864,
    enforced=True,
    strategy="none",
    device="slice",
)


def expected_of(sharing: Sharing, count: int = 1, limits_mib: Sequence[int] = ()) -> ShareExpectation:
    [one] = expectations(sharing, gpus()["t4"], count, limits_mib)
    return one


TIME_SLICES, MPS = expected_of(TimeSlicing(replicas=3)), expected_of(Mps(replicas=3))
OWN_LIMITS = expected_of(Mps(replicas=3, limits="per-model"), limits_mib=(9000, 3000, 2000))
OTHER_GPU, ONE_SLICE = {"FAKE_GPU": "187"}, {"FAKE_MIB": "4864"}
OTHER_GPUS = {1: OTHER_GPU, 2: {"FAKE_GPU": "204"}}
SHARED_SLICES = replace(SLICES, per_node=4, per_device=2, memory_mib=None, enforced=False, strategy="time-slicing")
ENFORCED = {"FAKE_LIMIT_MIB": "5120"}


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
        every: Mapping[str, str] | None = None,
        some: Fakes | None = None,
        back: str = LONG,
    ) -> "Ends":
        """Runs all pods. Their fake drivers are set up by `every`, and those of `some` pods differ."""
        for index in range(expected.pods):
            self.start(expected, index, {**(every or {}), **(some or {}).get(index, {})}, back=back)
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

    def is_alive(self, index: int) -> bool:
        return self._processes[index].poll() is None

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


@pytest.mark.parametrize(
    ("expected", "every", "some", "devices"),
    [
        (expected_of(Exclusive()), {}, {}, [[0]]),
        (expected_of(Exclusive(), count=2), {}, {1: OTHER_GPU}, [[0], [1]]),
        (TIME_SLICES, {}, {}, [[0, 1, 2]]),
        (SLICES, ONE_SLICE, OTHER_GPUS, [[0], [1], [2]]),
        # Slices that are shared in time.
        (SHARED_SLICES, ONE_SLICE, {2: OTHER_GPU, 3: OTHER_GPU}, [[0, 1], [2, 3]]),
        # More shares than a node can run pods.
        (expected_of(TimeSlicing(replicas=40)), {}, {}, [[*range(MOST_PODS)]]),
    ],
    ids=["entire GPU", "two entire GPUs", "time slices", "slices", "shared slices", "many"],
)
def test_each_device_is_proved_to_have_its_pods(
    cluster: Pods, expected: ShareExpectation, every: Mapping[str, str], some: Fakes, devices: list[list[int]]
) -> None:
    summary = proved(cluster.run(expected, every=every, some=some))
    assert sorted(device["pods"] for device in summary["devices"].values()) == devices
    assert summary["proved"] == expected.summary


@pytest.mark.parametrize("visible", [5120, WHOLE_MIB])
def test_mps_shares_are_proved_whether_cuda_shows_the_share_or_the_gpu(cluster: Pods, visible: int) -> None:
    summary = proved(cluster.run(MPS, every={**ENFORCED, "FAKE_INFO_MIB": str(visible)}))
    assert (summary["total_mib"], summary["info_total_mib"]) == ([WHOLE_MIB], [visible])
    # All three pods held four fifths of a share of 5,120 MiB at once, and none could allocate 64 MiB more than a share.
    assert (summary["held_mib"], summary["refused_mib"]) == ([4096] * 3, [5184] * 3)


EXPECTED = {
    "entire GPU": expected_of(Exclusive()),
    "two entire GPUs": expected_of(Exclusive(), count=2),
    "time slices": TIME_SLICES,
    "mps": MPS,
    "slices": SLICES,
}
REFUSED = yaml.safe_load((Path(__file__).parent / "refused_shares.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSED)
def test_every_pod_reports_a_node_that_is_not_as_expected(cluster: Pods, case: str) -> None:
    row = REFUSED[case]
    text = refused(cluster.run(EXPECTED[row["expected"]], every=row.get("every"), some=row.get("some")))
    assert [part for part in row["says"] if part not in text] == [], text
    assert text.startswith("expected: ")
    assert text.endswith("Then run `pulumi up` again to repeat the proof.")


def test_an_allocation_above_the_share_that_succeeds_is_refused(cluster: Pods, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    without_limit = {"FAKE_LIMIT_MIB": "15110", "FAKE_LEDGER": str(ledger)}
    text = refused(cluster.run(MPS, every=ENFORCED, some={1: without_limit}))
    # Freed at once. Otherwise the next pod would fail for lack of memory instead of its limit.
    assert ledger.read_text().split() == ["5184", "-5184"]
    assert "3 per GPU, 5,120 MiB each, enforced" in text
    assert "- pod 1: allocated 5,184 MiB, more than its share" in text
    assert "does not use the MPS daemon" in text


@dataclass(frozen=True)
class Directories:
    """Variables of a pod for the directory of an MPS daemon: that lives, that crashed, and that never started."""

    alive: Mapping[str, str]
    crashed: Mapping[str, str]
    empty: Mapping[str, str]


@pytest.fixture
def daemon() -> Iterator[Directories]:
    # The name of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="mps-") as folder, ExitStack() as open_sockets:
        made: dict[str, Mapping[str, str]] = {}
        for name in ("alive", "crashed", "empty"):
            pipe = Path(folder, name)
            pipe.mkdir()
            made[name] = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
            if name != "empty":
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


def test_a_node_without_its_mps_daemon_is_found_before_anything_is_allocated(
    cluster: Pods, daemon: Directories, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    text = refused(cluster.run(OWN_LIMITS, every={**daemon.empty, "FAKE_LEDGER": str(ledger)}))
    assert f"- pods 0, 1, 2: no MPS daemon at {daemon.empty['CUDA_MPS_PIPE_DIRECTORY']}" in text
    assert "Read `journalctl -u tandem-mps`" in text
    assert not ledger.exists()


def test_a_container_without_a_driver_is_reported(cluster: Pods, tmp_path: Path) -> None:
    text = refused(cluster.run(TIME_SLICES, every={"LD_LIBRARY_PATH": str(tmp_path)}))
    assert "pods 0, 1, 2: cannot load libcuda.so.1" in text
    assert "NVIDIA variant of the EKS AMI" in text


@pytest.mark.parametrize(
    ("fake", "said", "way"),
    [
        ({"FAKE_INIT": "805"}, "cuInit: CUDA_ERROR_MPS_CONNECTION_FAILED", "log of the MPS control daemon"),
        ({"FAKE_INIT": "100"}, "cuInit: CUDA_ERROR_NO_DEVICE", "gave the pod no GPU"),
        ({"FAKE_COUNT": "0"}, "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE", "run `pulumi up` again"),
        (
            {"FAKE_CONTEXT": "46"},
            "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE",
            "still in EXCLUSIVE_PROCESS mode",
        ),
        ({"FAKE_INIT": "4242"}, "cuInit: CUDA error 4242", "run `pulumi up` again"),
        ({"FAKE_COUNT": "2"}, "2 devices visible, expected 1", "did not request"),
    ],
)
def test_a_driver_error_of_one_pod_is_reported_by_all(cluster: Pods, fake: dict[str, str], said: str, way: str) -> None:
    text = refused(cluster.run(TIME_SLICES, some={2: fake}))
    assert f"- pod 2: {said}" in text
    assert way in text


def test_a_pod_that_never_starts_is_named(cluster: Pods) -> None:
    cluster.start(TIME_SLICES, 0, {}, limit=SHORT)
    ends = cluster.ends()
    text = refused(ends)
    assert "found: 1 of 3 pods" in text
    assert "- pods 1, 2 did not start within 2 s" in text
    assert "Too few shares are free" in text


def test_a_judge_that_never_starts_is_named_with_the_running_pods(cluster: Pods) -> None:
    cluster.start(TIME_SLICES, 1, {}, limit=SHORT)
    text = refused(cluster.ends())
    assert "found: 1 of 3 pods are running" in text
    assert "pod 0, which collects the results, did not start within 2 s" in text


def test_a_pod_that_stops_and_is_not_replaced_is_named(cluster: Pods) -> None:
    ends = cluster.run(MPS, every=ENFORCED, some={1: {"FAKE_DIE": "1"}}, back=SHORT)
    assert ends.pop(1) == (3, "")
    [last] = {text.partition("waiting for the replacement")[2].strip() or text for _, text in ends.values()}
    assert "- pod 1 was interrupted and did not start again within 2 s" in last


def test_a_judge_that_stops_and_is_not_replaced_is_named(cluster: Pods) -> None:
    ends = cluster.run(MPS, every=ENFORCED, some={0: {"FAKE_DIE": "1"}}, back=SHORT)
    assert ends.pop(0) == (3, "")
    for status, text in ends.values():
        assert status == 1
        assert "pod 0, which collects the results, was interrupted and did not start again within 2 s" in text


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


def test_a_pod_that_restarts_before_the_others_have_started_replaces_itself(cluster: Pods) -> None:
    cluster.start(TIME_SLICES, 0, {})
    with patient_connection(cluster.port) as interrupted:
        interrupted.sendall(b'{"index": 1}\n')
    cluster.start(TIME_SLICES, 1, {})
    cluster.start(TIME_SLICES, 2, {})
    ends = cluster.ends()
    assert {status for status, _ in ends.values()} == {0}, ends


def test_a_gpu_that_leaves_exclusive_process_mode_in_time_is_proved(cluster: Pods, tmp_path: Path) -> None:
    mode = tmp_path / "exclusive"
    mode.touch()
    left = {"FAKE_EXCLUSIVE": str(mode), "EXCLUSIVE_SECONDS": LONG}
    one = expected_of(Exclusive())
    cluster.start(one, 0, left)
    while not (tmp_path / "exclusive.seen").exists():
        assert cluster.is_alive(0)
    mode.unlink()
    assert proved(cluster.ends())


def test_a_driver_call_that_never_returns_is_reported_and_ended(cluster: Pods) -> None:
    cluster.start(TIME_SLICES, 1, {})
    cluster.start(TIME_SLICES, 2, {"FAKE_HANG": "1"}, limit=SHORT, back=SHORT, step="1")
    cluster.start(TIME_SLICES, 0, {}, step="3")
    ends = cluster.ends()
    assert "pod 2 hung in the driver during step 'look'" in ends[2][1]
    assert "another user's processes use the MPS server" in ends[2][1]
    del ends[2]
    assert "- pod 2: hung and did not reply" in refused(ends)


def patient_connection(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:  # the judge is still starting
            continue


def test_many_findings_fit_into_the_part_of_a_log_that_kubernetes_keeps(cluster: Pods) -> None:
    many = expected_of(TimeSlicing(replicas=40))
    text = refused(cluster.run(many, some={index: {"FAKE_MIB": str(index)} for index in range(MOST_PODS)}))
    assert "- and 8 more" in text
    assert len(text.encode()) < 2048
