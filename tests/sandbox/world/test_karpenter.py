"""Karpenter's objects in the emulated cloud: their order. tests/cluster/test_karpenter.py runs the real core."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.world import tokens
from tests.sandbox.karpenter_pieces import Karpenter
from tests.sandbox.world_pieces import NODE_POLICIES, TAINT, meta, refused

WAITS = {"pulumi.com/waitFor": "condition=Ready"}


@pytest.fixture
def account() -> Karpenter:
    return Karpenter()


@pytest.fixture
def ready(account: Karpenter) -> Karpenter:
    """A pool of at most two nodes with two shares each."""
    account.node_class()
    account.pool()
    return account


def test_a_pending_pod_gets_a_node_with_all_of_its_resources(ready: Karpenter) -> None:
    assert ready.own == []
    ready.models(1)
    [instance] = ready.of(tokens.INSTANCE, "karpenter")
    assert instance.owner == (tokens.NODE_POOL, "gpu")
    assert instance.inputs["instanceType"] == "g4dn.xlarge"
    [interface] = ready.of(tokens.INTERFACE, "karpenter")
    assert interface.inputs["instance"] == instance.id
    assert interface.inputs["securityGroups"] == ["sg-1"]
    [disk] = ready.of(tokens.VOLUME, "karpenter")
    assert (disk.inputs["size"], disk.inputs["instance"]) == ("100Gi", instance.id)
    [node] = ready.of(tokens.NODE, "karpenter")
    assert node.outputs["metadata"]["labels"]["karpenter.sh/nodepool"] == "gpu"
    assert node.outputs["spec"]["taints"] == [TAINT]
    [pod] = [one for one in ready.of(tokens.POD) if one.name == "m-0"]
    assert pod.outputs["node"] == node.id


def test_pods_fill_a_node_before_the_next_one_up_to_the_limit(ready: Karpenter) -> None:
    for number, nodes in enumerate([1, 1, 2, 2]):
        ready.model(f"m{number}")
        assert len(ready.own) == nodes
    with refused("Timeout", "Insufficient nvidia.com/gpu"):
        ready.model("fifth")


def test_a_pod_that_fits_no_pool_gets_no_node(ready: Karpenter) -> None:
    for values in ({"nodeSelector": {"tandem/pool": "other"}}, {"ollama": {"gpu": {"enabled": True, "number": 3}}}):
        with refused("Timeout", "nodes are available"):
            ready.model(**values)
    assert ready.own == []


@pytest.mark.parametrize("zone", ["us-east-1a", "us-east-1b"])
def test_a_pool_of_one_zone_launches_its_nodes_there(account: Karpenter, zone: str) -> None:
    account.node_class()
    account.pool(zone=zone)
    account.models(1)
    assert [one.inputs["availabilityZone"] for one in account.of(tokens.INSTANCE, "karpenter")] == [zone]


def without_controller(account: Karpenter) -> None:
    account.drop(tokens.RELEASE, account.controller)


def without_identity(account: Karpenter) -> None:
    account.drop(tokens.POD_IDENTITY, account.identity)


def without_policy(account: Karpenter) -> None:
    account.drop(tokens.ATTACHED_POLICY, account.attached["nodes"])


AGENT = "eks-pod-identity-agent"
LACKING: list[tuple[Callable[[Karpenter], None], str]] = [
    (without_controller, "Karpenter's controller is not installed"),
    (without_identity, "gets no credentials: no association for kube-system/karpenter"),
    (lambda account: account.drop(tokens.ADDON, f"c:{AGENT}"), f"gets no credentials: the add-on {AGENT}"),
    (lambda account: account.drop(tokens.ADDON, "c:coredns"), "cannot resolve names: the add-on coredns"),
    (without_policy, "not authorized to perform ec2:"),
]


@pytest.mark.parametrize(("take_away", "words"), LACKING)
def test_a_pool_launches_and_terminates_nodes_only_while_the_controller_can_work(
    ready: Karpenter, take_away: Any, words: str
) -> None:
    ready.model("first")
    take_away(ready)
    ready.drop(tokens.RELEASE, "default/first")
    with refused("Timeout", f"NodePool gpu is Terminating.*{words}"):
        ready.drop(tokens.NODE_POOL, "gpu")
    assert len(ready.own) == 1
    for name in "ab":
        ready.model(name)
    with refused("Timeout", "nodes are available"):
        ready.model("c")


@pytest.mark.parametrize(("take_away", "words"), LACKING[:4])
def test_a_class_is_ready_and_deleted_only_while_the_controller_can_work(
    account: Karpenter, take_away: Any, words: str
) -> None:
    account.node_class()
    take_away(account)
    with refused("Timeout", f"EC2NodeClass gpu is Terminating: its finalizer waits, .*{words}"):
        account.drop(tokens.NODE_CLASS, "gpu")
    for token in (tokens.NODE_CLASS, tokens.NODE_POOL, tokens.NODE_OVERLAY):
        metadata = meta("later", annotations=WAITS)
        with refused("Timeout", f"waiting for the condition Ready: .*{words}"):
            account.make(token, metadata=metadata, spec={})
    if take_away is without_controller:
        account.controllers()
        account.drop(tokens.NODE_CLASS, "gpu")


@pytest.mark.real_world(
    behaviour="Deleting a NodePool deletes its nodes", source="karpenter.sh/docs/concepts/disruption/#manual-methods"
)
def test_deleting_a_pool_deletes_its_nodes_and_without_nodes_needs_no_controller(ready: Karpenter) -> None:
    ready.models(3)
    assert len(ready.own) == 2
    ready.drop(tokens.NODE_POOL, "gpu")
    for token in (tokens.INSTANCE, tokens.INTERFACE, tokens.VOLUME):
        assert ready.of(token, "karpenter") == []
    ready.drop(tokens.RELEASE, "default/m")
    ready.pool()
    without_controller(ready)
    ready.drop(tokens.NODE_POOL, "gpu")


def test_instances_outlive_a_cluster_that_is_deleted_first(ready: Karpenter) -> None:
    ready.models(1)
    ready.drop(tokens.NODE_GROUP, "c:system")
    ready.drop(tokens.CLUSTER, "c")
    left = {one.type for one in ready.world.leftovers([]) if one.made_by == "karpenter"}
    assert left == {tokens.INSTANCE, tokens.INTERFACE, tokens.VOLUME, tokens.PROFILE}


def test_a_class_makes_an_instance_profile_that_holds_the_role(account: Karpenter) -> None:
    account.node_class()
    [profile] = account.of(tokens.PROFILE)
    assert profile.inputs["role"] == "karpenters-nodes"
    for policy in NODE_POLICIES:
        account.drop(tokens.ATTACHED_POLICY, f"karpenters-nodes/arn:aws:iam::aws:policy/{policy}")
    with refused("DeleteConflict", "instance profile"):
        account.drop(tokens.ROLE, "karpenters-nodes")
    account.drop(tokens.NODE_CLASS, "gpu")
    assert account.of(tokens.PROFILE) == []
    account.drop(tokens.ROLE, "karpenters-nodes")


NEEDED = {
    "launch": ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "iam:PassRole"),
    "terminate": ("ec2:TerminateInstances",),
    "delete a class": (
        "iam:ListInstanceProfiles",
        "iam:RemoveRoleFromInstanceProfile",
        "iam:DeleteInstanceProfile",
    ),
}
"""The controller's calls of AWS: karpenter-provider-aws v1.14.1 cloudformation.yaml, and pkg/controllers/nodeclass."""


