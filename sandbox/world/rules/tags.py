"""Rules for tags: those of AWS's services, and those of the EBS driver, which tags volumes that it creates.

Left out is a limit for queues and for rules of EventBridge. SQS only advises against more than 50 tags
(docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_TagQueue.html), and the `TagMap` of sqs and the
`TagList` of events in botocore 1.44.5 have no maximum. The program creates no secrets in Secrets Manager.
"""

import json
from collections.abc import Callable, Iterable, Mapping

from sandbox.cloud.aws.places import Place
from sandbox.world import tokens
from sandbox.world.controllers.user_data import template_of
from sandbox.world.entities import value_at, values_at
from sandbox.world.rules.rule import CHANGE, CREATE, Case, Refusal, Rule

MOST = 50
"""User tags on a resource. Source: botocore 1.44.5: max of iam `tagListType`, eks `TagMap` and logs `Tags`."""
ON_A_NODE = 5
"""Tags that EKS adds to a node of a managed node group, without `aws:…`. Source: a listing of `describe-tags` has
eks:cluster-name, eks:nodegroup-name, k8s.io/cluster-autoscaler/enabled, k8s.io/cluster-autoscaler/CLUSTER and
kubernetes.io/cluster/CLUSTER."""
BY_THE_DRIVER = ("CSIVolumeName", "CSIVolumeSnapshotName", "ebs.csi.aws.com/", "kubernetes.io")
"""Keys, or their beginnings, that stop the driver. Source: aws-ebs-csi-driver 429e202, pkg/driver/validation.go."""
IAM, EKS, EC2 = ("aws:iam/",), ("aws:eks/",), ("aws:ec2/", "aws:ebs/")
"""All types of a service: those without tags are only given too many if the default tags alone are too many."""


def _tags(case: Case) -> Mapping[str, str]:
    """The tags that the provider sends: its default tags, and those of the resource."""
    return {**Place.of(case.provider).default_tags, **(case.inputs.get("tags") or {})}


def _many(case: Case) -> str | None:
    sets = [_tags(case), *values_at(case.inputs, "tagSpecifications.tags")]
    most = max(map(len, sets))
    return f"A resource can have up to {MOST} tags (it has {most})." if most > MOST else None


def _any(keys: Callable[[Case], Iterable[str]], holds: Callable[[str], bool], words: str) -> Refusal:
    """Rejects a call for the first of the keys for which `holds` is true. `words` can contain `{}` for it."""

    def refuse(case: Case) -> str | None:
        return next((words.format(key) for key in keys(case) if holds(key)), None)

    return refuse


def _twice(case: Case) -> str | None:
    keys = [key.lower() for key in _tags(case)]
    doubled = len(set(keys)) < len(keys)
    return "Duplicate tag keys found. Please note that Tag keys are case insensitive." if doubled else None


def _empty(case: Case) -> str | None:
    empty = [key for key, value in _tags(case).items() if not value]
    return (
        "1 validation error detected: Value at 'tags' failed to satisfy constraint: Member must have length greater "
        f"than or equal to 1 ({empty[0]})"
        if empty
        else None
    )


def _many_on_a_node(case: Case) -> str | None:
    specs = values_at(template_of(case.entities, case.inputs), "tagSpecifications")
    given = sum(len(spec["tags"]) for spec in specs if spec["resourceType"] == "instance")
    if given + ON_A_NODE <= MOST:
        return None
    return f"TagLimitExceeded: an instance can have up to {MOST} tags (it has {given + ON_A_NODE})"


def _volume_tags(case: Case) -> Iterable[str]:
    values = json.loads(case.inputs.get("configurationValues") or "{}")
    return value_at(values, "controller.extraVolumeTags") or ()


def _is_aws(key: str) -> bool:
    return key.lower().startswith("aws:")


def _is_of_the_driver(key: str) -> bool:
    return key.startswith(BY_THE_DRIVER)


RESERVED = _any(_tags, _is_aws, "Value ( {} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved")
STOPS = _any(_volume_tags, _is_of_the_driver, "the controller stops: invalid extra tags: tag key '{}' is reserved")
IAM_API = "https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html"
EKS_API = "https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html"
EC2_CODES = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"
RULES: tuple[Rule, ...] = (
    Rule(IAM, CHANGE, "ValidationError", IAM_API, _many),
    # IAM accepts both, one after the other, and keeps only one.
    Rule(IAM, CHANGE, "InvalidInput", "https://github.com/aws/aws-cdk/issues/26253", _twice),
    Rule(IAM, CHANGE, "InvalidInput", IAM_API, RESERVED),
    Rule(EKS, CHANGE, "InvalidParameterException", EKS_API, _many),
    Rule(EKS, CHANGE, "InvalidParameterException", EKS_API, RESERVED),
    Rule(EC2, CHANGE, "TagLimitExceeded", EC2_CODES, _many),
    # The message: github.com/kubernetes-sigs/cluster-api-provider-aws/pull/5461.
    Rule(EC2, CHANGE, "InvalidParameterValue", EC2_CODES, RESERVED),
    Rule(
        (tokens.LOG_GROUP,),
        CHANGE,
        "InvalidParameterException",
        "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html",
        _many,
    ),
    Rule(
        (tokens.SCHEDULE_GROUP,),
        CHANGE,
        "ValidationException",
        "https://docs.aws.amazon.com/scheduler/latest/APIReference/API_Tag.html",
        _empty,
    ),
    Rule(
        (tokens.NODE_GROUP,),
        CREATE,
        "AsgInstanceLaunchFailures",
        "https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html",
        _many_on_a_node,
        done=True,
    ),
    Rule(
        (tokens.ADDON,),
        CHANGE,
        "InsufficientNumberOfReplicas",
        "https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/pkg/driver/validation.go",
        STOPS,
        done=True,
    ),
)
