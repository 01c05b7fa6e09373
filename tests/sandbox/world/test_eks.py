"""Rules of EKS: each refuses a call only while its reason exists."""

import pytest

from sandbox.world import IncompleteError, tokens
from tests.sandbox.world_pieces import NODE_POLICIES, TAINT, Account, refused


@pytest.fixture
def account() -> Account:
    return Account()


def test_a_cluster_needs_its_role_the_roles_policy_and_subnets_of_two_zones(account: Account) -> None:
    account.network()
    given = {"name": "x", "vpcConfig": {"subnetIds": account.subnets}}
    with refused("InvalidParameterException"):
        account.make(tokens.CLUSTER, **given, roleArn="arn:aws:iam::123456789012:role/absent")
    with refused("AccessDenied", "AmazonEKSClusterPolicy"):
        account.make(tokens.CLUSTER, **given, roleArn=account.role("bare"))
    given["roleArn"] = account.role("full", "AmazonEKSClusterPolicy")
    for subnets, words in ((["subnet-0"], "subnet-0"), (account.subnets[:1], "two different AZs")):
        with refused("InvalidParameterException", words):
            account.make(tokens.CLUSTER, **{**given, "vpcConfig": {"subnetIds": subnets}})
    account.make(tokens.CLUSTER, **given)


@pytest.mark.real_world(
    behaviour="EKS does not delete a cluster that has node groups",
    source="docs.aws.amazon.com/eks/latest/APIReference/API_DeleteCluster.html",
)
def test_a_cluster_with_node_groups_cannot_be_deleted(account: Account) -> None:
    cluster = account.cluster()
    group = account.nodes(count=0)
    with refused("ResourceInUseException", "nodegroups attached"):
        account.drop(tokens.CLUSTER, cluster)
    account.drop(tokens.NODE_GROUP, group)
    account.drop(tokens.CLUSTER, cluster)
    assert account.world.read(tokens.ADDON, "c:vpc-cni") is None


def test_a_name_is_unique(account: Account) -> None:
    account.cluster()
    arn = account.outputs(tokens.CLUSTER, "c")["roleArn"]
    with refused("ResourceInUseException"):
        account.make(tokens.CLUSTER, name="c", roleArn=arn, vpcConfig={"subnetIds": account.subnets})
    account.nodes(count=0)
    with refused("ResourceInUseException"):
        account.make(tokens.NODE_GROUP, clusterName="c", nodeGroupName="system", nodeRoleArn=account.role("other"))
    with refused("ResourceInUseException"):
        account.make(tokens.ADDON, clusterName="c", addonName="vpc-cni")
    account.make(tokens.ADDON, clusterName="c", addonName="kube-proxy")


@pytest.mark.parametrize(("to", "goes"), [("1.37", True), ("1.38", False), ("1.35", False)])
@pytest.mark.real_world(
    behaviour="EKS upgrades a control plane one minor version at a time, and refuses an older one if no upgrade came "
    "before (a rollback within 7 days of an upgrade is not emulated)",
    source="docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html",
)
def test_a_control_plane_is_upgraded_by_one_minor_version(account: Account, to: str, goes: bool) -> None:
    account.cluster()
    if goes:
        assert account.change(tokens.CLUSTER, "c", version=to)["version"] == to
        assert {one.inputs["subnetId"] for one in account.of(tokens.INTERFACE)} == {*account.subnets}
    else:
        with refused("InvalidParameterException", "minor version"):
            account.change(tokens.CLUSTER, "c", version=to)


@pytest.mark.parametrize(
    "token", [tokens.NODE_GROUP, tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY]
)
def test_every_part_of_a_cluster_needs_the_cluster(account: Account, token: str) -> None:
    with refused("ResourceNotFoundException", "No cluster"):
        account.make(token, clusterName="c")


