"""What tandem reads from the objects of a cluster."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tandem.deployed.objects import Facts, allocatable, settings
from tandem.deployed.shape import Shape
from tests.tandem.deployed.mutated import JSON, mutated
from tests.tandem.seen import checks, deployment, facts, restarting, under_mps


@pytest.mark.parametrize(
    ("quantity", "count"),
    [("0", 0), ("2", 2), (2, 2), ("1k", 1_000), ("3M", 3_000_000), (None, 0), ("100m", 0), ("1Gi", 0)],
)
def test_whole_quantities_are_read_in_kubernetes_notation(quantity: object, count: int) -> None:
    """apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes: 1000 is 1k. Shares are whole."""
    assert allocatable({"status": {"allocatable": {"nvidia.com/gpu": quantity}}}, "nvidia.com/gpu") == count
    assert allocatable({}, "nvidia.com/gpu") == 0


SEEN = under_mps()
OBJECTS = [
    *SEEN.nodes,
    *SEEN.daemon_sets["nvidia-device-plugin"],
    *SEEN.mps_pods,
    *SEEN.pods,
    restarting("llama2-7b", "spilled"),
    deployment("mistral-7b"),
]


@pytest.mark.parametrize("item", OBJECTS)
def test_objects_of_kubernetes_have_the_shape(item: dict[str, Any]) -> None:
    Shape.model_validate(item)


@pytest.mark.slow
@given(st.data())
def test_an_object_without_the_shape_is_refused_and_any_other_can_be_read(data: st.DataObject) -> None:
    """One value is replaced by another, anywhere."""
    broken = [mutated(item, data.draw(JSON), data) for item in data.draw(st.permutations(OBJECTS))[:2]]
    with contextlib.suppress(ValidationError):
        for item in broken:
            Shape.model_validate(item)
        seen = Facts(
            nodes=[*SEEN.nodes, *broken],
            daemon_sets={"nvidia-device-plugin": [*facts().daemon_sets["nvidia-device-plugin"], *broken]},
            pods=[*broken, *SEEN.pods],
            deployments=broken,
            mps_pods=[*SEEN.mps_pods, *broken],
        )
        assert checks(seen, "mps")
        assert all(isinstance(settings(item), dict) for item in broken)
