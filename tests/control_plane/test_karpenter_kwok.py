"""Our Karpenter objects in the words of the provider for fake nodes."""

import copy
from typing import Any

import pytest

from components.karpenter_gpu_pool import KarpenterPool
from components.karpenter_gpu_pool.manifests import node_class, node_overlays, node_pool
from sharing.modes import TimeSlicing
from tests.control_plane.karpenter_kwok import GROUP, NODE_CLASS, translated
from tests.control_plane.karpenter_types import GPU_COUNT, INSTANCE_TYPE

Object = dict[str, Any]
OURS = KarpenterPool(name="shared", sharing=TimeSlicing(replicas=4), instance_types=["g4dn.12xlarge"])


def requirements(pool: Object) -> list[Object]:
    found: list[Object] = pool["spec"]["template"]["spec"]["requirements"]
    return found


def test_an_ec2_node_class_becomes_the_providers_own_of_the_same_name() -> None:
    ours = node_class(OURS, role="r", subnet_ids=["s"], security_group_id="g", tags={})
    metadata = {"name": "shared"}
    assert translated(ours) == {"apiVersion": f"{GROUP}/v1alpha1", "kind": NODE_CLASS, "metadata": metadata, "spec": {}}


def test_a_pool_refers_to_that_class_and_names_the_types_with_its_number_of_gpus() -> None:
    ours = node_pool(OURS)
    before = copy.deepcopy(ours)
    made = translated(ours)
    assert ours == before, "the object itself is left alone"
    spec, template = made["spec"]["template"]["spec"], ours["spec"]["template"]["spec"]
    assert spec.pop("nodeClassRef") == {"group": GROUP, "kind": NODE_CLASS, "name": "shared"}
    del template["nodeClassRef"]
    [resolved] = [one for one in requirements(made) if one not in requirements(ours)]
    [count] = [one for one in requirements(ours) if one not in requirements(made)]
    assert count == {"key": GPU_COUNT, "operator": "In", "values": ["4"]}
    assert (resolved["key"], resolved["operator"]) == (INSTANCE_TYPE, "In")
    assert {"g4dn.12xlarge", "g6.12xlarge"} <= set(resolved["values"])
    assert not {"g4dn.xlarge", "g4dn.metal", "t3.medium"} & set(resolved["values"])
    spec["requirements"] = template["requirements"]
    assert made == ours, "everything else is kept"


def test_a_slice_of_a_gpu_counts_as_none_and_no_gpu_does_not_count() -> None:
    pool = node_pool(KarpenterPool(name="slices", sharing=TimeSlicing(replicas=2), instance_types=["g6f.xlarge"]))
    named = {name for one in requirements(translated(pool)) if one["key"] == INSTANCE_TYPE for name in one["values"]}
    assert "g6f.xlarge" in named
    assert "t3.medium" not in named


def test_overlays_look_at_types_and_stay_as_they_are() -> None:
    for overlay in node_overlays(OURS):
        assert translated(overlay) == overlay


@pytest.mark.parametrize(
    "rule",
    [
        {"key": GPU_COUNT, "operator": "Gt", "values": ["1"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]},
    ],
)
def test_a_rule_that_would_not_be_followed_is_refused(rule: Object) -> None:
    pool = node_pool(OURS)
    requirements(pool).append(rule)
    with pytest.raises(ValueError, match="only numbers of GPUs are followed"):
        translated(pool)
