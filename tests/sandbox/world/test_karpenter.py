"""Rules of Karpenter for the creation and deletion of its nodes and objects."""

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
    """A pool whose overlay counts two shares for each node."""
    account.node_class()
    account.overlay("2")
    account.pool()
    return account


# Launches of nodes.


def test_a_pending_pod_gets_a_node_with_all_of_its_resources(ready: Karpenter) -> None:
    assert ready.own == []
    ready.models(1)
    [instance], [claim] = ready.own, ready.of(tokens.NODE_CLAIM)
    assert claim.owner == (tokens.NODE_POOL, "gpu")
    [interface] = ready.of(tokens.INTERFACE, "karpenter")
    assert interface.inputs["instance"] == instance
    assert interface.inputs["securityGroups"] == ["sg-1"]
    [disk] = ready.of(tokens.VOLUME, "karpenter")
    assert (disk.inputs["size"], disk.inputs["instance"]) == ("100Gi", instance)
    [node] = ready.of("kubernetes:core/v1:Node", "karpenter")
    assert node.outputs["metadata"]["labels"]["karpenter.sh/nodepool"] == "gpu"
    assert node.outputs["spec"]["taints"] == [TAINT]
    [pod] = [one for one in ready.of(tokens.POD) if one.name == "m-0"]
    assert pod.outputs["node"] == node.id


@pytest.mark.parametrize(
    ("pods", "shares", "nodes"),
    [(4, 4, 1), (8, 4, 2), (17, 4, 5), (4, None, 4), pytest.param(17, None, 17, marks=pytest.mark.slow)],
)
def test_pods_are_counted_by_the_overlay_and_by_gpus_without_one(
    account: Karpenter, pods: int, shares: int | None, nodes: int
) -> None:
    config = {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
    values = {"config": {"default": "a", "map": {"a": json.dumps(config)}}, "gfd": {"enabled": True}}
    account.change(tokens.RELEASE, "kube-system/plugin", values=values)
    account.node_class()
    if shares:
        account.overlay(str(shares))
    account.pool(nodes=None)
    account.models(pods)
    assert len(account.own) == nodes


TYPE = "node.kubernetes.io/instance-type"
OVERLAYS: dict[str, tuple[list[dict[str, Any]], int, int]] = {
    "one for another pool": ([{"count": "2", "needs": ("karpenter.sh/nodepool", "gpus")}], 2, 2),
    "one for another type": ([{"count": "2", "needs": (TYPE, "g4dn.2xlarge")}], 2, 2),
    "one for a label that no node has": ([{"count": "2", "needs": ("not.a/label", "x")}], 2, 2),
    "one of a greater weight": ([{"count": "2", "weight": 2}, {"count": "1", "weight": 1}], 2, 1),
    "one larger than the number of shares": ([{"count": "8"}], 4, 2),
}
"""Overlays, the number of pods, and the number of nodes that they get."""


@pytest.mark.parametrize("case", OVERLAYS)
def test_the_matching_overlay_with_the_greatest_weight_applies(account: Karpenter, case: str) -> None:
    overlays, pods, nodes = OVERLAYS[case]
    account.node_class()
    for number, spec in enumerate(overlays):
        needs = [spec.pop("needs")] if "needs" in (spec := dict(spec)) else []
        account.overlay(spec.pop("count"), *needs, name=f"o{number}", **spec)
    account.pool()
    account.models(pods)
    assert len(account.own) == nodes


@pytest.mark.real_world(
    behaviour="Karpenter reads NodeOverlays only with the feature gate NodeOverlay",
    source="karpenter.sh/docs/reference/settings/#feature-gates",
)
def test_overlays_need_their_gate(account: Karpenter) -> None:
    account.drop(tokens.RELEASE, account.controller)
    account.controllers(gate=False)
    spec: dict[str, Any] = {"requirements": [], "capacity": {}}
    with refused("Timeout", "gate NodeOverlay is off"):
        account.make(tokens.NODE_OVERLAY, metadata=meta("awaited", annotations=WAITS), spec=spec)
    account.node_class()
    account.overlay("2")
    account.pool()
    account.models(2)
    assert len(account.own) == 2


def test_a_slice_of_a_gpu_needs_an_overlay(account: Karpenter) -> None:
    account.node_class()
    account.pool(kinds=("g6f.xlarge",))
    with refused("Timeout", "no instance type satisfied"):
        account.models(1)
    account.overlay("2")
    account.models(1)
    assert len(account.own) == 1


def test_a_limit_of_nodes_stops_only_later_pods(account: Karpenter) -> None:
    account.node_class()
    account.overlay("2")
    account.pool(nodes=2)
    account.models(5)
    assert len(account.own) == 3  # seen on Karpenter's core: tests/cluster/test_karpenter.py
    account.model("sixth")
    with refused("Timeout", "exceed limits"):
        account.model("seventh")


def test_a_limit_of_shares_holds(account: Karpenter) -> None:
    account.node_class()
    account.overlay("2")
    account.pool(shares=4)
    with refused("Timeout", "exceed limits"):
        account.models(5)
    assert account.own == []
    account.models(4)
    assert len(account.own) == 2
    with refused("Timeout", "exceed limits"):
        account.model("more")
    account.change(
        tokens.NODE_POOL,
        "gpu",
        spec={**account.outputs(tokens.NODE_POOL, "gpu")["spec"], "limits": {"nvidia.com/gpu": "6"}},
    )
    account.model("more")
    assert len(account.own) == 3


def test_a_pod_that_fits_no_pool_gets_no_node(ready: Karpenter) -> None:
    for values in ({"nodeSelector": {"tandem/pool": "other"}}, {"ollama": {"gpu": {"enabled": True, "number": 3}}}):
        with refused("Timeout", "no instance type satisfied"):
            ready.model(**values)
    assert ready.own == []


def test_a_pod_with_a_volume_gets_a_node_in_its_zone(ready: Karpenter) -> None:
    ready.driver()
    zone = "us-east-1b"
    ready.volume("files", zone)
    ready.model(persistentVolume={"enabled": True, "existingClaim": "files"})
    assert [one.inputs["availabilityZone"] for one in ready.of(tokens.INSTANCE, "karpenter")] == [zone]


def test_a_pool_of_one_zone_launches_its_nodes_there(account: Karpenter) -> None:
    account.node_class()
    account.pool(zone="us-east-1b")
    account.models(2)
    assert [one.inputs["availabilityZone"] for one in account.of(tokens.INSTANCE, "karpenter")] == ["us-east-1b"] * 2


def test_a_node_joins_only_with_an_access_entry_of_its_kind(ready: Karpenter) -> None:
    ready.drop(tokens.ACCESS_ENTRY, ready.entry)
    with refused("Timeout", "do not register: no EC2_LINUX access entry"):
        ready.models(1)
    ready.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=ready.node_role, type="STANDARD")
    with refused("Timeout", "do not register"):
        ready.models(1)
    ready.drop(tokens.ACCESS_ENTRY, ready.entry)
    ready.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=ready.node_role, type="EC2_LINUX")
    ready.models(1)


