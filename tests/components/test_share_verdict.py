"""What the pods of a share proof find, and the verdict: in this process, with fake drivers."""

import ctypes
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.share_proof.expectation import MOST_PODS, ShareExpectation, expectations
from components.share_proof.in_pod.shares import PIPE_VARIABLE, LocalPod, examine
from components.share_proof.in_pod.verdict import Answer, format_verdict
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Exclusive, Mps, Sharing, TimeSlicing
from tests.components.fake_driver import FakeDriver, OldDriver

Fakes = Mapping[int, Mapping[str, str]]
WHOLE_MIB = 15110
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
MANY = expected_of(TimeSlicing(replicas=40))
OWN_LIMITS = expected_of(Mps(replicas=3, limits="per-model"), limits_mib=(9000, 3000, 2000))
SHARED_SLICES = replace(SLICES, per_node=4, per_device=2, memory_mib=None, enforced=False, strategy="time-slicing")
ENFORCED = {"FAKE_LIMIT_MIB": "5120"}
ONE_SLICE, OTHER_GPU = {"FAKE_MIB": "4864"}, {"FAKE_GPU": "187"}


class Pod(LocalPod):
    """A pod with a driver of its own."""

    def __init__(self, expected: ShareExpectation, index: int, fake: Mapping[str, str], driver: Any = None) -> None:
        super().__init__(expected.to_pods(), float(fake.get("EXCLUSIVE_SECONDS", "0")), index)
        self.driver = driver or FakeDriver(fake)

    def receive(self, until: float | None = None) -> Answer:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ctypes, "CDLL", self.load)
            return super().receive(until)

    def load(self, library: str) -> Any:
        assert library == "libcuda.so.1"
        return self.driver


class WithoutDriver(Pod):
    def load(self, library: str) -> Any:
        raise OSError(f"{library}: cannot open shared object file")


def pods_of(expected: ShareExpectation, every: Mapping[str, str] | None = None, some: Fakes | None = None) -> list[Pod]:
    return [Pod(expected, index, {**(every or {}), **(some or {}).get(index, {})}) for index in range(expected.pods)]


def judge(expected: ShareExpectation, pods: Sequence[Pod]) -> tuple[bool, str]:
    """Whether all is as expected, and the verdict."""
    found, seen = examine(expected.to_pods(), dict(enumerate(pods)), 60)
    return not found, format_verdict(expected.to_pods(), found, seen, len(pods))


def proved(expected: ShareExpectation, pods: Sequence[Pod]) -> dict[str, Any]:
    kept, text = judge(expected, pods)
    assert kept, text
    summary: dict[str, Any] = json.loads(text)
    return summary


def refused(expected: ShareExpectation, pods: Sequence[Pod]) -> str:
    kept, text = judge(expected, pods)
    assert not kept
    assert text.startswith(f"expected: {expected.summary}\nfound: {len(pods)} of {expected.pods} pods")
    assert text.endswith("Then run `pulumi up` again to repeat the proof.")
    return text


@pytest.mark.parametrize(
    ("expected", "every", "some", "devices"),
    [
        (expected_of(Exclusive()), {}, {}, [[0]]),
        (expected_of(Exclusive(), count=2), {}, {1: OTHER_GPU}, [[0], [1]]),
        (TIME_SLICES, {}, {}, [[0, 1, 2]]),
        # The least and the most that a pod may see: 10 % less and more than the 14,912 MiB that CUDA shows on a T4.
        (TIME_SLICES, {}, {0: {"FAKE_MIB": "13420"}, 1: {"FAKE_MIB": "16403"}}, [[0, 1, 2]]),
        (SLICES, ONE_SLICE, {1: OTHER_GPU, 2: {"FAKE_GPU": "204"}}, [[0], [1], [2]]),
        # Slices that are shared in time.
        (SHARED_SLICES, ONE_SLICE, {2: OTHER_GPU, 3: OTHER_GPU}, [[0, 1], [2, 3]]),
        # More shares than a node can run pods.
        (MANY, {}, {}, [[*range(MOST_PODS)]]),
    ],
    ids=["entire GPU", "two entire GPUs", "time slices", "bounds", "slices", "shared slices", "many"],
)
def test_each_device_is_proved_to_have_its_pods(
    expected: ShareExpectation, every: Mapping[str, str], some: Fakes, devices: list[list[int]]
) -> None:
    summary = proved(expected, pods_of(expected, every, some))
    assert sorted(device["pods"] for device in summary["devices"].values()) == devices
    assert summary["proved"] == expected.summary
    # Without a limit, each pod allocates a little, to show that its share works.
    assert (summary["held_mib"], summary["refused_mib"]) == ([64] * expected.pods, None)


@pytest.mark.parametrize("visible", [5120, WHOLE_MIB])
def test_mps_shares_are_proved_whether_cuda_shows_the_share_or_the_gpu(visible: int) -> None:
    pods = pods_of(MPS, {**ENFORCED, "FAKE_INFO_MIB": str(visible)})
    summary = proved(MPS, pods)
    measured = (summary["total_mib"], summary["info_total_mib"], summary["info_free_mib"])
    assert measured == ([WHOLE_MIB], [visible], [visible])
    assert [*summary["devices"]] == ["aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"]
    # All three pods held four fifths of a share of 5,120 MiB at once, and none could allocate 64 MiB more than a share.
    assert (summary["held_mib"], summary["refused_mib"]) == ([4096] * 3, [5184] * 3)
    assert [pod.driver.ledger for pod in pods] == [[4096]] * 3


