"""What a stack needs of the account's quotas."""

from typing import Any

import pytest

from sharing import tables
from sharing.gpus import instance_types
from sharing.quotas import needs, quotas, vcpu_quota
from sharing.setup import Setup
from tests.sharing.builders import pool, read_figures, setup


def needed(whole: Setup) -> dict[str, tuple[int, int]]:
    return {need.quota.name: (need.now, need.most) for need in needs(whole)}


def replacing(whole: Setup) -> dict[str, int]:
    return {need.quota.name: need.replacing for need in needs(whole)}


def test_a_small_stack_needs_vcpus_a_vpc_and_a_cluster() -> None:
    assert needed(setup()) == {"g-spot": (4, 4), "standard-on-demand": (4, 4), "vpcs": (1, 1), "clusters": (1, 1)}


@pytest.mark.parametrize(("nat", "zones", "addresses"), [("single", 3, 1), ("per-zone", 3, 3), ("none", 3, None)])
def test_each_gateway_needs_an_address(nat: str, zones: int, addresses: int | None) -> None:
    found = needed(setup(nat=nat, zones=zones)).get("addresses")
    assert found == (None if addresses is None else (addresses, addresses))


@pytest.mark.parametrize(
    ("types", "capacity", "quota", "vcpu"),
    [
        ("g4dn.xlarge", "spot", "g-spot", 4),
        ("g4dn.xlarge", "on-demand", "g-on-demand", 4),
        (("g4dn.xlarge", "g4dn.12xlarge", "g4dn.2xlarge"), "spot", "g-spot", 48),
        ("gr6.4xlarge", "spot", "g-spot", 16),
        ("p4d.24xlarge", "on-demand", "p-on-demand", 96),
        ("p5.4xlarge", "spot", "p5-spot", 16),
    ],
)
def test_a_pool_needs_the_vcpus_of_its_largest_type(
    types: str | tuple[str, ...], capacity: str, quota: str, vcpu: int
) -> None:
    whole = setup(pools=(pool(types, capacity=capacity, desired=2, max=5),))
    assert needed(whole)[quota] == (2 * vcpu, 5 * vcpu)


def test_a_parked_pool_needs_nothing_now_and_all_at_most() -> None:
    assert needed(setup(pools=(pool(desired=0, max=3),)))["g-spot"] == (0, 12)


def test_pools_of_one_family_share_a_quota() -> None:
    pools = (pool("g4dn.xlarge"), pool("g5.xlarge", name="b", desired=2, max=2), pool("p3.2xlarge", name="c"))
    found = needed(setup(pools=pools))
    assert (found["g-spot"], found["p-spot"]) == ((12, 12), (8, 8))


@pytest.mark.parametrize(
    ("zones", "nodes", "vcpus"),
    [
        # m5.xlarge has 4 vCPUs. System nodes live in two zones, however many the cluster has,
        # as `CONTROL_PLANE_ZONES` says.
        (5, 3, (3 + 4) * 4),
        (2, 1, (1 + 4) * 4),
        # Changed subnets replace the group: a second one of as many nodes, where that is more than the surge.
        (2, 6, (6 + 6) * 4),
    ],
)
@pytest.mark.real_world(
    behaviour="An update of system nodes launches up to two nodes for each zone beside them",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_system_nodes_surge_by_two_a_zone_or_have_a_second_group(zones: int, nodes: int, vcpus: int) -> None:
    whole = setup(system_types=("m5.xlarge", "t3.medium"), system_nodes=nodes, zones=zones)
    assert needed(whole)["standard-on-demand"] == (nodes * 4, nodes * 4)
    assert replacing(whole)["standard-on-demand"] == vcpus


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
    behaviour="A drifted node of Karpenter's goes when its replacement is ready, and is beyond the limit until then",
    source="kubernetes-sigs/karpenter v1.14.1, pkg/controllers/disruption/helpers.go, SimulateScheduling",
)
def test_the_way_of_replacement_says_how_many_gpu_nodes_there_are_at_once(options: dict[str, Any], nodes: int) -> None:
    whole = setup(pools=(pool("g5.2xlarge", desired=1, max=3, **options),))
    # g5.2xlarge has 8 vCPUs (AWS, Amazon EC2 G5 instances).
    assert needed(whole)["g-spot"][1] == 3 * 8
    assert replacing(whole)["g-spot"] == nodes * 8


