"""vCPU quotas: their use by launches, surges and drifts, with numbers from AWS's documents."""

import pytest

from sandbox.world import IncompleteError, tokens
from sandbox.world.controllers.quotas import code
from tests.sandbox.world_pieces import Account, refused

G_SPOT, G_ON_DEMAND, STANDARD = "L-3819A6DF", "L-DB2E81BA", "L-1216C47A"
MINIMAL = {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}


@pytest.fixture
def account() -> Account:
    found = Account()
    found.cluster()
    return found


@pytest.mark.parametrize(
    ("kind", "spot", "quota"),
    [
        ("p3.2xlarge", True, "L-7212CCBC"),
        ("p4d.24xlarge", True, "L-7212CCBC"),
        ("p6-b200.48xlarge", False, "L-417A185B"),
        ("p6-b200.48xlarge", True, ""),
        ("p5.48xlarge", True, "L-C4BD4855"),
        ("p5en.48xlarge", True, "L-C4BD4855"),
        ("p5en.48xlarge", False, "L-417A185B"),
        ("g6e.xlarge", True, G_SPOT),
        ("gr6.4xlarge", False, G_ON_DEMAND),
        ("m5.large", False, STANDARD),
    ],
)
def test_an_instance_counts_for_the_quota_of_awss_table(kind: str, spot: bool, quota: str) -> None:
    # https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
    assert code(kind, spot) == quota


@pytest.mark.real_world(
    behaviour="EKS keeps a new node group whose nodes exceed the vCPU quota, and says that the group failed",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html, AsgInstanceLaunchFailures",
)
@pytest.mark.parametrize(
    ("capacity", "quota", "words"),
    [("SPOT", G_SPOT, "MaxSpotInstanceCountExceeded"), ("ON_DEMAND", G_ON_DEMAND, "VcpuLimitExceeded")],
)
def test_a_group_beyond_the_quota_fails_and_stays(account: Account, capacity: str, quota: str, words: str) -> None:
    account.world.allow_vcpus(quota, 4)
    with pytest.raises(IncompleteError, match=words) as caught:
        account.gpu_nodes(count=2, capacityType=capacity)
    assert account.world.read(tokens.NODE_GROUP, caught.value.id) is not None
    assert [one.outputs["instanceType"] for one in account.of(tokens.INSTANCE)] == ["g4dn.xlarge"]
    assert account.world.peaks == {quota: 4}


@pytest.mark.parametrize(
    ("strategy", "peak"),
    # In two zones, the default strategy adds up to two nodes per zone. The minimal one adds none.
    [
        ({}, 2 + 4),
        ({"maxUnavailable": 1, "updateStrategy": "DEFAULT"}, 2 + 4),
        ({"maxUnavailable": 5}, 2 + 5),
        (MINIMAL, 2),
    ],
)
@pytest.mark.real_world(
    behaviour="An update of a node group adds two nodes for each zone, unless its strategy is MINIMAL",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_an_update_adds_nodes_unless_its_strategy_is_minimal(
    account: Account, strategy: dict[str, object], peak: int
) -> None:
    group = account.gpu_nodes(count=2, capacityType="SPOT", updateConfig=strategy)
    account.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert account.world.peaks == {G_SPOT: peak * 4}
    assert len(account.of(tokens.INSTANCE)) == 2
    assert account.world.recycled == {"gpu": 2}


@pytest.mark.real_world(
    behaviour="An update of a node group fails when the quota has no room for one new node in each zone",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_an_update_without_quota_for_its_new_nodes_fails_and_keeps_the_old_ones(account: Account) -> None:
    group = account.gpu_nodes(count=2, capacityType="SPOT")
    before = {one.id for one in account.of(tokens.INSTANCE)}
    account.world.allow_vcpus(G_SPOT, 12)
    with refused("NodeCreationFailure", "MaxSpotInstanceCountExceeded"):
        account.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert {one.id for one in account.of(tokens.INSTANCE)} == before
    account.world.allow_vcpus(G_SPOT, 16)
    account.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert account.world.peaks == {G_SPOT: 16}
    account.world.allow_vcpus(G_SPOT, 8)
    account.change(tokens.NODE_GROUP, group, releaseVersion="last", updateConfig=MINIMAL)
    assert account.world.recycled == {"gpu": 4}


def test_a_parked_group_is_updated_without_nodes(account: Account) -> None:
    group = account.gpu_nodes(count=0)
    account.world.allow_vcpus(G_ON_DEMAND, 0)
    account.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert account.world.peaks == {}