def test_nodes_need_their_role_subnets_and_launch_template(account: Account) -> None:
    account.cluster()
    with refused("InvalidParameterException", "role"):
        account.nodes("a", nodeRoleArn="arn:aws:iam::123456789012:role/absent")
    with refused("InvalidParameterException", "subnet-0"):
        account.nodes("b", subnetIds=["subnet-0"])
    with refused("Ec2LaunchTemplateNotFound"):
        account.nodes("c", launchTemplate={"id": "lt-0", "version": "1"})
    template = account.make(tokens.TEMPLATE, name="t")
    with refused("Ec2LaunchTemplateNotFound", "no version 2"):
        account.nodes("d", launchTemplate={"id": template, "version": "2"})
    group = account.nodes("e", launchTemplate={"id": template, "version": "1"})
    # EC2 deletes it, and the group fails at its next update.
    account.drop(tokens.TEMPLATE, template)
    with refused("Ec2LaunchTemplateNotFound"):
        account.change(tokens.NODE_GROUP, group, labels={"a": "b"})
    account.drop(tokens.NODE_GROUP, group)


@pytest.mark.parametrize("missing", NODE_POLICIES)
@pytest.mark.real_world(
    behaviour="Nodes whose role lacks a worker policy do not join the cluster",
    source="docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#worker-node-fail",
)
def test_nodes_whose_role_lacks_a_policy_never_join(account: Account, missing: str) -> None:
    account.cluster()
    some = [policy for policy in NODE_POLICIES if policy != missing]
    with pytest.raises(IncompleteError, match=f"NodeCreationFailure.*{missing[:20]}"):
        account.nodes("a", *some)
    assert account.outputs(tokens.NODE_GROUP, "c:a")["status"] == "CREATE_FAILED"
    account.nodes("b", *some, count=0)
    account.nodes("c")


def test_nodes_without_vpc_cni_stay_not_ready(account: Account) -> None:
    account.cluster(plugin=False)
    with refused("NodeCreationFailure", "cni"):
        account.nodes("a")
    account.make(tokens.ADDON, clusterName="c", addonName="vpc-cni")
    account.nodes("b")


def test_nodes_need_internet_access_and_an_address_in_public_subnets(account: Account) -> None:
    account.network(public=False, routed=False)
    account.cluster()
    with refused("NodeCreationFailure", "no route"):
        account.nodes("a")
    account.make(tokens.ROUTE, routeTableId=account.table, destinationCidrBlock="0.0.0.0/0", gatewayId=account.gateway)
    with refused("NodeCreationFailure", "Ec2SubnetInvalidConfiguration"):
        account.nodes("b")
    for subnet in account.subnets:
        account.change(tokens.SUBNET, subnet, mapPublicIpOnLaunch=True)
    account.nodes("c")
    for one in account.of(tokens.ASSOCIATION):
        account.drop(tokens.ASSOCIATION, one.id)
    with refused("NodeCreationFailure", "no route"):
        account.nodes("d")


def test_a_route_to_a_deleted_nat_gateway_gives_no_internet_access(account: Account) -> None:
    account.network(public=False, routed=False)
    nat = account.nat()
    account.make(tokens.ROUTE, routeTableId=account.table, destinationCidrBlock="0.0.0.0/0", natGatewayId=nat)
    account.cluster()
    account.nodes("a")
    account.drop(tokens.NAT, nat)
    with refused("NodeCreationFailure", "no route"):
        account.nodes("b")


@pytest.mark.real_world(
    behaviour="A node group's Kubernetes version is never newer than the control plane's",
    source="docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html",
)
def test_nodes_are_not_newer_than_their_cluster(account: Account) -> None:
    account.cluster()
    with refused("InvalidParameterException", "newer"):
        account.nodes("a", version="1.37")
    account.nodes("b", version="1.36")


@pytest.mark.parametrize("addon", ["coredns", "aws-ebs-csi-driver"])
@pytest.mark.real_world(
    behaviour="An add-on whose pods find no node becomes DEGRADED with InsufficientNumberOfReplicas",
    source="docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html",
)
def test_addons_with_a_deployment_need_a_node_without_a_taint(account: Account, addon: str) -> None:
    account.cluster()
    for group in ("no-node-yet", "only-tainted-ones"):
        with refused("InsufficientNumberOfReplicas"):
            account.make(tokens.ADDON, clusterName="c", addonName=addon)
        account.drop(tokens.ADDON, f"c:{addon}")
        account.gpu_nodes(group)
    account.nodes(taints=[{"key": "CriticalAddonsOnly", "value": "true", "effect": "NO_SCHEDULE"}])
    account.make(tokens.ADDON, clusterName="c", addonName=addon)


