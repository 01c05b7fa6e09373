"""AWS permissions of Karpenter's controller: the statements of its official policies, scoped to one cluster.

Source: aws/karpenter-provider-aws v1.14.1, getting-started cloudformation.yaml, which has six managed policies. Two
with the same statements fit IAM's limit of 6,144 characters per policy. A test compares them statement by statement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from components.iam import Statement, tls_only

INSTANCE_PARTS = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
"""Kinds of resource that Karpenter creates and tags."""
DISCOVERED = (
    "CapacityReservations",
    "Images",
    "Instances",
    "InstanceStatus",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "LaunchTemplates",
    "PlacementGroups",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
)
NODE_POOL, NODE_CLASS = "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The resources on which the controller can act."""

    cluster: str
    """Name of the EKS cluster."""
    node_role_arn: str
    queue_arn: str
    """`arn:PARTITION:sqs:REGION:ACCOUNT:…`, from which partition, region and account are taken."""

    @property
    def partition(self) -> str:
        return self._part(1)

    @property
    def region(self) -> str:
        return self._part(3)

    @property
    def account(self) -> str:
        return self._part(4)

    @property
    def cluster_arn(self) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.cluster}"

    def ec2(self, *kinds: str, account: str = "*") -> list[str]:
        """ARN patterns for all EC2 resources of these kinds in the region."""
        return [f"arn:{self.partition}:ec2:{self.region}:{account}:{kind}/*" for kind in kinds]

    @property
    def profiles(self) -> list[str]:
        """ARN patterns for all instance profiles of the account."""
        return [f"arn:{self.partition}:iam::{self.account}:instance-profile/*"]

    def _part(self, index: int) -> str:
        return self.queue_arn.split(":")[index]


def node_statements(scope: Scope) -> list[Statement]:
    """Statements for launching, tagging and terminating the cluster's instances."""
    launch = ["RunInstances", "CreateFleet"]
    requested = {"StringEquals": _owned("Request", scope), "StringLike": _any("Request", NODE_POOL)}
    existing = {"StringEquals": _ours("Resource", scope), "StringLike": _any("Resource", NODE_POOL)}
    on_creation = {"ec2:CreateAction": [*launch, "CreateLaunchTemplate"]}
    retag = {
        **existing,
        "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": scope.cluster},
        "ForAllValues:StringEquals": {"aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]},
    }
    shared = scope.ec2("security-group", "subnet", "capacity-reservation", "placement-group")
    template = scope.ec2("launch-template")
    return [
        _allow(
            "AllowScopedEC2InstanceAccessActions", _ec2(*launch), scope.ec2("image", "snapshot", account="") + shared
        ),
        _allow("AllowScopedEC2LaunchTemplateAccessActions", _ec2(*launch), template, existing),
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            _ec2(*launch, "CreateLaunchTemplate"),
            scope.ec2(*INSTANCE_PARTS),
            requested,
        ),
        _allow(
            "AllowScopedResourceCreationTagging",
            _ec2("CreateTags"),
            scope.ec2(*INSTANCE_PARTS),
            {**requested, "StringEquals": {**requested["StringEquals"], **on_creation}},
        ),
        _allow("AllowScopedResourceTagging", _ec2("CreateTags"), scope.ec2("instance"), retag),
        _allow(
            "AllowScopedDeletion",
            _ec2("TerminateInstances", "DeleteLaunchTemplate"),
            scope.ec2("instance", "launch-template"),
            existing,
        ),
    ]


