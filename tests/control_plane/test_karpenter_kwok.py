"""Our Karpenter objects in the words of the provider for fake nodes."""

import copy
from typing import Any

import pytest

from tests.control_plane.karpenter_kwok import GROUP, NODE_CLASS, translated
from tests.control_plane.karpenter_types import AWS, INSTANCE_TYPE

ON_SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
Object = dict[str, Any]


def rule(label: str, operator: str, *values: str) -> Object:
    return {"key": f"{AWS}instance-{label}", "operator": operator, "values": list(values)}


def pool(*requirements: Object) -> Object:
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
        "requirements": list(requirements),
        "expireAfter": "336h",
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "shared"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}, "limits": {"nodes": "2"}},
    }


def overlay(*requirements: Object) -> Object:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "shares"},
        "spec": {"weight": 10, "requirements": list(requirements), "capacity": {"nvidia.com/gpu": "4"}},
    }


def requirements_of(pool: Object) -> list[Object]:
    found: list[Object] = translated(pool)["spec"]["template"]["spec"]["requirements"]
    return found


def types_for(*requirements: Object) -> set[str]:
    [resolved] = requirements_of(pool(*requirements))
    assert (resolved["key"], resolved["operator"]) == (INSTANCE_TYPE, "In")
    return set(resolved["values"])


def test_an_ec2_node_class_becomes_the_providers_own_of_the_same_name() -> None:
    ours = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "gpu"},
        "spec": {"role": "r"},
    }
    made = translated(ours)
    assert (made["apiVersion"], made["kind"], made["metadata"]) == (f"{GROUP}/v1alpha1", NODE_CLASS, {"name": "gpu"})
    assert made["spec"] == {}


def test_a_pool_refers_to_that_class_and_keeps_everything_else() -> None:
    ours = pool(ON_SPOT)
    made = translated(ours)
    template = made["spec"]["template"]["spec"]
    assert template.pop("nodeClassRef") == {"group": GROUP, "kind": NODE_CLASS, "name": "gpu"}
    ours["spec"]["template"]["spec"].pop("nodeClassRef")
    assert made == ours


def test_the_object_itself_is_left_alone() -> None:
    for ours in (pool(rule("gpu-count", "In", "1")), overlay(rule("gpu-count", "In", "1"))):
        before = copy.deepcopy(ours)
        translated(ours)
        assert ours == before


def test_rules_on_awss_labels_become_the_instance_types_that_keep_all_of_them() -> None:
    four_t4 = rule("gpu-name", "In", "t4"), rule("gpu-count", "In", "4")
    assert requirements_of(pool(four_t4[0], ON_SPOT, four_t4[1])) == [
        ON_SPOT,
        {"key": INSTANCE_TYPE, "operator": "In", "values": ["g4dn.12xlarge"]},
    ]


def test_a_rule_on_instance_types_stays_beside_what_is_resolved() -> None:
    chosen = {"key": INSTANCE_TYPE, "operator": "In", "values": ["g4dn.xlarge"]}
    assert requirements_of(pool(chosen, rule("family", "In", "p4d"))) == [
        chosen,
        {"key": INSTANCE_TYPE, "operator": "In", "values": ["p4d.24xlarge"]},
    ]


@pytest.mark.parametrize(
    ("asked", "has", "has_not"),
    [
        (rule("family", "In", "g6", "g6e"), {"g6.xlarge", "g6e.xlarge"}, {"g6f.xlarge"}),
        (rule("gpu-name", "NotIn", "t4"), {"g6.xlarge", "t3.medium"}, {"g4dn.xlarge"}),
        (rule("gpu-count", "Exists"), {"g6f.xlarge", "p4d.24xlarge"}, {"t3.medium"}),
        (rule("gpu-count", "DoesNotExist"), {"t3.medium"}, {"g6f.xlarge"}),
        (rule("gpu-count", "Gt", "1"), {"g4dn.12xlarge"}, {"g4dn.xlarge", "t3.medium"}),
        (rule("gpu-count", "Gte", "1"), {"g4dn.xlarge"}, {"g6f.xlarge", "t3.medium"}),
        (rule("gpu-memory", "Lt", "16384"), {"g6f.xlarge"}, {"g4dn.xlarge", "t3.medium"}),
        (rule("gpu-memory", "Lte", "16384"), {"g6f.xlarge", "g4dn.xlarge"}, {"g6.xlarge", "t3.medium"}),
    ],
    ids=lambda one: one.get("operator", "") if isinstance(one, dict) else "",
)
def test_each_operator_means_what_it_means_to_karpenter(asked: Object, has: set[str], has_not: set[str]) -> None:
    found = types_for(asked)
    assert has <= found
    assert not has_not & found


def test_an_overlay_is_resolved_in_the_same_way_and_keeps_its_shares() -> None:
    made = translated(overlay(ON_SPOT, rule("gpu-name", "In", "a100")))
    assert made["spec"] == {
        "weight": 10,
        "capacity": {"nvidia.com/gpu": "4"},
        "requirements": [
            ON_SPOT,
            {"key": INSTANCE_TYPE, "operator": "In", "values": ["p4d.24xlarge", "p4de.24xlarge"]},
        ],
    }


def test_a_size_that_is_a_whole_type_is_told_with_what_was_asked() -> None:
    with pytest.raises(ValueError, match=r"NodePool shared: no instance type has karpenter\.k8s\.aws/instance-size In"):
        translated(pool(rule("size", "In", "g5.xlarge")))


def test_an_overlay_rule_that_would_not_be_followed_is_refused() -> None:
    elsewhere = {"key": "karpenter.sh/nodepool", "operator": "NotIn", "values": ["other"]}
    with pytest.raises(ValueError, match=r"NodeOverlay shares: karpenter\.sh/nodepool NotIn"):
        translated(overlay(elsewhere))


def test_least_numbers_of_values_cannot_be_said_and_are_refused() -> None:
    with pytest.raises(ValueError, match="minValues"):
        translated(pool({**rule("family", "In", "g5", "g6"), "minValues": 2}))


def test_objects_of_other_kinds_stay_as_they_are() -> None:
    ours = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ollama"}}
    assert translated(ours) == ours
