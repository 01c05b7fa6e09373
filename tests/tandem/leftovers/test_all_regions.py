"""IAM is shared by all regions, so `leftovers --delete` keeps it while any region may contain the stack."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from tandem.aws.resources import singular
from tests.tandem.aws.conftest import Run
from tests.tandem.aws.creation import ROLE, Creation
from tests.tandem.aws.emulated import CLUSTER, OURS, REGION, Emulated

pytestmark = pytest.mark.slow

OTHERS = {"team": "x"}


@pytest.fixture
def identities(creation: Creation) -> set[tuple[str, str]]:
    """A role, a policy and an instance profile of the stack."""
    kinds = ("IAM roles", "IAM policies", "instance profiles")
    return {(kind, creation.make(kind, OURS)) for kind in kinds}


Kept = Callable[[], bool]
CleanUp = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def clean_up(run: Run) -> CleanUp:
    return lambda region: run("timeslice", "--region", region, "--delete", "--yes")


def cluster(region: str, name: str, tags: dict[str, str]) -> None:
    boto3.client("eks", region_name=region).create_cluster(
        name=name, roleArn=ROLE, resourcesVpcConfig={"subnetIds": ["subnet-1"]}, tags=tags
    )


@pytest.fixture
def kept(creation: Creation, identities: set[tuple[str, str]]) -> Kept:
    """Whether all of them still exist. Never only some of them do."""

    def are_there() -> bool:
        there = identities & creation.census()
        assert there in (identities, set())
        return bool(there)

    return are_there


@pytest.mark.parametrize(
    ("name", "tags"),
    [(CLUSTER, OURS), ("another-name", OURS), (CLUSTER, OTHERS)],
    ids=["the stack's", "with its tags alone", "with its name alone"],
)
def test_a_cluster_in_another_region_keeps_them(kept: Kept, clean_up: CleanUp, name: str, tags: dict[str, str]) -> None:
    cluster(REGION, name, tags)
    code, out, _ = clean_up("eu-west-1")
    assert (code, kept()) == (1, True)
    assert out.count(f"IAM is shared by all regions, and the EKS cluster {name} in {REGION} is ACTIVE") == 3
    assert "3 kept" in out


def test_a_node_group_in_another_owners_cluster_keeps_them(creation: Creation, kept: Kept, clean_up: CleanUp) -> None:
    group = creation.node_groups(OURS)
    assert (clean_up("eu-west-1")[0], kept()) == (1, True)
    creation.eks.delete_nodegroup(clusterName="anyones", nodegroupName=group.partition("/")[2])
    assert (clean_up("eu-west-1")[0], kept()) == (0, False)


def test_without_a_cluster_in_any_region_they_are_deleted(emulated: Emulated, kept: Kept, clean_up: CleanUp) -> None:
    cluster("ap-south-1", "anyones", OTHERS)
    emulated.calls.clear()
    assert (clean_up("eu-west-1")[0], kept()) == (0, False)
    # Every region is asked right before each of the three is touched.
    changes = ("RemoveRoleFromInstanceProfile", "DetachRolePolicy", "DeletePolicyVersion")
    for first in map(emulated.calls.index, changes):
        after = first - emulated.calls[first::-1].index("DescribeRegions")
        assert emulated.calls[after:first].count("ListClusters") == 2 * len(emulated.regions)


@pytest.mark.usefixtures("identities")
def test_a_cluster_that_is_created_meanwhile_keeps_the_rest(
    creation: Creation, emulated: Emulated, clean_up: CleanUp
) -> None:
    """`up` in another region may begin while `leftovers --delete` runs: here after the first of two roles."""
    creation.IAM_roles(OURS, "second")

    def begin(operation: str) -> None:
        if operation == "DeleteRole":
            emulated.lost = None
            cluster("ap-south-1", CLUSTER, OURS)

    emulated.lost = begin
    code, out, _ = clean_up("eu-west-1")
    kept = {kind for kind, id in creation.census() if f"kept {singular(kind)} {id}: IAM is shared" in out}
    assert (code, kept, out.count("deleted ")) == (1, {"IAM roles", "IAM policies"}, 2)


def test_the_current_region_is_searched_even_if_the_account_does_not_list_it(
    emulated: Emulated, kept: Kept, clean_up: CleanUp
) -> None:
    emulated.regions = ("ap-south-1",)
    cluster("eu-west-1", CLUSTER, OTHERS)
    assert (clean_up("eu-west-1")[0], kept()) == (1, True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"closed": {"ap-south-1"}}, "ap-south-1 could not be searched: AWS rejected these credentials"),
        (
            {"faults": {"DescribeRegions": ["AccessDenied"]}},
            "its regions could not be listed: These credentials may not call DescribeRegions",
        ),
        ({"faults": {"ListNodegroups": [None, KeyError("nodegroups")]}}, "could not be searched: unexpected KeyError"),
    ],
    ids=["a region", "no right", "a surprise"],
)
def test_a_region_that_cannot_be_searched_counts_as_containing_the_stack(
    emulated: Emulated, kept: Kept, clean_up: CleanUp, change: dict[str, Any], why: str
) -> None:
    for name, value in change.items():
        setattr(emulated, name, value)
    code, out, _ = clean_up(REGION)
    assert (code, kept(), out.count(why)) == (1, True, 3)