def test_a_pool_that_may_fall_back_to_on_demand_needs_both_quotas() -> None:
    here = pool("g5.2xlarge", max=3, provisioner="karpenter", on_demand_fallback=True)
    whole = setup(pools=(here, pool("p3.2xlarge", name="steady", capacity="on-demand")))
    # g5.2xlarge and p3.2xlarge have 8 vCPUs each. The first `up` may find spot capacity, so it needs no on-demand.
    found = needed(whole)
    assert (found["g-spot"], found["g-on-demand"], found["p-on-demand"]) == ((8, 24), (0, 24), (8, 8))
    assert (replacing(whole)["g-spot"], replacing(whole)["g-on-demand"]) == (32, 32)


def test_addresses_vpcs_and_clusters_are_not_replaced() -> None:
    found = replacing(setup(nat="per-zone", zones=3))
    assert {name: found[name] for name in ("addresses", "vpcs", "clusters")} == {
        "addresses": 3,
        "vpcs": 1,
        "clusters": 1,
    }


@pytest.mark.parametrize("name", sorted(instance_types()))
@pytest.mark.parametrize("capacity", ["spot", "on-demand"])
def test_every_gpu_type_is_counted_by_a_quota(name: str, capacity: str) -> None:
    assert vcpu_quota(name, capacity)  # type: ignore[arg-type]  # parametrized text


@pytest.mark.parametrize(
    "row", read_figures("quotas_of_types"), ids=lambda row: f"{row['instance_type']}-{row['capacity']}"
)
@pytest.mark.real_world(
    behaviour="AWS counts P5 spot instances in a quota of their own",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",
)
def test_an_instance_counts_for_the_quota_that_aws_names(row: dict[str, str]) -> None:
    quota = quotas()[vcpu_quota(row["instance_type"], row["capacity"]) or ""]  # type: ignore[arg-type]  # text
    assert (quota.title, quota.code) == (row["title"], row["code"])


@pytest.mark.parametrize("row", tables.read("system_instances").rows, ids=lambda row: row["instance_type"])
def test_every_system_type_is_a_standard_one(row: tables.Row) -> None:
    assert vcpu_quota(row["instance_type"], "on-demand") == "standard-on-demand"


@pytest.mark.parametrize("name", ["a1", "c5", "d3", "h1", "i3", "im4gn", "is4gen", "m5", "r5", "t3", "z1d"])
def test_other_instances_of_the_account_count_for_the_standard_quota(name: str) -> None:
    # "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": EC2 instance types guide, ec2-instance-quotas.
    assert vcpu_quota(f"{name}.large", "on-demand") == "standard-on-demand"


@pytest.mark.parametrize("name", ["inf2.xlarge", "trn1.2xlarge", "dl1.24xlarge", "x2idn.16xlarge", "mac1.metal", "f1"])
def test_other_families_have_quotas_that_no_stack_meets(name: str) -> None:
    assert vcpu_quota(name, "on-demand") is None
    assert vcpu_quota("c5.large", "spot") is None


def test_quotas_have_the_codes_of_the_service_quotas_api() -> None:
    assert {name: (quota.service, quota.code) for name, quota in quotas().items()} == {
        "g-on-demand": ("ec2", "L-DB2E81BA"),
        "g-spot": ("ec2", "L-3819A6DF"),
        "p-on-demand": ("ec2", "L-417A185B"),
        "p-spot": ("ec2", "L-7212CCBC"),
        "p5-spot": ("ec2", "L-C4BD4855"),
        "p6-spot": ("ec2", ""),
        "standard-on-demand": ("ec2", "L-1216C47A"),
        "addresses": ("ec2", "L-0263D0A3"),
        "vpcs": ("vpc", "L-F678F1CE"),
        "clusters": ("eks", "L-1194D53C"),
    }