def account_statements(scope: Scope) -> list[Statement]:
    """Statements for instance profiles with the nodes' role, for the queue, and for lookups."""
    region = "topology.kubernetes.io/region"
    requested = {**_owned("Request", scope), f"aws:RequestTag/{region}": scope.region}
    existing = {**_ours("Resource", scope), f"aws:ResourceTag/{region}": scope.region}
    of_class = {kind: _any(kind, NODE_CLASS) for kind in ("Request", "Resource")}
    return [
        _allow(
            "AllowPassingInstanceRole",
            ["iam:PassRole"],
            [scope.node_role_arn],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        _allow(
            "AllowScopedInstanceProfileCreationActions",
            ["iam:CreateInstanceProfile"],
            scope.profiles,
            {"StringEquals": requested, "StringLike": of_class["Request"]},
        ),
        _allow(
            "AllowScopedInstanceProfileTagActions",
            ["iam:TagInstanceProfile"],
            scope.profiles,
            {
                "StringEquals": {**existing, **requested},
                "StringLike": {**of_class["Resource"], **of_class["Request"]},
            },
        ),
        _allow(
            "AllowScopedInstanceProfileActions",
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            scope.profiles,
            {"StringEquals": existing, "StringLike": of_class["Resource"]},
        ),
        _allow("AllowAPIServerEndpointDiscovery", ["eks:DescribeCluster"], [scope.cluster_arn]),
        _allow(
            "AllowInterruptionQueueActions",
            ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            [scope.queue_arn],
        ),
        _allow(
            "AllowZonalShiftStatusReadOnly",
            ["arc-zonal-shift:GetManagedResource"],
            ["*"],
            {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": scope.cluster_arn}},
        ),
        _allow(
            "AllowRegionalReadActions",
            _ec2(*(f"Describe{kind}" for kind in DISCOVERED)),
            ["*"],
            {"StringEquals": {"aws:RequestedRegion": scope.region}},
        ),
        _allow(
            "AllowSSMReadActions",
            ["ssm:GetParameter"],
            [f"arn:{scope.partition}:ssm:{scope.region}::parameter/aws/service/*"],
        ),
        _allow("AllowPricingReadActions", ["pricing:GetProducts"], ["*"]),
        # Without it, an EC2NodeClass is never deleted (karpenter-provider-aws#9185).
        _allow("AllowUnscopedInstanceProfileListAction", ["iam:ListInstanceProfiles"], ["*"]),
        _allow("AllowInstanceProfileReadActions", ["iam:GetInstanceProfile"], scope.profiles),
    ]


PARTS: dict[str, Callable[[Scope], list[Statement]]] = {"nodes": node_statements, "account": account_statements}
"""The statements of the controller's two policies."""


def queue_statements(queue_arn: str, rule_arns: Sequence[str]) -> list[Statement]:
    """The queue's policy: only EventBridge can send messages, only for these rules, and only over TLS.

    Karpenter's template is wider: it allows rules of every account, and sqs.amazonaws.com, which sends nothing here.
    EventBridge passes a rule's ARN and account (EventBridge User Guide, cross-service-confused-deputy-prevention).
    """
    account = queue_arn.split(":")[4]
    return [
        {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue_arn,
            "Condition": {
                "StringEquals": {"aws:SourceAccount": account},
                "ArnEquals": {"aws:SourceArn": [*rule_arns]},
            },
        },
        tls_only(queue_arn),
    ]


def _allow(
    sid: str, actions: list[str], resources: list[str], condition: dict[str, dict[str, Any]] | None = None
) -> Statement:
    statement: Statement = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement


def _ec2(*calls: str) -> list[str]:
    return [f"ec2:{call}" for call in calls]


def _ours(kind: str, scope: Scope) -> dict[str, Any]:
    """Condition on the tag of resources that belong to the cluster."""
    return {f"aws:{kind}Tag/kubernetes.io/cluster/{scope.cluster}": "owned"}


def _owned(kind: str, scope: Scope) -> dict[str, Any]:
    """Condition on both tags that Karpenter sets on resources that it creates."""
    return {**_ours(kind, scope), f"aws:{kind}Tag/eks:eks-cluster-name": scope.cluster}


def _any(kind: str, tag: str) -> dict[str, str]:
    return {f"aws:{kind}Tag/{tag}": "*"}
