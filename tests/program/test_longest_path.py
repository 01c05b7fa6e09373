"""On the way to the first token nothing is waited for without need: every edge of the longest path has a reason."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from sandbox.graph import Graph
from sharing import tables
from stacks.stack_file.judge import Plan
from tandem.planned import first_token
from tandem.planned.first_token import NODE_CLAIM

NEEDS = {
    ("providers:aws", "ec2/vpc:Vpc"): "a provider serves its resources",
    ("ec2/vpc:Vpc", "ec2/subnet:Subnet"): "a subnet lies in a VPC",
    (
        "ec2/subnet:Subnet",
        "ec2/subnet:Subnet",
    ): "a new subnet takes a zone that the others do not have, and they remember theirs (docs/decisions/0013)",
    ("ec2/subnet:Subnet", "iam/role:Role"): "eks.Cluster, which makes its role itself, begins when it has its subnets",
    ("iam/role:Role", "iam/rolePolicyAttachment:RolePolicyAttachment"): "a policy is attached to a role",
    ("iam/rolePolicyAttachment:RolePolicyAttachment", "eks/cluster:Cluster"): "the control plane acts by its policies",
    ("eks/cluster:Cluster", "eks/accessEntry:AccessEntry"): "an access entry belongs to a control plane",
    ("eks/accessEntry:AccessEntry", "eks/addon:Addon"): "eks.Cluster creates vpc-cni after the access entries",
    ("eks/addon:Addon", "eks/nodeGroup:NodeGroup"): "without vpc-cni a node never becomes ready",
    ("eks/nodeGroup:NodeGroup", "core/v1:Namespace"): "the plugin's feature discovery has pods on system nodes",
    ("core/v1:Namespace", "helm.sh/v3:Release"): "a release lies in a namespace",
    ("helm.sh/v3:Release", "helm.sh/v3:Release"): "the plugin's feature discovery writes custom resources of NFD's",
    ("helm.sh/v3:Release", "core/v1:Namespace"): "shares are proved when there is a plugin that makes them",
    ("core/v1:Namespace", "core/v1:ConfigMap"): "the provers' scripts lie in a namespace",
    ("core/v1:ConfigMap", "batch/v1:Job"): "a prover runs them",
    ("batch/v1:Job", "batch/v1:Job"): "a share of the old mode is none of the new one's",
    ("batch/v1:Job", "core/v1:Namespace"): "models that run would hold the shares that are to be proved",
    ("batch/v1:Job", "ebs/volume:Volume"): "as for models",
    ("eks/nodeGroup:NodeGroup", "eks/addon:Addon"): "the storage driver has pods",
    ("ebs/volume:Volume", "core/v1:PersistentVolume"): "a PersistentVolume names its volume",
    ("core/v1:PersistentVolume", "core/v1:PersistentVolumeClaim"): "a claim names its PersistentVolume",
    ("core/v1:PersistentVolumeClaim", "helm.sh/v3:Release"): "the pod mounts the claim",
    ("core/v1:Namespace", "core/v1:PersistentVolume"): "a PersistentVolume names the claim that it is for",
    (
        "eks/addon:Addon",
        "helm.sh/v3:Release",
    ): "Karpenter's controller must not outlive DNS, identity and storage driver",
    (
        "helm.sh/v3:Release",
        "karpenter.k8s.aws/v1:EC2NodeClass",
    ): "its controller makes it ready, and cleans up after it",
    ("karpenter.k8s.aws/v1:EC2NodeClass", "karpenter.sh/v1alpha1:NodeOverlay"): "goes only when no node is left",
    ("karpenter.sh/v1alpha1:NodeOverlay", "karpenter.sh/v1:NodePool"): "without shares every pod gets a node",
    ("karpenter.sh/v1:NodePool", "helm.sh/v3:Release"): "on a switch, the plugin changes when the old nodes have gone",
}
"""The real needs. What is not here must not stand on the longest path; what is here must stand on one."""


def edges(graph: Graph, plan: Plan) -> set[tuple[str, str]]:
    path = first_token.first_token(graph, plan.setup).path
    kinds = [graph[step.urn].type.partition(":")[2] for step in path]
    assert all(step.waits_for == before.urn for before, step in pairwise(path))
    return set(pairwise(kinds))


@pytest.mark.slow
def test_every_edge_of_the_longest_path_is_a_real_need(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], any_stack: str
) -> None:
    assert edges(graphs(any_stack), plans(any_stack)) <= set(NEEDS)


def test_every_need_of_the_table_is_met_on_some_stack(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan]
) -> None:
    stacks = ("timeslice", "volumes", "karpenter", "karpenter-volumes")
    assert set().union(*(edges(graphs(stack), plans(stack)) for stack in stacks)) == set(NEEDS)


def test_a_node_that_comes_when_a_model_waits_is_part_of_the_models_time(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan]
) -> None:
    def last(stack: str) -> float:
        found = first_token.first_token(graphs(stack), plans(stack).setup)
        assert found.plus_minus > 2
        return found.path[-1].minutes

    claims = [row for row in tables.read("durations").rows if row["type"] == NODE_CLAIM]
    assert last("karpenter") - last("timeslice") == pytest.approx(float(claims[0]["minutes"]))


def test_doubt_about_the_node_adds_to_the_doubt_about_its_model(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are about one step, whose doubts add up: (a + b)² is more than a² + b²."""

    def doubt(about_the_node: float) -> float:
        times = {**first_token.known_times(), NODE_CLAIM: (1.0, about_the_node)}
        monkeypatch.setattr(first_token, "known_times", lambda: times)
        return first_token.first_token(graphs("karpenter"), plans("karpenter").setup).plus_minus

    assert doubt(4.0) ** 2 > doubt(0.0) ** 2 + 4.0**2 + 1