def test_a_node_joins_only_with_the_policies_of_its_role(ready: Karpenter) -> None:
    policy = "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
    ready.drop(tokens.ATTACHED_POLICY, f"karpenters-nodes/{policy}")
    with refused("Timeout", "lacks AmazonEKS_CNI_Policy"):
        ready.models(1)
    ready.make(tokens.ATTACHED_POLICY, role="karpenters-nodes", policyArn=policy)
    ready.models(1)


# Requirements of the controller.


def without_controller(account: Karpenter) -> None:
    account.drop(tokens.RELEASE, account.controller)


def with_tainted_system_nodes(account: Karpenter) -> None:
    account.change(tokens.NODE_GROUP, "c:system", taints=[TAINT])
    account.change(tokens.NODE_GROUP, "c:system", releaseVersion="later")


def without_identity(account: Karpenter) -> None:
    account.drop(tokens.POD_IDENTITY, account.identity)


def without_node_policy(account: Karpenter) -> None:
    account.drop(tokens.ATTACHED_POLICY, account.attached["nodes"])


AGENT = "eks-pod-identity-agent"
LACKING: list[tuple[Callable[[Karpenter], None], str]] = [
    (without_controller, "Karpenter's controller is not installed"),
    (lambda account: account.drop(tokens.NODE_GROUP, "c:system"), "Karpenter's controller is not installed"),
    (with_tainted_system_nodes, "Karpenter's controller is not installed"),
    (without_identity, "gets no credentials: no association for kube-system/karpenter"),
    (lambda account: account.drop(tokens.ADDON, f"c:{AGENT}"), f"gets no credentials: the add-on {AGENT}"),
    (lambda account: account.drop(tokens.ADDON, "c:coredns"), "cannot resolve names: the add-on coredns"),
    (without_node_policy, "not authorized to perform ec2:"),
]


