"""What AWS and Kubernetes refuse to create and change: one row for each reason, with the source of its rows above them.

The fixture has one resource of each kind, so it shows what they accept.
"""

from typing import Any

import pytest

from sandbox.world import IncompleteError, tokens
from tests.sandbox.user_data_pieces import ARCHIVE, GREETS, in_base64
from tests.sandbox.world.whole import (
    ANYWHERE,
    IN_USE,
    INVALID,
    MANAGED,
    NOBODY,
    NOT_FOUND,
    OURS,
    Whole,
    cluster,
    group,
    tags,
)
from tests.sandbox.world_pieces import meta, refused

Rows = list[tuple[str, dict[str, Any], str, str]]
"""Type, inputs, the error's code and words of its message."""
# docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
EC2: Rows = [
    (tokens.SUBNET, {"vpcId": "vpc-0"}, "InvalidVpcID.NotFound", "vpc-0"),
    (tokens.GATEWAY, {"vpcId": "vpc-0"}, "InvalidVpcID.NotFound", "vpc-0"),
    (tokens.ROUTE_TABLE, {"vpcId": "vpc-0"}, "InvalidVpcID.NotFound", "vpc-0"),
    (tokens.ENDPOINT, {"vpcId": "vpc-0"}, "InvalidVpcId.NotFound", "vpc-0"),
    (tokens.ENDPOINT, {"vpcId": "{vpc}", "routeTableIds": ["rtb-0"]}, "InvalidRouteTableId.NotFound", "rtb-0"),
    (tokens.NAT, {"subnetId": "subnet-0"}, "InvalidSubnetID.NotFound", "subnet-0"),
    (tokens.NAT, {"subnetId": "{subnet}", "allocationId": "eip-0"}, "InvalidAllocationID.NotFound", "eip-0"),
    (tokens.NAT, {"subnetId": "{detached}", "allocationId": "{free}"}, "Gateway.NotAttached", "no Internet gateway"),
    (tokens.NAT, {"subnetId": "{far subnet}", "allocationId": "{address}"}, "Resource.AlreadyAssociated", "Elastic IP"),
    (tokens.ROUTE, {"routeTableId": "rtb-0"}, "InvalidRouteTableID.NotFound", "rtb-0"),
    (tokens.ROUTE, {"routeTableId": "{table}", "gatewayId": "igw-0"}, "InvalidInternetGatewayID.NotFound", "igw-0"),
    (tokens.ROUTE, {"routeTableId": "{table}", "natGatewayId": "nat-0"}, "InvalidNatGatewayID.NotFound", "nat-0"),
    (tokens.ROUTE, {"routeTableId": "{table}", "destinationCidrBlock": ANYWHERE}, "RouteAlreadyExists", ANYWHERE),
    (tokens.ROUTE, {"routeTableId": "{table}", "gatewayId": "{far gateway}"}, "InvalidParameterValue", "different net"),
    (tokens.ASSOCIATION, {"subnetId": "subnet-0"}, "InvalidSubnetID.NotFound", "subnet-0"),
    (tokens.ASSOCIATION, {"subnetId": "{far subnet}", "routeTableId": "r"}, "InvalidRouteTableID.NotFound", "r"),
    (tokens.ASSOCIATION, {"subnetId": "{subnet}", "routeTableId": "{table}"}, "Resource.AlreadyAssociated", "another"),
    (tokens.GATEWAY, {"vpcId": "{vpc}"}, "Resource.AlreadyAssociated", "already has"),
    # pulumi/pulumi-aws#2284; github-aws-runners/terraform-aws-github-runner#3700.
    (tokens.TEMPLATE, {"userData": GREETS}, "InvalidUserData.Malformed", "Invalid BASE64"),
    (tokens.TEMPLATE, {"userData": in_base64("x" * 16385)}, "InvalidUserData.Malformed", "16384 bytes"),
    (tokens.TEMPLATE, {"vpcSecurityGroupIds": ["sg-0"]}, "InvalidGroup.NotFound", "sg-0"),
    (tokens.TEMPLATE, {"name": "t"}, "InvalidLaunchTemplateName.AlreadyExistsException", "t already"),
    (tokens.VOLUME, {"availabilityZone": "us-east-1x"}, "InvalidZone.NotFound", "us-east-1x"),
    (tokens.SUBNET, {"vpcId": "{vpc}", "availabilityZone": "us-east-1x"}, "InvalidZone.NotFound", "us-east-1x"),
]
# docs.aws.amazon.com/IAM/latest/APIReference/: API_CreateRole, API_CreatePolicy, API_AttachRolePolicy; quotas:
# reference_iam-quotas in its user guide. The others: CreateLogGroup, CreateQueue, SetQueueAttributes, PutTargets.
IAM: Rows = [
    (tokens.ROLE, {"name": "bare"}, "EntityAlreadyExists", "bare"),
    (tokens.ROLE, {"name": "r" * 65}, "ValidationError", "less than or equal to 64"),
    (tokens.ROLE, {"name": "a role"}, "ValidationError", "roleName"),
    (tokens.POLICY, {"name": "p"}, "EntityAlreadyExists", "p already"),
    (tokens.POLICY, {"name": "q", "policy": "x" * 6145}, "LimitExceeded", "6144"),
    (tokens.ATTACHED_POLICY, {"role": "nobody", "policyArn": MANAGED}, "NoSuchEntity", "nobody"),
    (tokens.ATTACHED_POLICY, {"role": "bare", "policyArn": f"{OURS}policy/absent"}, "NoSuchEntity", "absent"),
    (tokens.LOG_GROUP, {"name": "g"}, "ResourceAlreadyExistsException", "g"),
    (tokens.QUEUE, {"name": "q"}, "QueueNameExists", "q"),
    (tokens.QUEUE_POLICY, {"queueUrl": "https://nowhere"}, "AWS.SimpleQueueService.NonExistentQueue", "not exist"),
    (tokens.EVENT_TARGET, {"rule": "absent"}, NOT_FOUND, "absent"),
]
# botocore 1.44.5: iam tagListType, eks TagMap, logs Tags, scheduler TagValue. Keys that differ by case:
# aws/aws-cdk#26253. The prefix: kubernetes-sigs/cluster-api-provider-aws#5461.
TAGS: Rows = [
    (tokens.ROLE, {"tags": tags(51)}, "ValidationError", "51"),
    (tokens.POLICY, {"tags": tags(51)}, "ValidationError", "51"),
    (tokens.VPC, {"tags": tags(51)}, "TagLimitExceeded", "51"),
    (tokens.VOLUME, {"tags": tags(51)}, "TagLimitExceeded", "51"),
    (tokens.TEMPLATE, {"tagSpecifications": [{"tags": tags(51)}]}, "TagLimitExceeded", "51"),
    (tokens.LOG_GROUP, {"tags": tags(51)}, INVALID, "51"),
    (tokens.CLUSTER, cluster(tags=tags(51)), INVALID, "51"),
    (tokens.ROLE, {"tags": {"team": "a", "Team": "b"}}, "InvalidInput", "Duplicate tag keys found"),
    (tokens.ROLE, {"tags": {"aws:x": "v"}}, "InvalidInput", "aws:x"),
    (tokens.VPC, {"tags": {"AWS:x": "v"}}, "InvalidParameterValue", "AWS:x"),
    (tokens.ADDON, {"clusterName": "c", "addonName": "x", "tags": {"aws:x": "v"}}, INVALID, "aws:x"),
    (tokens.SCHEDULE_GROUP, {"tags": {"owner": ""}}, "ValidationException", "owner"),
]
# API_CreateSchedule and API_CreateScheduleGroup of EventBridge Scheduler; API_budgets_CreateBudget.
SCHEDULES: Rows = [
    (tokens.SCHEDULE, {"groupName": "absent", "name": "park"}, NOT_FOUND, "absent"),
    (tokens.SCHEDULE, {"groupName": "nights", "name": "park"}, "ConflictException", "park"),
    (tokens.SCHEDULE_GROUP, {"name": "nights"}, "ConflictException", "nights"),
    (tokens.BUDGET, {"name": "b"}, "DuplicateRecordException", "b"),
]
PARTS = (tokens.NODE_GROUP, tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY)
ENTRY = {"clusterName": "c", "type": "EC2_LINUX"}
NOBODYS = [{"roleArn": NOBODY}]
SECOND = {"id": "{template}", "version": "2"}
NOT_MIME = "Ec2LaunchTemplateInvalidConfiguration"
PLAIN = {"id": "{plain}", "version": "1"}
# docs.aws.amazon.com/eks/latest/APIReference/: the call of each type, API_Issue, API_VpcConfigRequest. Zones of groups:
# eksctl-io/eksctl#6461. Principals: aws-samples/appmod-blueprints#319, terraform-aws-modules/terraform-aws-eks#2969.
EKS: Rows = [
    *((token, {"clusterName": "absent"}, NOT_FOUND, "No cluster") for token in PARTS),
    (tokens.CLUSTER, cluster(name="c"), IN_USE, "c"),
    (tokens.CLUSTER, cluster(roleArn=NOBODY), INVALID, "does not exist"),
    (tokens.CLUSTER, cluster(roleArn="{bare}"), "AccessDenied", "AmazonEKSClusterPolicy"),
    (tokens.CLUSTER, cluster(vpcConfig={"subnetIds": ["subnet-0"]}), INVALID, "subnet-0"),
    (tokens.CLUSTER, cluster(vpcConfig={"subnetIds": ["{subnet}"]}), INVALID, "two different AZs"),
    (tokens.NODE_GROUP, group(nodeGroupName="system"), IN_USE, "system"),
    (tokens.NODE_GROUP, group(nodeRoleArn=NOBODY), INVALID, "cannot be found"),
    (tokens.NODE_GROUP, group(subnetIds=["subnet-0"]), INVALID, "subnet-0"),
    (tokens.NODE_GROUP, group(launchTemplate={"id": "lt-0"}), "Ec2LaunchTemplateNotFound", "lt-0"),
    (tokens.NODE_GROUP, group(launchTemplate=SECOND), "Ec2LaunchTemplateNotFound", "no version 2"),
    # terraform-aws-modules/terraform-aws-eks#1875.
    (tokens.NODE_GROUP, group(launchTemplate=PLAIN), NOT_MIME, "MIME multipart"),
    (tokens.NODE_GROUP, group(version="1.37"), INVALID, "is not the cluster's"),
    (tokens.NODE_GROUP, group(version="1.35"), INVALID, "is not the cluster's"),
    (tokens.NODE_GROUP, group(instanceTypes=["g4dn.xlarge", "g4dn.2xlarge"]), "InvalidRequestException", "Zone"),
    (tokens.ADDON, {"clusterName": "c", "addonName": "vpc-cni"}, IN_USE, "vpc-cni"),
    (tokens.ADDON, {"clusterName": "c", "addonName": "x", "podIdentityAssociations": NOBODYS}, INVALID, "not exist"),
    (tokens.POD_IDENTITY, {"clusterName": "c", "roleArn": NOBODY}, INVALID, "does not exist"),
    (tokens.POD_IDENTITY, {"clusterName": "c", "namespace": "n", "serviceAccount": "s"}, IN_USE, "already"),
    (tokens.ACCESS_ENTRY, {**ENTRY, "principalArn": "{nodes}"}, IN_USE, "made by eks"),
    (tokens.ACCESS_ENTRY, {**ENTRY, "principalArn": NOBODY}, INVALID, "does not exist"),
    (tokens.ACCESS_ENTRY, {**ENTRY, "principalArn": "arn:aws:sts::1:assumed-role/ci/s"}, INVALID, "format is not"),
    (tokens.ACCESS_ENTRY, {**ENTRY, "principalArn": f"{OURS}role/AWSReservedSSO_A_0"}, INVALID, "invalid principal"),
    (tokens.ACCESS_POLICY, {"clusterName": "c", "principalArn": "{bare}"}, NOT_FOUND, "access entries"),
]
SCALED = {"extraObjects": [{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "x"}}]}
# kubernetes.io/docs/reference/using-api/api-concepts/ (metav1.StatusReason); helm pkg/action/install.go, availableName.
KUBERNETES: Rows = [
    (tokens.CONFIG_MAP, {"metadata": meta("a", namespace="n")}, "NotFound", 'namespaces "n"'),
    (tokens.RELEASE, {"name": "r", "namespace": "n", "chart": "some"}, "NotFound", 'namespaces "n"'),
    (tokens.CONFIG_MAP, {"metadata": meta("taken")}, "AlreadyExists", "taken"),
    (tokens.RELEASE, {"name": "taken", "chart": "some"}, "AlreadyExists", "still in use"),
    (tokens.NODE_POOL, {"metadata": meta("p")}, "NotFound", "no matches for kind"),
    (tokens.RELEASE, {"name": "r", "chart": "ollama", "values": SCALED}, "NotFound", 'kind "ScaledObject"'),
    (tokens.CLAIM, {"metadata": meta("d"), "spec": {"volumeName": "v"}}, "Timeout", "Pending"),
]
ROWS = [*EC2, *IAM, *TAGS, *SCHEDULES, *EKS, *KUBERNETES]


