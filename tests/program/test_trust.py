"""One AWS service may assume each role of a stack, on behalf of the stack's own account where AWS says so."""

import json
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
    "tandem-gpu-group-role": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "tandem-karpenter-nodes": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "tandem-karpenter-controller-role": ("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
}


def statements(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    roles = graph.of_type("aws:iam/role:Role")
    return {role.name: json.loads(role.inputs["assumeRolePolicy"])["Statement"] for role in roles}


@pytest.mark.real_world(
    behaviour="`eks` and `pods.eks` send the account for which they act when they assume a role. Not every service "
    "does, and a condition on what is not sent refuses the service",
    source="EKS User Guide, cross-service-confused-deputy-prevention; awslabs/mountpoint-s3-csi-driver#781; "
    "prowler-cloud/prowler#4714",
)
@pytest.mark.parametrize("stack", ["timeslice", "karpenter"])
def test_every_role_trusts_one_service_for_this_account(graphs: Callable[[str], Graph], stack: str) -> None:
    found = statements(graphs(stack))
    assert len(found) == (4 if stack == "timeslice" else 5)
    for name, [statement] in found.items():
        service, actions = SERVICES[name]
        own_account = {"Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT}}}
        assert statement == {
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": actions,
            **({} if service == "ec2.amazonaws.com" else own_account),
        }
