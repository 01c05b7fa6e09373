"""A VPC of somebody else under the real engine: used, never changed, and still there after `destroy`."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from sandbox.world import Entity, tokens
from sandbox.world.entities import PULUMI
from sandbox.world.foreign import ELSEWHERE, found_vpc
from sharing.sections.existing import ExistingVpc
from tests.engine.emulated import Raise, Stack
from tests.sandbox.outside import Outside

ID, SUBNETS, GROUP = "vpc-0a1b2c3d", ["subnet-0000000a", "subnet-0000000b"], "sg-0a1b2c3d"
OF_NETWORKS = {tokens.VPC, tokens.SUBNET, tokens.GATEWAY, tokens.NAT, tokens.ADDRESS, tokens.ROUTE_TABLE, tokens.ROUTE}
OF_NETWORKS |= {tokens.ASSOCIATION, tokens.ENDPOINT}


def choose_vpc(stack: Stack, groups: Sequence[str] = (GROUP,)) -> None:
    """Writes `cluster.vpc` into the stack file, in place of the settings of a new network."""
    vpc = {"id": ID, "subnets": SUBNETS, "security-groups": [*groups]}
    stack.configure({"cluster": None})
    stack.configure({"cluster": {"public-access-cidrs": ["192.0.2.1/32"], "vpc": vpc}})


@pytest.fixture
def stack(nothing: Raise) -> Stack:
    """A stack that was never deployed, in a cloud in which somebody else has made the VPC."""
    stack = nothing("timeslice")
    choose_vpc(stack)

    def found(world: Outside) -> None:
        vpc = ExistingVpc(id=ID, subnets=SUBNETS, security_groups=[GROUP])
        with world.changing() as entities:
            found_vpc(entities, "us-east-1", vpc)

    stack.behind(found)
    return stack


def everything(stack: Stack, by: str) -> list[Entity]:
    """All resources of one maker."""
    return [one for one in stack.behind(lambda world: world.entities()) if one.made_by == by]


def foreign(stack: Stack) -> str:
    """Everything that somebody else made, as text."""
    return json.dumps([asdict(one) for one in everything(stack, ELSEWHERE)], sort_keys=True)


@pytest.mark.real_world(
    behaviour="EKS puts its network interfaces and nodes into subnets that exist, and changes nothing of the VPC",
    source="EKS user guide, network-reqs.html",
)
def test_a_stack_goes_up_and_down_in_a_vpc_that_stays_as_it_was(stack: Stack) -> None:
    before = foreign(stack)
    assert all(id in before for id in (ID, *SUBNETS, GROUP))
    stack.comes_up()
    assert {one.type for one in everything(stack, PULUMI)} & OF_NETWORKS == set()
    assert {one.inputs["subnetId"] for one in stack.entities(tokens.INTERFACE)} == set(SUBNETS)
    [cluster] = stack.entities(tokens.CLUSTER)
    wanted = [cluster.outputs["vpcConfig"]["clusterSecurityGroupId"], GROUP]
    nodes = [one for one in stack.entities(tokens.INTERFACE) if "instance" in one.inputs]
    assert (len(nodes), [one.inputs["securityGroups"] for one in nodes]) == (3, [wanted] * 3)
    assert stack.comes_up().changed == {}

    choose_vpc(stack, groups=())
    groups = {"tandem-system", "tandem-gpu-group"}
    assert stack.comes_up().changed == {"update": groups | {f"{group}-template" for group in groups}}
    assert (foreign(stack), stack.findings().agree) == (before, True)

    stack.goes_down()
    assert foreign(stack) == before


def test_a_vpc_that_cannot_work_is_refused_before_anything_changes(stack: Stack) -> None:
    def turn_off(vpc: Entity) -> None:
        vpc.inputs["enableDnsHostnames"] = False

    stack.behind(lambda world: world.tamper(tokens.VPC, ID, turn_off))
    stack.stops(saying=f"cluster.vpc.id: {ID} has `enable-dns-hostnames` off, so nodes cannot join the cluster.")
    assert everything(stack, PULUMI) == []


def test_a_cluster_cannot_move_into_a_vpc(raised: Raise) -> None:
    stack = raised("timeslice")
    choose_vpc(stack)
    assert f"cluster.vpc.id: {ID} is not the VPC of the deployed cluster, vpc-" in stack.refuses()


@pytest.mark.real_world(
    behaviour="EKS refuses an update of a cluster with subnets of another VPC",
    source="EKS user guide, create-cluster.html",
)
def test_a_cluster_cannot_leave_a_vpc_and_works_with_the_section_again(stack: Stack) -> None:
    stack.comes_up()
    stack.configure({"cluster": None})
    stack.configure({"cluster": {"public-access-cidrs": ["192.0.2.1/32"]}})
    stack.stops(saying="But they should belong to the VPC of the cluster, vpc-0a1b2c3d.")
    [cluster] = stack.entities(tokens.CLUSTER)
    assert cluster.inputs["vpcConfig"]["subnetIds"] == SUBNETS
    choose_vpc(stack)
    stack.comes_up()
    assert {one.type for one in everything(stack, PULUMI)} & OF_NETWORKS == set()
    stack.goes_down()
