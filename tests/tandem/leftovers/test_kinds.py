"""`tandem leftovers` knows every kind of AWS resource that a stack, or a component of one, creates."""

from typing import Any

import pytest

from sandbox.graph import Graph
from sandbox.preview.program import run
from tests.components.conftest import BUILDERS
from tests.program.conftest import VARIANTS, graph_of
from tests.shipped import STACKS
from tests.tandem.leftovers.test_order_of_deletion import KINDS

CREATED = {
    "aws:budgets/budget:Budget": "budgets",
    "aws:cloudwatch/eventRule:EventRule": "EventBridge rules",
    "aws:cloudwatch/logGroup:LogGroup": "log groups",
    "aws:ebs/volume:Volume": "volumes",
    "aws:ec2/eip:Eip": "elastic IPs",
    "aws:ec2/internetGateway:InternetGateway": "internet gateways",
    "aws:ec2/launchTemplate:LaunchTemplate": "launch templates",
    "aws:ec2/natGateway:NatGateway": "NAT gateways",
    "aws:ec2/routeTable:RouteTable": "route tables",
    "aws:ec2/subnet:Subnet": "subnets",
    "aws:ec2/vpc:Vpc": "VPCs",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "VPC endpoints",
    "aws:eks/addon:Addon": "add-ons",
    "aws:eks/cluster:Cluster": "EKS clusters",
    "aws:eks/nodeGroup:NodeGroup": "node groups",
    "aws:iam/policy:Policy": "IAM policies",
    "aws:iam/role:Role": "IAM roles",
    "aws:scheduler/scheduleGroup:ScheduleGroup": "schedule groups",
    "aws:sqs/queue:Queue": "SQS queues",
}
"""Types that have tags of their own, and their kind."""
DELETED_WITH = {
    "aws:cloudwatch/eventTarget:EventTarget": "EventBridge rules",
    "aws:ec2/route:Route": "route tables",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "route tables",
    "aws:eks/accessEntry:AccessEntry": "EKS clusters",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "EKS clusters",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "EKS clusters",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "IAM roles",
    "aws:scheduler/schedule:Schedule": "schedule groups",
    "aws:sqs/queuePolicy:QueuePolicy": "SQS queues",
}
"""Types that do not exist without a resource of this kind."""
MADE_BY_OTHERS = {"instances", "network interfaces", "snapshots", "security groups", "instance profiles"}
"""Kinds that EKS, Karpenter, the VPC CNI or a user of the stack creates."""


def types(graph: Graph) -> set[str]:
    return {one.type for one in graph if one.type.startswith("aws:")}


@pytest.mark.slow
def test_every_type_of_every_stack_and_component_is_found_or_deleted_with_what_is_found() -> None:
    found: set[str] = set()
    for stack in (*STACKS, *VARIANTS):
        found |= types(graph_of(stack))
    for build in BUILDERS.values():
        made: Any = build
        found |= types(run(lambda made=made: made("one", None), project="test", stack="test"))  # type: ignore[misc]
    assert found == {*CREATED, *DELETED_WITH}


def test_every_kind_is_that_of_a_type_or_made_by_others() -> None:
    assert {*CREATED.values(), *DELETED_WITH.values()} | MADE_BY_OTHERS == {*KINDS}
    assert not {*CREATED.values()} & MADE_BY_OTHERS
    assert {*DELETED_WITH.values()} <= {*CREATED.values()}