@pytest.mark.parametrize(("token", "inputs", "code", "words"), ROWS)
@pytest.mark.real_world(
    behaviour="A public NAT gateway needs an internet gateway attached to the VPC",
    source="docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNatGateway.html",
)
@pytest.mark.real_world(
    behaviour="User data of a launch template is base64 of at most 16,384 bytes; Pulumi does not encode it",
    source="github.com/pulumi/pulumi-aws/issues/2284; hashicorp/terraform-provider-aws#49234",
)
@pytest.mark.real_world(
    behaviour="EKS refuses user data that is no MIME archive, because it adds a part of its own",
    source="github.com/terraform-aws-modules/terraform-aws-eks/issues/1875",
)
@pytest.mark.real_world(
    behaviour="An IAM role name has at most 64 characters",
    source="docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html",
)
@pytest.mark.real_world(
    behaviour="A managed policy has at most 6144 characters, without white space",
    source="docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html",
)
@pytest.mark.real_world(
    behaviour="A resource has at most 50 tags, not counting those that begin with `aws:`",
    source="botocore 1.44.5, iam tagListType and eks TagMap; AWS CloudFormation, AWS::EKS::AccessEntry Tag",
)
@pytest.mark.real_world(
    behaviour="IAM refuses a role with two tags whose keys are equal but for case; EC2 accepts them",
    source="github.com/aws/aws-cdk/issues/26253; github.com/terraform-aws-modules/terraform-aws-rds-aurora/issues/189",
)
@pytest.mark.real_world(
    behaviour="Keys of tags that begin with `aws:`, in any spelling, are reserved for AWS",
    source="github.com/kubernetes-sigs/cluster-api-provider-aws/pull/5461; AWS::EKS::AccessEntry Tag",
)
@pytest.mark.real_world(
    behaviour="EventBridge Scheduler refuses a schedule group with a tag whose value is empty",
    source="botocore 1.44.5, scheduler TagValue: min 1",
)
@pytest.mark.real_world(
    behaviour="EKS creates the access entry of a managed node group's role",
    source="docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
)
@pytest.mark.real_world(
    behaviour="A node group's Kubernetes version is never newer than the control plane's",
    source="docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html",
)
@pytest.mark.real_world(
    behaviour="Helm refuses a release with an object whose kind the cluster does not know",
    source="helm v3 pkg/kube/client.go, Build",
)
def test_a_creation_is_refused(whole: Whole, token: str, inputs: dict[str, Any], code: str, words: str) -> None:
    with refused(code, words) as caught:
        whole.make(token, "new", **whole.filled(inputs))
    # EKS accepts such a group, which then fails (API_Issue). Of all others, nothing is created.
    assert isinstance(caught.value, IncompleteError) is (code == NOT_MIME)