@pytest.mark.parametrize(("take_away", "words"), LACKING)
def test_nodes_are_launched_only_while_the_controller_can_work(ready: Karpenter, take_away: Any, words: str) -> None:
    take_away(ready)
    with refused("Timeout", words):
        ready.models(1)
    assert ready.own == []


@pytest.mark.parametrize(("take_away", "words"), LACKING)
def test_a_pool_with_nodes_is_deleted_only_while_the_controller_can_work(
    ready: Karpenter, take_away: Any, words: str
) -> None:
    ready.models(1)
    take_away(ready)
    with refused("Timeout", f"NodePool gpu is Terminating.*{words}"):
        ready.drop(tokens.NODE_POOL, "gpu")
    assert len(ready.own) == 1


def test_deleting_a_pool_deletes_its_nodes_and_without_nodes_needs_no_controller(ready: Karpenter) -> None:
    ready.models(3)
    assert len(ready.own) == 2
    ready.drop(tokens.NODE_POOL, "gpu")
    assert ready.of(tokens.NODE_CLAIM) == []
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
    assert len(ready.own) == 1
    assert {one.type for one in ready.world.leftovers([]) if one.made_by == "karpenter"} == {
        tokens.INSTANCE,
        tokens.INTERFACE,
        tokens.VOLUME,
        tokens.PROFILE,
    }


# EC2NodeClass.


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


@pytest.mark.parametrize("take_away", [one for one, _ in LACKING if one is not without_node_policy])
def test_a_class_is_deleted_only_while_the_controller_can_work(account: Karpenter, take_away: Any) -> None:
    account.node_class()
    take_away(account)
    with refused("Timeout", "finalizer"):
        account.drop(tokens.NODE_CLASS, "gpu")
    if take_away is without_controller:
        account.controllers()
        account.drop(tokens.NODE_CLASS, "gpu")


def test_a_class_is_deleted_only_if_instance_profiles_can_be_listed(account: Karpenter) -> None:
    account.node_class()
    account.drop(tokens.ATTACHED_POLICY, account.attached["account"])
    with refused("Timeout", "not authorized to perform iam:ListInstanceProfiles"):
        account.drop(tokens.NODE_CLASS, "gpu")
    everything = {"Statement": {"Effect": "Allow", "Action": ["iam:*"], "Resource": "*"}}
    policy = account.make("aws:iam/policy:Policy", name="everything", policy=json.dumps(everything))
    account.make(tokens.ATTACHED_POLICY, "everything", role="controller", policyArn=policy)
    account.drop(tokens.NODE_CLASS, "gpu")


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
    if step == "delete a class":
        ready.drop(tokens.NODE_POOL, "gpu")
    steps = {
        "launch": lambda: ready.models(1),
        "terminate": lambda: ready.drop(tokens.NODE_POOL, "gpu"),
        "delete a class": lambda: ready.drop(tokens.NODE_CLASS, "gpu"),
    }
    with refused("Timeout", f"not authorized to perform {call}"):
        steps[step]()


def test_a_class_waits_for_the_last_node_of_its_pools(ready: Karpenter) -> None:
    ready.models(1)
    with refused("Timeout", "waiting on NodeClaim"):
        ready.drop(tokens.NODE_CLASS, "gpu")
    ready.drop(tokens.NODE_POOL, "gpu")
    ready.drop(tokens.NODE_CLASS, "gpu")


def test_a_pool_without_its_class_launches_nothing(account: Karpenter) -> None:
    account.pool()
    with refused("Timeout", "EC2NodeClass is not ready"):
        account.models(1)


# Waiting for the condition.


@pytest.mark.parametrize(("take_away", "words"), LACKING[:6])
def test_waiting_for_a_ready_object_needs_the_controller(account: Karpenter, take_away: Any, words: str) -> None:
    take_away(account)
    with refused("Timeout", words):
        account.node_class(annotations=WAITS)
    account.node_class()


# The releases.