@pytest.mark.parametrize("addon", ["kube-proxy", "eks-pod-identity-agent"])
def test_addons_that_are_daemon_sets_need_no_node(account: Account, addon: str) -> None:
    account.cluster()
    account.make(tokens.ADDON, clusterName="c", addonName=addon)


def test_identities_need_their_roles(account: Account) -> None:
    account.cluster()
    absent, arn = "arn:aws:iam::123456789012:role/absent", account.role("pods")
    who = {"clusterName": "c", "namespace": "n", "serviceAccount": "s"}
    with refused("InvalidParameterException"):
        account.make(tokens.POD_IDENTITY, roleArn=absent, **who)
    account.make(tokens.POD_IDENTITY, roleArn=arn, **who)
    with refused("ResourceInUseException"):
        account.make(tokens.POD_IDENTITY, roleArn=arn, **who)
    with refused("InvalidParameterException"):
        account.make(tokens.ADDON, clusterName="c", addonName="x", podIdentityAssociations=[{"roleArn": absent}])
    account.make(tokens.ADDON, clusterName="c", addonName="x", podIdentityAssociations=[{"roleArn": arn}])


@pytest.mark.real_world(
    behaviour="EKS creates the access entry of a managed node group's role",
    source="docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
)
def test_eks_creates_the_access_entry_of_its_node_groups(account: Account) -> None:
    account.cluster()
    account.nodes(count=0)
    nodes, other = account.outputs(tokens.NODE_GROUP, "c:system")["nodeRoleArn"], account.role("other")
    with refused("ResourceInUseException", "made by eks"):
        account.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=nodes, type="EC2_LINUX")
    with refused("InvalidParameterException"):
        account.make(
            tokens.ACCESS_ENTRY, clusterName="c", principalArn="arn:aws:iam::123456789012:role/absent", type="EC2_LINUX"
        )
    with refused("ResourceNotFoundException", "access entries"):
        account.make(tokens.ACCESS_POLICY, clusterName="c", principalArn=other, policyArn="p")
    account.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=other)
    account.make(tokens.ACCESS_POLICY, clusterName="c", principalArn=other, policyArn="p")


@pytest.mark.real_world(
    behaviour="EKS creates a log group for control-plane logs that outlives the cluster",
    source="docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
)
def test_eks_creates_a_missing_log_group_that_outlives_the_cluster(account: Account) -> None:
    account.cluster(enabledClusterLogTypes=["api"])
    account.drop(tokens.CLUSTER, "c")
    assert [one.id for one in account.of(tokens.LOG_GROUP, made_by="eks")] == ["/aws/eks/c/cluster"]


def test_eks_uses_an_existing_log_group(account: Account) -> None:
    account.make(tokens.LOG_GROUP, name="/aws/eks/c/cluster")
    account.cluster(enabledClusterLogTypes=["api"])
    assert account.of(tokens.LOG_GROUP, made_by="eks") == []


