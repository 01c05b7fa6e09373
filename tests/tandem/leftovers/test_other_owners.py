"""`leftovers --delete` in an account with other owners' resources: it deletes all of the stack's, and nothing else."""

import tomllib
from pathlib import Path

import pytest

from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import OURS
from tests.tandem.leftovers.test_order_of_deletion import KINDS

pytestmark = pytest.mark.slow

ENTITIES = 360
"""Fifteen of each kind, and at least ten with each of the tags, in addition to the resources that they need."""
TAGS = tomllib.loads(Path(__file__).with_name("tags.toml").read_text())
OWNERS = [(tags, ours) for key, ours in (("mine", True), ("not-mine", False)) for tags in TAGS[key]]


def fill(creation: Creation) -> set[tuple[str, str]]:
    """Fills the account; returns the resources of the stack."""
    mine = set()
    for number in range(ENTITIES):
        kind, (tags, ours) = KINDS[number % len(KINDS)], OWNERS[number % len(OWNERS)]
        id = creation.make(kind, dict(tags))
        mine |= {(kind, id)} if ours else set()
    return mine


def going_along(creation: Creation, mine: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Resources that AWS deletes with an instance: its root volume and interface."""
    found = set()
    instances = [id for kind, id in mine if kind == "instances"]
    for reservation in creation.ec2.describe_instances(InstanceIds=instances)["Reservations"]:
        for raw in reservation["Instances"]:
            found |= {("volumes", device["Ebs"]["VolumeId"]) for device in raw["BlockDeviceMappings"]}
            found |= {("network interfaces", one["NetworkInterfaceId"]) for one in raw["NetworkInterfaces"]}
    return found


def test_all_resources_of_the_stack_and_no_others_are_deleted(creation: Creation, cleaning: Cleaning) -> None:
    mine = fill(creation)
    assert {kind for kind, _ in mine} == {*KINDS}
    before = creation.census()
    expected = mine | going_along(creation, mine)

    found = cleaning.look()
    assert {(resource.kind, resource.id) for resource in found.resources} == mine
    outcomes = cleaning.delete(found)

    assert [(outcome.what, outcome.why) for outcome in outcomes if outcome.left] == []
    after = creation.census()
    assert before - after - expected == set(), "deleted, but not the stack's"
    assert mine & after == set(), "the stack's, but not deleted"


def test_a_cluster_that_the_stack_uses_stays_with_everything_else_in_it(creation: Creation, cleaning: Cleaning) -> None:
    cluster = creation.EKS_clusters({"team": "platform"}, "platform")
    creation.node_groups({"team": "platform"}, cluster)
    creation.add_ons({"team": "platform"}, cluster)
    before = creation.census()
    ours = creation.node_groups(OURS, cluster)
    assert cleaning.resources() == [("node groups", ours)]
    cleaning.delete()
    assert creation.census() == before
