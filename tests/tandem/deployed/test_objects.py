"""What tandem reads from the objects of a cluster."""

from typing import Any

import pytest

from tandem.deployed.objects import allocatable, pod_of, restarts, state
from tests.tandem.seen import pending, pod


@pytest.mark.parametrize(
    ("quantity", "count"),
    [("0", 0), ("2", 2), (2, 2), ("1k", 1_000), ("3M", 3_000_000), (None, 0), ("100m", 0), ("1Gi", 0)],
)
def test_whole_quantities_are_read_in_kubernetes_notation(quantity: object, count: int) -> None:
    """apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes: 1000 is 1k. Shares are whole."""
    assert allocatable({"status": {"allocatable": {"nvidia.com/gpu": quantity}}}, "nvidia.com/gpu") == count
    assert allocatable({}, "nvidia.com/gpu") == 0


def test_what_kubelet_has_not_reported_yet_is_nothing() -> None:
    pod = {"metadata": {"name": "a"}, "status": {"phase": "Pending", "containerStatuses": [{}]}}
    assert (state(pod), restarts(pod)) == ("Pending", 0)
    assert (state({"metadata": {}}), restarts({"metadata": {}})) == ("Unknown", 0)


def test_an_init_container_that_has_ended_or_runs_is_not_the_reason_of_a_wait() -> None:
    states: list[dict[str, Any]] = [
        {"terminated": {"exitCode": 0}},
        {"running": {}},
        {"waiting": {"reason": "PodInitializing"}},
    ]
    ended = [{"restartCount": 2, "state": each} for each in states]
    waits = {"metadata": {"name": "a"}, "status": {"phase": "Pending", "initContainerStatuses": ended}}
    assert state(waits) == "Pending"


def test_the_pod_of_a_model_is_a_ready_one_and_always_the_same() -> None:
    waits, ready, other = pending("m", "Insufficient memory"), pod("m", "m-2"), pod("m", "m-3")
    waits["metadata"]["name"] = "m-1"
    for pods in ([waits, ready, other], [other, ready, waits]):
        assert pod_of("m", pods) is ready
    assert pod_of("m", [waits]) is waits
    assert pod_of("n", [ready]) is None
