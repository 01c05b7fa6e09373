"""How much of the account's quotas a stack needs."""

from typing import Any

import pytest

from sharing.cost.quotas import needs, quotas, vcpu_quota
from sharing.hardware.gpus import instance_types
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity
from tests.sharing.builders import pool, read_cases, read_figures, setup
from tests.sharing.rows import read_setup

CASES = read_cases("quotas")


def taken(whole: StackConfig) -> dict[str, list[int]]:
    """By our names for the quotas: now, at most, and while nodes are replaced."""
    return {need.quota.name: [need.now, need.most, need.replacing] for need in needs(whole)}


@pytest.mark.parametrize("name", CASES)
def test_a_stack_needs_the_quotas_in_the_table(name: str) -> None:
    case = CASES[name]
    found = taken(read_setup(case.get("stack", {})))
    assert found.items() >= case["takes"].items()
    assert not case.get("exactly") or found == case["takes"]


@pytest.mark.parametrize(
    ("zones", "nodes", "vcpus"),
    [
        # m5.xlarge has 4 vCPUs. System nodes live in two zones, however many the cluster has,
        # as `CONTROL_PLANE_ZONES` says.
        (5, 3, (3 + 4) * 4),
        (2, 1, (1 + 4) * 4),
        # Changed subnets replace the group: a second one of the same size runs, if that is more than the surge.
        (2, 6, (6 + 6) * 4),
    ],
)
@pytest.mark.real_world(
    behaviour="An update of system nodes launches up to two nodes for each zone beside them",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_system_nodes_surge_by_two_per_zone_or_have_a_second_group(zones: int, nodes: int, vcpus: int) -> None:
    whole = setup(system_types=("m5.xlarge", "t3.medium"), system_nodes=nodes, zones=zones)
    assert taken(whole)["standard-on-demand"] == [nodes * 4, nodes * 4, vcpus]


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ({}, 3 + 3),
        ({"replacement": "delete-first"}, 3),
        ({"provisioner": "karpenter"}, 3 + 1),
        ({"provisioner": "karpenter", "replacement": "delete-first"}, 3 + 1),
    ],
    ids=["create-first", "delete-first", "karpenter", "karpenter-delete-first"],
)
@pytest.mark.real_world(
    behaviour="Karpenter removes a drifted node once its replacement is ready; until then they exceed the limit by one",
    source="kubernetes-sigs/karpenter v1.14.1, pkg/controllers/disruption/helpers.go, SimulateScheduling",
)
def test_the_replacement_setting_decides_how_many_gpu_nodes_run_at_once(options: dict[str, Any], nodes: int) -> None:
    whole = setup(pools=(pool("g5.2xlarge", desired=1, max=3, **options),))
    # g5.2xlarge has 8 vCPUs (AWS, Amazon EC2 G5 instances).
    assert taken(whole)["g-spot"] == [8, 3 * 8, nodes * 8]


@pytest.mark.parametrize("capacity", ["spot", "on-demand"])
def test_every_gpu_type_is_counted_by_a_quota(capacity: Capacity) -> None:
    assert [name for name in instance_types() if not vcpu_quota(name, capacity)] == []


@pytest.mark.parametrize(
    "row", read_figures("quotas_of_types"), ids=lambda row: f"{row['instance_type']}-{row['capacity']}"
)
@pytest.mark.real_world(
    behaviour="AWS counts P5 spot instances toward their own quota",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",
)
def test_an_instance_counts_toward_the_quota_that_aws_names(row: dict[str, str]) -> None:
    quota = quotas()[vcpu_quota(row["instance_type"], row["capacity"]) or ""]  # type: ignore[arg-type]  # text
    assert (quota.title, quota.code) == (row["title"], row["code"])


@pytest.mark.parametrize("name", ["a1", "c5", "d3", "h1", "i3", "im4gn", "is4gen", "m5", "r5", "t3", "z1d"])
def test_other_instances_of_the_account_count_toward_the_standard_quota(name: str) -> None:
    # "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": EC2 instance types guide, ec2-instance-quotas.
    assert vcpu_quota(f"{name}.large", "on-demand") == "standard-on-demand"
    assert vcpu_quota("x2idn.16xlarge", "on-demand") is None