@pytest.mark.parametrize(("step", "call"), [(step, call) for step, calls in NEEDED.items() for call in calls])
def test_each_step_of_the_controller_needs_the_permission_for_each_of_its_calls(
    ready: Karpenter, step: str, call: str
) -> None:
    if step == "terminate":
        ready.models(1)
    for attached in ready.attached.values():
        ready.drop(tokens.ATTACHED_POLICY, attached)
    others = [one for calls in NEEDED.values() for one in calls if one != call]
    statement = {"Effect": "Allow", "Action": others, "Resource": "*"}
    policy = ready.make(tokens.POLICY, "others", name="others", policy=json.dumps({"Statement": statement}))
    ready.make(tokens.ATTACHED_POLICY, "others", role="controller", policyArn=policy)
    if step == "launch":
        with refused("Timeout", "nodes are available"):
            ready.models(1)
        return
    if step == "delete a class":
        ready.drop(tokens.NODE_POOL, "gpu")
    with refused("Timeout", f"not authorized to perform {call}"):
        ready.drop(tokens.NODE_POOL if step == "terminate" else tokens.NODE_CLASS, "gpu")


def test_a_class_waits_for_the_last_node_of_its_pools(ready: Karpenter) -> None:
    ready.models(1)
    with refused("Timeout", "waits for the nodes of gpu"):
        ready.drop(tokens.NODE_CLASS, "gpu")
    ready.drop(tokens.NODE_POOL, "gpu")
    ready.drop(tokens.NODE_CLASS, "gpu")


def test_a_pool_without_its_class_launches_nothing(account: Karpenter) -> None:
    account.pool()
    with refused("Timeout", "nodes are available"):
        account.models(1)


def test_the_crds_stay_while_no_controller_can_remove_a_node(ready: Karpenter) -> None:
    ready.models(1)
    without_identity(ready)
    with refused("Timeout", "holds the CRD"):
        ready.drop(tokens.RELEASE, ready.crds)
    assert len(ready.own) == 1


@pytest.mark.real_world(
    behaviour="Deleting a CRD deletes every object of its kind",
    source="kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/",
)
def test_deleting_crds_deletes_all_objects_of_their_kinds(ready: Karpenter) -> None:
    ready.models(1)
    ready.drop(tokens.RELEASE, ready.crds)
    left = [ready.of(token) for token in (tokens.NODE_POOL, tokens.NODE_CLASS, tokens.PROFILE, tokens.CRD)]
    assert (ready.own, [crd.name for crd in left.pop()], left) == ([], NFD, [[], [], []])


NFD = [f"{kind}.nfd.k8s-sigs.io" for kind in ("nodefeatures", "nodefeaturegroups", "nodefeaturerules")]
