"""What EKS makes, replaces and keeps: nodes and add-ons that fail, the surge of an update, log groups."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.world import IncompleteError, tokens
from sandbox.world.controllers.quotas import code
from tests.sandbox.faults import Fault, Faults
from tests.sandbox.user_data_pieces import ARCHIVE, in_base64
from tests.sandbox.world.whole import tags
from tests.sandbox.world_pieces import NODE_POLICIES, TAINT, Account, refused

G_SPOT, G_ON_DEMAND, STANDARD = "L-3819A6DF", "L-DB2E81BA", "L-1216C47A"
MINIMAL = {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
EVERYWHERE = {"destinationCidrBlock": "0.0.0.0/0"}


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.fixture
def clustered(account: Account) -> Account:
    account.cluster()
    return account


# Nodes that do not join.


def without_policy(account: Account) -> Callable[[], Any]:
    account.cluster()
    arn = account.role("some", *NODE_POLICIES[1:])
    account.nodes("empty", count=0, nodeRoleArn=arn)
    return lambda: account.nodes("a", nodeRoleArn=arn)


def without_network_plugin(account: Account) -> Callable[[], Any]:
    account.cluster(plugin=False)
    return account.nodes


def without_route(account: Account) -> Callable[[], Any]:
    account.network(routed=False)
    account.cluster()
    return account.nodes


def without_association(account: Account) -> Callable[[], Any]:
    account.cluster()
    account.drop(tokens.ASSOCIATION, account.of(tokens.ASSOCIATION)[0].id)
    return account.nodes


def without_public_addresses(account: Account) -> Callable[[], Any]:
    account.network(public=False)
    account.cluster()
    return account.nodes


def without_nat_gateway(account: Account) -> Callable[[], Any]:
    account.network(public=False, routed=False)
    nat = account.nat()
    account.make(tokens.ROUTE, routeTableId=account.table, **EVERYWHERE, natGatewayId=nat)
    account.cluster()
    account.nodes("before")
    account.drop(tokens.NAT, nat)
    return account.nodes


Prepare = Callable[[Account], Callable[[], Any]]
UNJOINED: dict[Prepare, str] = {
    without_policy: "AmazonEKSWorkerNodePolicy",
    without_network_plugin: "cni plugin not initialized",
    without_route: "no route to the internet",
    without_association: "no route to the internet",
    without_public_addresses: "Ec2SubnetInvalidConfiguration",
    without_nat_gateway: "no route to the internet",
}


@pytest.mark.parametrize("prepare", UNJOINED)
@pytest.mark.real_world(
    behaviour="Nodes whose role lacks a worker policy do not join the cluster",
    source="docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#worker-node-fail",
)
def test_nodes_that_do_not_join_leave_a_failed_group(account: Account, prepare: Prepare) -> None:
    create = prepare(account)
    with pytest.raises(IncompleteError, match=f"NodeCreationFailure.*{UNJOINED[prepare]}") as caught:
        create()
    assert account.outputs(tokens.NODE_GROUP, caught.value.id)["status"] == "CREATE_FAILED"


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
def test_a_node_group_that_failed_to_create_exists_without_nodes_and_refuses_updates() -> None:
    account = Account()
    Faults([Fault(type=tokens.NODE_GROUP, operation="create", kind="failed")]).strike(account.world)
    account.cluster()
    with pytest.raises(IncompleteError, match="an injected fault") as caught:
        account.nodes()
    inputs = caught.value.outputs
    assert not {"arn", "status", "resources"} & inputs.keys(), "nothing is read back after the failure"
    assert account.of(tokens.NODE) == account.of(tokens.INSTANCE) == []
    with refused("ResourceInUseException", "not in Active State"):
        account.change(tokens.NODE_GROUP, "c:system", labels={"a": "b"})
    account.change(tokens.NODE_GROUP, "c:system", tags={"a": "b"})
    with refused("ResourceInUseException", "already exists"):
        account.make(tokens.NODE_GROUP, **inputs)
    account.drop(tokens.NODE_GROUP, "c:system")
    assert account.make(tokens.NODE_GROUP, **inputs) == "c:system"


@pytest.mark.parametrize("key", ["labels", "taints", "scalingConfig"])
def test_a_group_whose_spot_nodes_are_reclaimed_refuses_every_update_here(clustered: Account, key: str) -> None:
    """The emulated cloud is pessimistic: the live question `degraded-spot-group` asks what EKS does."""
    group = clustered.gpu_nodes(capacityType="SPOT")
    clustered.world.reclaim(group)
    assert clustered.of(tokens.NODE) == []
    with refused("ResourceInUseException", "not in Active State"):
        clustered.change(tokens.NODE_GROUP, group, **{key: {}})
    clustered.drop(tokens.NODE_GROUP, group)


# Add-ons.


@pytest.mark.real_world(
    behaviour="An add-on whose pods find no node becomes DEGRADED with InsufficientNumberOfReplicas",
    source="docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html",
)
def test_addons_with_a_deployment_need_a_node_without_a_taint(clustered: Account) -> None:
    clustered.gpu_nodes()
    with pytest.raises(IncompleteError, match="InsufficientNumberOfReplicas"):
        clustered.make(tokens.ADDON, clusterName="c", addonName="coredns")
    with refused("ResourceInUseException", "already exists"):
        clustered.make(tokens.ADDON, clusterName="c", addonName="coredns")
    clustered.drop(tokens.ADDON, "c:coredns")
    clustered.nodes(taints=[{"key": "CriticalAddonsOnly", "value": "true", "effect": "NO_SCHEDULE"}])
    clustered.make(tokens.ADDON, clusterName="c", addonName="coredns")


@pytest.mark.parametrize(
    "key", ["kubernetes.io/role", "CSIVolumeName", "CSIVolumeSnapshotName", "ebs.csi.aws.com/cluster"]
)
@pytest.mark.real_world(
    behaviour="The EBS CSI driver does not start with extra tags that it reserves",
    source="aws-ebs-csi-driver 429e202: pkg/driver/validation.go, pkg/driver/driver.go",
)
def test_the_ebs_driver_does_not_start_with_a_reserved_tag(clustered: Account, key: str) -> None:
    clustered.nodes()
    values = json.dumps({"controller": {"extraVolumeTags": {"team": "v", key: "v"}}})
    with pytest.raises(IncompleteError, match=f"tag key '{key}' is reserved"):
        clustered.make(tokens.ADDON, clusterName="c", addonName="aws-ebs-csi-driver", configurationValues=values)


@pytest.mark.real_world(
    behaviour="EKS creates a log group for control-plane logs that outlives the cluster",
    source="docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
)
@pytest.mark.parametrize("exists", [False, True])
def test_eks_creates_a_missing_log_group_that_outlives_the_cluster(account: Account, exists: bool) -> None:
    if exists:
        account.make(tokens.LOG_GROUP, name="/aws/eks/c/cluster")
    account.cluster(enabledClusterLogTypes=["api"])
    with refused("ResourceAlreadyExistsException"):
        account.make(tokens.LOG_GROUP, name="/aws/eks/c/cluster")
    account.drop(tokens.CLUSTER, "c")
    [group] = account.of(tokens.LOG_GROUP)
    assert (group.id, group.made_by == "eks") == ("/aws/eks/c/cluster", not exists)


# Updates of nodes, and vCPU quotas.


def test_interfaces_and_root_volumes_are_created_and_deleted_with_nodes(clustered: Account) -> None:
    group = clustered.nodes(count=2)
    assert (len(clustered.of(tokens.VOLUME)), len(clustered.of(tokens.INTERFACE, "ec2-auto-scaling"))) == (2, 2)
    clustered.drop(tokens.NODE_GROUP, group)
    assert clustered.of(tokens.VOLUME) == clustered.of(tokens.INTERFACE, "ec2-auto-scaling") == []


@pytest.mark.parametrize(
    ("inputs", "recycled"),
    [
        ({"launchTemplate": {"id": "", "version": "2"}}, 2),
        ({"releaseVersion": "later"}, 2),
        ({"version": "1.36"}, 2),
        ({"labels": {"a": "b"}}, 0),
        ({"taints": [TAINT]}, 0),
    ],
)
@pytest.mark.real_world(
    behaviour="A new version, AMI release or launch template version replaces every node of a managed node group",
    source="docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_a_new_template_version_or_release_recycles_the_nodes(
    clustered: Account, inputs: dict[str, Any], recycled: int
) -> None:
    template = clustered.make(tokens.TEMPLATE, name="t", updateDefaultVersion=True)
    group = clustered.nodes(count=2, launchTemplate={"id": template, "version": "1"})
    before = {one.id for one in clustered.of(tokens.INSTANCE)}
    assert clustered.change(tokens.TEMPLATE, template, tags={"a": "b"})["latestVersion"] == 1
    assert clustered.change(tokens.TEMPLATE, template, userData=in_base64(ARCHIVE))["latestVersion"] == 2
    if "launchTemplate" in inputs:
        inputs = {"launchTemplate": {"id": template, "version": "2"}}
    clustered.change(tokens.NODE_GROUP, group, **inputs)
    after = {one.id for one in clustered.of(tokens.INSTANCE)}
    assert clustered.world.recycled.get("system", 0) == recycled
    assert (len(after), len(before & after)) == (2, 2 - recycled)


@pytest.mark.parametrize(
    ("kind", "spot", "quota"),
    [
        ("g6e.xlarge", True, G_SPOT),
        ("gr6.4xlarge", False, G_ON_DEMAND),
        ("m5.large", False, STANDARD),
        ("m5.large", True, "L-34B43A08"),
    ],
)
def test_an_instance_counts_for_the_quota_of_awss_table(kind: str, spot: bool, quota: str) -> None:
    # https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
    assert code(kind, spot) == quota


@pytest.mark.real_world(
    behaviour="EKS keeps a new node group whose nodes exceed the vCPU quota, and says that the group failed",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html, AsgInstanceLaunchFailures",
)
@pytest.mark.parametrize(
    ("capacity", "quota", "words"),
    [("SPOT", G_SPOT, "MaxSpotInstanceCountExceeded"), ("ON_DEMAND", G_ON_DEMAND, "VcpuLimitExceeded")],
)
def test_a_group_beyond_the_quota_fails_and_stays(clustered: Account, capacity: str, quota: str, words: str) -> None:
    clustered.world.allow_vcpus(quota, 4)
    with pytest.raises(IncompleteError, match=words) as caught:
        clustered.gpu_nodes(count=2, capacityType=capacity)
    assert clustered.world.read(tokens.NODE_GROUP, caught.value.id) is not None
    assert [one.outputs["instanceType"] for one in clustered.of(tokens.INSTANCE)] == ["g4dn.xlarge"]
    assert clustered.world.peaks == {quota: 4}
    clustered.world.allow_vcpus(quota, 12)
    clustered.gpu_nodes("fits", count=2, capacityType=capacity)
    with pytest.raises(IncompleteError, match=words):
        clustered.gpu_nodes("more", count=1, capacityType=capacity)
    assert len(clustered.of(tokens.INSTANCE)) == 3


@pytest.mark.parametrize(
    ("strategy", "count", "peak"),
    # In two zones, the default strategy adds up to two nodes per zone. The minimal one adds none.
    [
        ({}, 2, 2 + 4),
        ({"maxUnavailable": 1, "updateStrategy": "DEFAULT"}, 2, 2 + 4),
        ({"maxUnavailable": 5}, 2, 2 + 5),
        (MINIMAL, 2, 2),
        ({}, 0, 0),  # parked
    ],
)
@pytest.mark.real_world(
    behaviour="An update of a node group adds two nodes for each zone, unless its strategy is MINIMAL",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_an_update_adds_nodes_unless_its_strategy_is_minimal(
    clustered: Account, strategy: dict[str, object], count: int, peak: int
) -> None:
    group = clustered.gpu_nodes(count=count, capacityType="SPOT", updateConfig=strategy)
    clustered.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert clustered.world.peaks.get(G_SPOT, 0) == peak * 4
    assert len(clustered.of(tokens.INSTANCE)) == clustered.world.recycled["gpu"] == count


@pytest.mark.real_world(
    behaviour="An update of a node group fails when the quota has no room for one new node in each zone",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_an_update_without_quota_for_its_new_nodes_fails_and_keeps_the_old_ones(clustered: Account) -> None:
    group = clustered.gpu_nodes(count=2, capacityType="SPOT")
    before = {one.id for one in clustered.of(tokens.INSTANCE)}
    clustered.world.allow_vcpus(G_SPOT, 12)
    with refused("NodeCreationFailure", "MaxSpotInstanceCountExceeded"):
        clustered.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert {one.id for one in clustered.of(tokens.INSTANCE)} == before
    # Changes that need no new node go on.
    clustered.world.allow_vcpus(G_SPOT, 8)
    clustered.change(tokens.NODE_GROUP, group, labels={"a": "b"})
    clustered.change(tokens.NODE_GROUP, group, releaseVersion="early", updateConfig=MINIMAL)
    clustered.change(tokens.NODE_GROUP, group, updateConfig={})
    clustered.world.allow_vcpus(G_SPOT, 16)
    clustered.change(tokens.NODE_GROUP, group, releaseVersion="later")
    assert clustered.world.peaks == {G_SPOT: 16}


@pytest.mark.real_world(
    behaviour="A node of a managed node group gets five tags from EKS, which count: eks:cluster-name, "
    "eks:nodegroup-name, k8s.io/cluster-autoscaler/enabled, k8s.io/cluster-autoscaler/CLUSTER and "
    "kubernetes.io/cluster/CLUSTER",
    source="a public listing of `aws ec2 describe-tags` of such a node; that the launch then fails is derived",
)
def test_a_node_has_room_for_45_tags_besides_those_of_eks(clustered: Account) -> None:
    def template(count: int) -> dict[str, str]:
        specs = [{"resourceType": "instance", "tags": tags(count)}, {"resourceType": "volume", "tags": tags(50)}]
        return {"id": clustered.make(tokens.TEMPLATE, tagSpecifications=specs), "version": "1"}

    clustered.nodes("fits", launchTemplate=template(45))
    with pytest.raises(IncompleteError, match=r"TagLimitExceeded: an instance can have up to 50 tags \(it has 51\)"):
        clustered.nodes("over", launchTemplate=template(46))


def test_groups_are_listed_and_described_as_eks_does(clustered: Account) -> None:
    def ask(function: str, **args: str) -> dict[str, object]:
        return clustered.world.invoke(f"aws:eks/{function}", args, {})

    clustered.nodes("gpu", count=0, instanceTypes=["g4dn.xlarge"], labels={"one": "1"}, tags={"two": "2"})
    assert ask("getClusters:getClusters")["names"] == ["c"]
    assert ask("getNodeGroups:getNodeGroups", clusterName="c")["names"] == ["gpu"]
    found = ask("getNodeGroup:getNodeGroup", clusterName="c", nodeGroupName="gpu")
    assert (found["instanceTypes"], found["labels"], found["tags"]) == (["g4dn.xlarge"], {"one": "1"}, {"two": "2"})
    with refused("ResourceNotFoundException", "No cluster found"):
        ask("getNodeGroups:getNodeGroups", clusterName="other")
    with refused("ResourceNotFoundException", "No node group found"):
        ask("getNodeGroup:getNodeGroup", clusterName="c", nodeGroupName="other")