# API_UpdateClusterVersion, aws/containers-roadmap#2258 (zones), API_ModifyVolume, and the sources above.
CHANGES: list[tuple[str, str, dict[str, Any], str, str]] = [
    (tokens.CLUSTER, "c", {"version": "1.38"}, INVALID, "minor version"),
    (tokens.CLUSTER, "c", {"version": "1.35"}, INVALID, "minor version"),
    (tokens.CLUSTER, "c", {"vpcConfig": {"subnetIds": ["{subnet}"]}}, INVALID, "exact set of AZs"),
    (tokens.CLUSTER, "c", {"vpcConfig": {"subnetIds": ["{subnet}", "{far subnet}"]}}, INVALID, "VPC of the cluster"),
    (tokens.CLUSTER, "c", {"tags": tags(51)}, INVALID, "51"),
    (tokens.NODE_GROUP, "c:system", {"launchTemplate": {"id": "lt-0"}}, "Ec2LaunchTemplateNotFound", "lt-0"),
    (
        tokens.NODE_GROUP,
        "c:system",
        {"launchTemplate": PLAIN},
        "Ec2LaunchTemplateInvalidConfiguration",
        "MIME multipart",
    ),
    (tokens.TEMPLATE, "{template}", {"userData": GREETS}, "InvalidUserData.Malformed", "Invalid BASE64"),
    (tokens.VOLUME, "{volume}", {"size": 10}, "InvalidParameterValue", "smaller"),
    (tokens.POLICY, "{policy}", {"policy": "x" * 6145}, "LimitExceeded", "6144"),
]
ACCEPTED: list[tuple[str, str, dict[str, Any]]] = [
    (tokens.CLUSTER, "c", {"version": "1.37"}),
    (tokens.VOLUME, "{volume}", {"size": 30}),
    (tokens.VOLUME, "{volume}", {"size": 20}),
    # With an image of its own, EKS adds nothing: launch-templates.html, `launch-template-user-data`.
    (tokens.NODE_GROUP, "c:system", {"launchTemplate": {"id": "{image}", "version": "1"}}),
    (tokens.TEMPLATE, "{template}", {"userData": in_base64(ARCHIVE + "x" * (16384 - len(ARCHIVE)))}),
    (tokens.GATEWAY, "{gateway}", {"tags": {"a": "b"}}),
]