@pytest.mark.parametrize(
    ("inputs", "recycled"),
    [
        ({"launchTemplate": {"id": "{id}", "version": "2"}}, 2),
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
    account: Account, inputs: dict[str, object], recycled: int
) -> None:
    account.cluster()
    template = account.make(tokens.TEMPLATE, name="t", updateDefaultVersion=True)
    group = account.nodes(count=2, launchTemplate={"id": template, "version": "1"})
    before = {one.id for one in account.of(tokens.INSTANCE)}
    assert account.change(tokens.TEMPLATE, template, tags={"a": "b"})["latestVersion"] == 1
    assert account.change(tokens.TEMPLATE, template, userData="x")["latestVersion"] == 2
    if "launchTemplate" in inputs:
        inputs = {"launchTemplate": {"id": template, "version": "2"}}
    account.change(tokens.NODE_GROUP, group, **inputs)
    after = {one.id for one in account.of(tokens.INSTANCE)}
    assert account.world.recycled.get("system", 0) == recycled
    assert (len(after), len(before & after)) == (2, 2 - recycled)


def test_labels_taints_and_size_are_updated_in_place(account: Account) -> None:
    account.cluster()
    group = account.nodes()
    sizes = {"minSize": 0, "desiredSize": 3, "maxSize": 3}
    account.change(tokens.NODE_GROUP, group, labels={"a": "b"}, taints=[TAINT], scalingConfig=sizes)
    nodes = account.of(tokens.NODE)
    assert [one.outputs["metadata"]["labels"]["a"] for one in nodes] == ["b"] * 3
    assert [one.outputs["spec"]["taints"] for one in nodes] == [[TAINT]] * 3
    account.change(tokens.NODE_GROUP, group, scalingConfig={**sizes, "desiredSize": 1})
    assert len(account.of(tokens.NODE)) == 1


def test_a_changed_launch_template_keeps_its_identity(account: Account) -> None:
    template = account.make(tokens.TEMPLATE, name="t")
    first = account.outputs(tokens.TEMPLATE, template)
    assert account.change(tokens.TEMPLATE, template, userData="x") == {**first, "userData": "x", "latestVersion": 2}


@pytest.mark.real_world(
    behaviour="EKS refuses a node group if the zone of one of its subnets does not offer one of its instance types",
    source="awslabs/ec2-spot-workshops#154, eksctl-io/eksctl#6461, eksctl-io/eksctl#3531",
)
@pytest.mark.parametrize(("second", "count"), [("g4dn.2xlarge", 1), ("g4dn.xlarge", 1), ("g4dn.xlarge", 0)])
def test_each_zone_of_a_group_must_offer_each_of_its_types(account: Account, second: str, count: int) -> None:
    account.cluster()
    account.world.sell(second, ["us-east-1a"])
    with refused("InvalidRequestException", rf"\({second}\) is not supported in your requested Availability Zone"):
        account.nodes("gpu", count=count, instanceTypes=["g4dn.xlarge", second])
    account.nodes("fits", count=count, instanceTypes=["g4dn.xlarge", second], subnetIds=account.subnets[:1])


@pytest.mark.real_world(
    behaviour="EKS accepts only subnets in the zones with which a control plane was created",
    source="aws/containers-roadmap#2258; InvalidParameterException of UpdateClusterConfig",
)
def test_a_control_plane_keeps_its_zones(account: Account) -> None:
    account.cluster()
    where = {"availabilityZone": "us-east-1d", "cidrBlock": "10.0.200.0/24"}
    third = account.make(tokens.SUBNET, "third", vpcId=account.vpc, **where)
    for subnets in ([*account.subnets, third], [account.subnets[0], third]):
        with refused("InvalidParameterException", "should belong to the exact set of AZs 'us-east-1a,us-east-1b'"):
            account.change(tokens.CLUSTER, "c", vpcConfig={"subnetIds": subnets})
    again = account.make(tokens.SUBNET, "again", vpcId=account.vpc, **where | {"availabilityZone": "us-east-1a"})
    account.change(tokens.CLUSTER, "c", vpcConfig={"subnetIds": [again, account.subnets[1]]})


def test_groups_are_listed_and_described_as_eks_does(account: Account) -> None:
    def ask(function: str, **args: str) -> dict[str, object]:
        return account.world.invoke(f"aws:eks/{function}", args, {})

    assert ask("getClusters:getClusters")["names"] == []
    with refused("ResourceNotFoundException", "No cluster found"):
        ask("getNodeGroups:getNodeGroups", clusterName="c")
    account.cluster()
    assert ask("getClusters:getClusters")["names"] == ["c"]
    account.nodes("gpu", count=0, instanceTypes=["g4dn.xlarge"], labels={"one": "1"}, tags={"two": "2"})
    for token, identity, other in (
        (tokens.CLUSTER, "c", {"name": "other"}),
        (tokens.NODE_GROUP, "c:gpu", {"clusterName": "other", "nodeGroupName": "theirs"}),
    ):
        inputs, _ = account.world.read(token, identity) or ({}, {})
        account.make(token, "other", **inputs | other)
    assert ask("getNodeGroups:getNodeGroups", clusterName="c")["names"] == ["gpu"]
    found = ask("getNodeGroup:getNodeGroup", clusterName="c", nodeGroupName="gpu")
    assert (found["instanceTypes"], found["labels"], found["tags"]) == (["g4dn.xlarge"], {"one": "1"}, {"two": "2"})
    with refused("ResourceNotFoundException", "No node group found"):
        ask("getNodeGroup:getNodeGroup", clusterName="c", nodeGroupName="other")