def test_a_second_controller_on_one_node_passes_the_install_and_blocks_the_upgrade(account: Karpenter) -> None:
    account.drop(tokens.RELEASE, account.controller)
    account.change(tokens.NODE_GROUP, "c:system", scalingConfig={"desiredSize": 1})
    release = account.controllers()
    assert sorted(
        bool(one.outputs["node"]) for one in account.of(tokens.POD) if one.owner == (tokens.RELEASE, release)
    ) == [False, True]
    with refused("Timeout", "Pending behind the one that it replaces"):
        account.change(tokens.RELEASE, release, version="2")
    account.change(tokens.RELEASE, release, description="nothing of a pod")
    account.change(tokens.NODE_GROUP, "c:system", scalingConfig={"desiredSize": 2})
    account.change(tokens.RELEASE, release, version="2")


def test_one_controller_on_one_node_can_be_upgraded(account: Karpenter) -> None:
    account.drop(tokens.RELEASE, account.controller)
    account.change(tokens.NODE_GROUP, "c:system", scalingConfig={"desiredSize": 1})
    account.change(tokens.RELEASE, account.controllers(replicas=1), version="2")


@pytest.mark.real_world(
    behaviour="Deleting a NodePool deletes its nodes", source="karpenter.sh/docs/concepts/disruption/#manual-methods"
)
def test_uninstalling_the_crds_deletes_pools_and_nodes(ready: Karpenter) -> None:
    ready.models(1)
    ready.drop(tokens.RELEASE, ready.crds)
    assert (
        ready.own,
        ready.of(tokens.NODE_POOL),
        ready.of(tokens.NODE_CLAIM),
        ready.of(tokens.NODE_CLASS),
        ready.of(tokens.PROFILE),
    ) == ([], [], [], [], [])


def test_the_crds_stay_while_no_controller_can_remove_a_node(ready: Karpenter) -> None:
    ready.models(1)
    without_identity(ready)
    with refused("Timeout", "holds the CRD"):
        ready.drop(tokens.RELEASE, ready.crds)
    assert len(ready.own) == 1


# Changes.


def test_a_changed_template_replaces_the_nodes_and_a_changed_limit_does_not(ready: Karpenter) -> None:
    ready.models(3)
    before = ready.own
    spec = ready.outputs(tokens.NODE_POOL, "gpu")["spec"]
    ready.change(tokens.NODE_POOL, "gpu", spec={**spec, "limits": {"nodes": "7"}})
    assert ready.own == before
    template = {**spec["template"], "metadata": {"labels": {**spec["template"]["metadata"]["labels"], "a": "b"}}}
    ready.change(tokens.NODE_POOL, "gpu", spec={**spec, "template": template})
    assert len(ready.own) == 2
    assert not set(before) & set(ready.own)
    assert ready.world.recycled == {"gpu": 2}


@pytest.mark.real_world(
    behaviour="Karpenter replaces nodes whose EC2NodeClass has changed",
    source="karpenter.sh/docs/concepts/disruption/#drift",
)
def test_a_changed_class_replaces_the_nodes(ready: Karpenter) -> None:
    ready.models(1)
    before = ready.own
    ready.change(tokens.NODE_CLASS, "gpu", metadata=meta("gpu", annotations={"a": "b"}))
    assert ready.own == before
    ready.change(tokens.NODE_CLASS, "gpu", spec={**ready.outputs(tokens.NODE_CLASS, "gpu")["spec"], "tags": {"a": "b"}})
    assert len(ready.own) == 1
    assert ready.own != before


@pytest.mark.real_world(
    behaviour="After an upgrade of Kubernetes, an AMI alias names another image and Karpenter replaces its nodes",
    source="karpenter-provider-aws v1.14.1 pkg/providers/amifamily/al2023.go resolvePath, pkg/cloudprovider/drift.go",
)
@pytest.mark.parametrize(
    ("image", "version", "goes"),
    [
        ({"alias": "al2023@v20260714"}, "1.37", True),
        ({"alias": "al2023@v20260714"}, "1.36", False),
        ({"id": "ami-0123456789abcdef0"}, "1.37", False),
    ],
)
def test_an_upgrade_of_kubernetes_replaces_the_nodes_whose_image_is_an_alias(
    account: Karpenter, image: dict[str, str], version: str, goes: bool
) -> None:
    account.node_class(image)
    account.pool()
    account.models(1)
    before = account.own
    account.change(tokens.CLUSTER, "c", version=version)
    assert len(account.own) == 1
    assert (account.own != before) is goes
    assert account.world.recycled == ({"gpu": 1} if goes else {})


def test_releases_that_are_installed_one_by_one_share_a_node(ready: Karpenter) -> None:
    for name in ("a", "b"):
        ready.model(name)
    assert len(ready.own) == 1
    ready.model("d")
    assert len(ready.own) == 2