@pytest.mark.parametrize(("token", "identity", "inputs", "code", "words"), CHANGES)
@pytest.mark.real_world(
    behaviour="EKS upgrades a control plane one minor version at a time, and refuses an older one if no upgrade came "
    "before (a rollback within 7 days of an upgrade is not emulated)",
    source="docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html",
)
@pytest.mark.real_world(
    behaviour="EKS accepts only subnets in the zones with which a control plane was created",
    source="aws/containers-roadmap#2258; InvalidParameterException of UpdateClusterConfig",
)
@pytest.mark.real_world(
    behaviour="An EBS volume grows and never shrinks",
    source="docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyVolume.html",
)
def test_a_change_is_refused(
    whole: Whole, token: str, identity: str, inputs: dict[str, Any], code: str, words: str
) -> None:
    with refused(code, words):
        whole.change(token, whole.filled(identity), **whole.filled(inputs))


@pytest.mark.parametrize(("token", "identity", "inputs"), ACCEPTED)
def test_a_change_is_accepted(whole: Whole, token: str, identity: str, inputs: dict[str, Any]) -> None:
    given = whole.filled(inputs)
    outputs = whole.change(token, whole.filled(identity), **given)
    assert {key: outputs[key] for key in given} == given


def test_default_tags_of_the_provider_count(whole: Whole) -> None:
    whole.provider["defaultTags"] = {"tags": {**tags(40), "Owner": ""}}
    whole.make(tokens.ROLE, "same", name="same", tags={**tags(49), "Owner": "them"})
    for token, own, code in (
        (tokens.VPC, {f"own-{number}": "v" for number in range(10)}, "TagLimitExceeded"),
        (tokens.ROLE, {"owner": "us"}, "InvalidInput"),
        (tokens.SCHEDULE_GROUP, {}, "ValidationException"),
    ):
        with refused(code):
            whole.make(token, "both", tags=own)
