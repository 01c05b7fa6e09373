"""The order of `leftovers --delete`: the table of what AWS refuses, or breaks, in another order."""

from collections.abc import Collection

import pytest
from botocore.exceptions import ClientError

from tandem.aws import services
from tandem.aws.resources import Resource
from tandem.aws.session import Account
from tandem.leftovers import inventory
from tandem.leftovers.inventory import Inventory
from tests.tandem.aws import scripted
from tests.tandem.aws.cleaning import ORDER, Cleaning
from tests.tandem.aws.emulated import ACCOUNT, OURS, OWNER, REGION, Emulated
from tests.tandem.aws.slow_deletions import Delays

KINDS = tuple(kind.title for kind in inventory.KINDS)
ALL_DELETED = {*((kind, "deleted", "") for kind in KINDS), ("instances", "gone already", "")}
"""The last one. For instances, that is the node group's, which is deleted with the group."""


def test_kinds_that_must_be_deleted_first_are_declared() -> None:
    after = {(first, kind.title) for kind in inventory.KINDS for first in kind.after}
    assert after == ORDER
    for first, then in after:
        assert KINDS.index(first) < KINDS.index(then), (first, then)


@pytest.mark.slow
def test_a_whole_stack_is_deleted(delays: Delays, emulated: Emulated, cleaning: Cleaning) -> None:
    found = cleaning.look()
    assert {resource.kind for resource in found.resources} == set(KINDS)
    outcomes = cleaning.delete(found)
    assert cleaning.too_early == set()
    assert {(one.resource.kind, one.what, one.why) for one in outcomes} == ALL_DELETED
    assert cleaning.resources() == []
    # An add-on is deleted with its cluster, and DeleteAddon then returns ResourceNotFoundException.
    calls = [call for call in emulated.calls if call in ("DeleteNodegroup", "DeleteAddon", "DeleteCluster")]
    assert calls == ["DeleteNodegroup", "DeleteAddon", "DeleteCluster"]


def left(*resources: Resource, unseen: Collection[str] = ()) -> dict[str, tuple[str, str]]:
    """Outcomes and their reasons, if the user agrees to delete only the clusters."""
    found = Inventory(owner=OWNER, resources=resources, unseen=dict.fromkeys(unseen, "denied"))
    made = Cleaning()
    made.account = Account(id=ACCOUNT, region=REGION, session=None, caller="")
    return {one.resource.id: (one.what, one.why) for one in made.delete(found, [services.CLUSTERS])}


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        (1, "node group g1 still exists"),
        (3, "node group g1, node group g2, node group g3 still exist"),
        (4, "node group g1, node group g2, node group g3 and 1 more still exist"),
    ],
)
def test_a_cluster_that_is_needed_is_kept_without_a_request(groups: int, why: str) -> None:
    there = [Resource(kind="node groups", id=f"g{number + 1}", tags=OURS) for number in range(groups)]
    cluster = Resource(kind="EKS clusters", id="c", tags=OURS)
    assert left(cluster, *there) == {"c": ("left alone", why)} | {one.id: ("not agreed", "") for one in there}


def test_what_cannot_be_looked_at_is_not_deleted() -> None:
    denied = ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeVolumes")
    volume = Resource(kind="volumes", id="v", tags=OURS)
    made, account = Cleaning(), scripted.Account({"ec2 describe_volumes": denied})
    made.account = account  # type: ignore[assignment]
    [outcome] = made.delete(Inventory(owner=OWNER, resources=(volume,), unseen={}))
    assert (outcome.what, made.seconds, len(account.requests)) == ("failed", 0, 1)
    assert outcome.why.startswith("These credentials may not call DescribeVolumes")


def test_what_tandem_does_not_delete_or_could_not_search_is_said() -> None:
    cluster, other = (Resource(kind=kind, id=kind, tags=OURS) for kind in ("EKS clusters", "other"))
    assert left(cluster, other, unseen=["node groups", "volumes"]) == {
        "EKS clusters": ("left alone", "node groups could not be listed, and may need it"),
        "other": ("left alone", "tandem does not delete this kind"),
    }
