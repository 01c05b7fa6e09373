"""What tandem reads from the objects of a cluster."""

import pytest

from tandem.deployed.objects import allocatable, restarts, state


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
