"""One AWS service may assume each role of a stack, on behalf of the stack's own account where AWS says so."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.graph import Graph

ACCOUNT = "123456789012"
"""The account of the emulated caller."""
SERVICES = {
    "tandem-cluster-eksRole-role": ("eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
    "tandem-system-role": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "tandem-ebs-csi-role": ("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
    "tandem-POOL-group-role": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "tandem-karpenter-nodes": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "tandem-karpenter-controller-role": ("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
    "tandem-parking-scheduler-role": ("scheduler.amazonaws.com", "sts:AssumeRole"),
}
OWN_ACCOUNT = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
GROUP = "arn:aws:scheduler:us-east-1:123456789012:schedule-group/"


def statements(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    """Trust policies by role; those of node groups under one name, because they are the same for every pool."""
    return {
        re.sub("tandem-[a-z]+-group-role", "tandem-POOL-group-role", role.name): json.loads(
            role.inputs["assumeRolePolicy"]
        )["Statement"]
        for role in graph.of_type("aws:iam/role:Role")
    }


@pytest.mark.real_world(
    behaviour="`eks`, `pods.eks` and `scheduler` send the account for which they act when they assume a role. Not "
    "every service does, and a condition on what is not sent refuses the service",
    source="EKS and EventBridge Scheduler User Guides, cross-service-confused-deputy-prevention; "
    "awslabs/mountpoint-s3-csi-driver#781; prowler-cloud/prowler#4714",
)
def test_every_role_trusts_one_service_for_this_account(graphs: Callable[[str], Graph], any_stack: str) -> None:
    found = statements(graphs(any_stack))
    assert {"tandem-cluster-eksRole-role", "tandem-system-role", "tandem-ebs-csi-role"} <= found.keys()
    for name, [statement] in found.items():
        service, actions = SERVICES[name]
        condition = dict(OWN_ACCOUNT)
        if service == "scheduler.amazonaws.com":
            # The group, whose name Pulumi completes: another group of the account may belong to somebody else.
            source = statement["Condition"]["ArnEquals"]["aws:SourceArn"]
            assert source.startswith(f"{GROUP}tandem-parking-schedules")
            condition["ArnEquals"] = {"aws:SourceArn": source}
        assert statement == {
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": actions,
            **({} if service == "ec2.amazonaws.com" else {"Condition": condition}),
        }


def test_the_stacks_have_every_role(graphs: Callable[[str], Graph]) -> None:
    assert {name for stack in ("scheduled", "karpenter") for name in statements(graphs(stack))} == SERVICES.keys()