def test_a_second_round_frees_what_the_interrupted_one_held() -> None:
    pods = pods_of(MPS, ENFORCED)
    assert proved(MPS, pods) == proved(MPS, pods)
    assert [pod.driver.ledger for pod in pods] == [[4096, -4096, 4096]] * 3


EXPECTED = {
    "entire GPU": expected_of(Exclusive()),
    "two entire GPUs": expected_of(Exclusive(), count=2),
    "time slices": TIME_SLICES,
    "mps": MPS,
    "slices": SLICES,
}
REFUSED = yaml.safe_load((Path(__file__).parent / "refused_shares.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSED)
def test_a_node_that_is_not_as_expected_is_refused(case: str) -> None:
    row = REFUSED[case]
    expected = EXPECTED[row["expected"]]
    text = refused(expected, pods_of(expected, row.get("every"), row.get("some")))
    assert [part for part in row["says"] if part not in text] == [], text


def test_an_allocation_above_the_share_that_succeeds_is_refused() -> None:
    pods = pods_of(MPS, ENFORCED, {1: {"FAKE_LIMIT_MIB": "15110"}})
    text = refused(MPS, pods)
    # Freed at once. Otherwise the next pod would fail for lack of memory instead of its limit.
    assert pods[1].driver.ledger == [5184, -5184]
    assert "- pod 1: allocated 5,184 MiB, more than its share" in text
    assert "does not use the MPS daemon" in text


def test_each_pod_is_proved_to_have_its_own_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The name of a socket has at most 107 characters.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PIPE_VARIABLE, ".")
    limits = {index: {"FAKE_LIMIT_MIB": str(limit)} for index, limit in enumerate((9000, 3000, 2000))}
    without = refused(OWN_LIMITS, pods := pods_of(OWN_LIMITS, some=limits))
    assert "- pods 0, 1, 2: no MPS daemon at .\nRead `journalctl -u tandem-mps`" in without
    assert [pod.driver.ledger for pod in pods] == [[]] * 3
    with socket.socket(socket.AF_UNIX) as control:
        control.bind("control")
        summary = proved(OWN_LIMITS, pods_of(OWN_LIMITS, some=limits))
        outside = refused(OWN_LIMITS, pods_of(OWN_LIMITS, some={**limits, 1: {}}))
    # 64 MiB above each limit, and then four fifths of each, but 400 MiB less than the limit for CUDA itself.
    assert (summary["refused_mib"], summary["held_mib"]) == ([9064, 3064, 2064], [7200, 2400, 1600])
    assert "- pod 1: allocated 3,064 MiB, more than its share" in outside


def test_a_small_limit_leaves_a_quarter_of_itself_at_least() -> None:
    small = replace(OWN_LIMITS, own_limits_mib=(500, 1000, 2000)).to_pods()
    # 500 - 400 is less than a quarter; 1000 - 400 is less than four fifths; and so is 1600 of 2000.
    assert [small.within_mib(index) for index in range(3)] == [125, 600, 1600]


def test_a_driver_that_is_missing_or_too_old_is_reported() -> None:
    text = refused(TIME_SLICES, [WithoutDriver(TIME_SLICES, index, {}) for index in range(3)])
    assert "- pods 0, 1, 2: cannot load libcuda.so.1: " in text
    assert "NVIDIA variant of the EKS AMI" in text
    text = refused(TIME_SLICES, [Pod(TIME_SLICES, index, {}, OldDriver()) for index in range(3)])
    assert "- pods 0, 1, 2: libcuda.so.1 is too old: it has no cuInit" in text


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
def test_a_driver_error_of_one_pod_is_reported(fake: dict[str, str], said: str, way: str) -> None:
    text = refused(TIME_SLICES, pods_of(TIME_SLICES, some={2: fake}))
    assert f"- pod 2: {said}" in text
    assert way in text


def test_a_gpu_that_leaves_exclusive_process_mode_in_time_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = {"FAKE_CONTEXT": "46"}
    monkeypatch.setattr("time.sleep", lambda _: fake.clear())
    [pod] = pods_of(expected_of(Exclusive()))
    pod.driver, pod._exclusive = FakeDriver(fake), 60
    pod.driver.name = b"NVIDIA \xff"
    [device] = proved(expected_of(Exclusive()), [pod])["devices"].values()
    assert device == {"name": "NVIDIA \ufffd", "pods": [0]}


def test_many_findings_fit_into_the_part_of_a_log_that_kubernetes_keeps() -> None:
    text = refused(MANY, pods_of(MANY, some={index: {"FAKE_MIB": str(index)} for index in range(MOST_PODS)}))
    assert "- and 8 more" in text
    assert len(text.encode()) < 2048
    # Eight findings, and no ninth; the same of devices.
    assert [f"- pod {index}: {index} MiB" in text for index in (0, 7, 8)] == [True, True, False]
    others = {index: {"FAKE_GPU": str(index), "FAKE_MIB": "1"} for index in range(MOST_PODS)}
    text = refused(MANY, pods_of(MANY, some=others))
    assert text.splitlines()[1].count("Tesla T4") == 8
