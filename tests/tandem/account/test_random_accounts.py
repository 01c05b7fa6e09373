"""`leftovers --delete` in accounts full of other people's things: it deletes all of the stack's, and nothing else."""

from __future__ import annotations

import random

import pytest

from tandem.deployed.aws import leftovers
from tandem.deployed.aws.session import Account
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import CLUSTER, OURS, Emulated, Tags
from tests.tandem.account.passing import Passing
from tests.tandem.account.test_order_of_deletion import KINDS

pytestmark = pytest.mark.slow

SEED = 0
THINGS = 352
"""In the account, beside what they need in their turn."""

KARPENTER = {"eks:eks-cluster-name": CLUSTER, "karpenter.sh/nodepool": "gpu"}
CNI = {"cluster.k8s.amazonaws.com/name": CLUSTER, "node.k8s.amazonaws.com/instance_id": "i-0123456789abcdef0"}
MINE: tuple[Tags, ...] = (
    OURS,
    {**OURS, "Name": "tandem-vpc", "team": "x"},
    {**OURS, **KARPENTER},
    {**OURS, "eks:eks-cluster-name": "anyones", "karpenter.sh/nodepool": "gpu"},
    KARPENTER,
    {**KARPENTER, "topology.kubernetes.io/region": "us-east-1"},
    {"eks:eks-cluster-name": CLUSTER, "karpenter.k8s.aws/ec2nodeclass": "gpu"},
    CNI,
)
NOT_MINE: tuple[Tags, ...] = (
    {},
    {"Name": "tandem-vpc"},
    {**OURS, "tandem:stack": "dev"},
    {**OURS, "tandem:stack": "timeslice2"},
    {**OURS, "tandem:stack": "time"},
    {**OURS, "tandem:stack": "Timeslice"},
    {**OURS, "tandem:stack": "timeslice "},
    {**OURS, "tandem:project": "tandem2"},
    {**OURS, "tandem:project": "Tandem"},
    {"tandem:project": "tandem"},
    {"tandem:stack": "timeslice"},
    {"tandem:project": "tandem", "tandem:Stack": "timeslice"},
    {"Tandem:project": "tandem", "tandem:stack": "timeslice"},
    {"project": "tandem", "stack": "timeslice"},
    {"tandem:project": "timeslice", "tandem:stack": "tandem"},
    {**OURS, **KARPENTER, "tandem:stack": "dev"},
    {**KARPENTER, "tandem:stack": "dev"},
    {**CNI, "tandem:project": "other"},
    {"eks:eks-cluster-name": CLUSTER},
    {"karpenter.sh/nodepool": "gpu"},
    {"cluster.k8s.amazonaws.com/name": CLUSTER},
    {**KARPENTER, "eks:eks-cluster-name": f"{CLUSTER}2"},
    {**KARPENTER, "eks:eks-cluster-name": "tandem"},
    {**KARPENTER, "topology.kubernetes.io/region": "eu-west-1"},
    {f"kubernetes.io/cluster/{CLUSTER}": "owned"},
)


def fill(creation: Creation, chance: random.Random) -> set[tuple[str, str]]:
    """Fills the account; says which things are the stack's."""
    mine = set()
    for number in range(THINGS):
        kind = KINDS[number % len(KINDS)]
        ours = chance.random() < 0.4
        id = creation.make(kind, dict(chance.choice(MINE if ours else NOT_MINE)))
        mine |= {(kind, id)} if ours else set()
    return mine


def going_along(creation: Creation, mine: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """What AWS takes with an instance: its root volume and interface; with a VPC: its own table and group."""
    found = set()
    instances = [id for kind, id in mine if kind == "instances"]
    for reservation in creation.ec2.describe_instances(InstanceIds=instances)["Reservations"] if instances else []:
        for raw in reservation["Instances"]:
            found |= {("volumes", device["Ebs"]["VolumeId"]) for device in raw["BlockDeviceMappings"]}
            found |= {("network interfaces", card["NetworkInterfaceId"]) for card in raw["NetworkInterfaces"]}
    for kind, operation, key, id_key in (
        ("route tables", "describe_route_tables", "RouteTables", "RouteTableId"),
        ("security groups", "describe_security_groups", "SecurityGroups", "GroupId"),
    ):
        every = getattr(creation.ec2, operation)()[key]
        found |= {(kind, raw[id_key]) for raw in every if ("VPCs", raw["VpcId"]) in mine}
    return found


def test_everything_of_the_stack_goes_and_nothing_else(account: Account, emulated: Emulated) -> None:
    creation = Creation(emulated)
    mine = fill(creation, random.Random(SEED))
    before = creation.census()
    assert len(before) > THINGS
    expected = mine | going_along(creation, mine)

    found = leftovers.inventory(account, "timeslice")
    assert {(thing.kind, thing.id) for thing in found.things} == mine
    outcomes = Passing().deletion(account, found).run(found.things, leftovers.KINDS)

    assert [(outcome.what, outcome.why) for outcome in outcomes if outcome.left] == []
    after = creation.census()
    assert before - after - expected == set(), "deleted, and not the stack's"
    assert mine & after == set(), "the stack's, and still there"


def test_all_kinds_and_all_tag_sets_occur() -> None:
    assert 5 * len(KINDS) <= THINGS
    chance = random.Random(SEED)
    drawn = [chance.choice(MINE if chance.random() < 0.4 else NOT_MINE) for _ in range(THINGS)]
    for tags in (*MINE, *NOT_MINE):
        assert any(tags is one for one in drawn), tags
