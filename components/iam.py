"""IAM policies that several components use: trust policies, and ARNs of AWS managed policies."""

import json
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
import pulumi_aws as aws

EC2 = "ec2.amazonaws.com"
EKS = "eks.amazonaws.com"
POD_IDENTITY = "pods.eks.amazonaws.com"
"""The service of EKS Pod Identity, which gives roles to pods."""
SCHEDULER = "scheduler.amazonaws.com"

Statement = dict[str, Any]


def trust(service: str, child: pulumi.ResourceOptions, *, tags_sessions: bool = False) -> str:
    """Trust policy that lets an AWS service assume a role, restricted to the provider's own account if possible.

    The restriction needs a service that sends `aws:SourceAccount`. These do: eks (EKS User Guide,
    cross-service-confused-deputy-prevention, 2025-08-19) and pods.eks (awslabs/mountpoint-s3-csi-driver#781, where
    `aws:SourceArn` of an association failed). For ec2, AWS does not document it; see decision 0047.
    """
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": ["sts:AssumeRole", *(["sts:TagSession"] if tags_sessions else [])],
    }
    if service != EC2:
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": _account(child)}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


_accounts: WeakKeyDictionary[pulumi.ProviderResource, str] = WeakKeyDictionary()
"""The account of each provider, looked up once for all roles."""


def _account(child: pulumi.ResourceOptions) -> str:
    provider = child.parent.get_provider("aws:iam/role:Role") if child.parent else None
    if provider is not None and provider in _accounts:
        return _accounts[provider]
    # Pulumi's mocks return an empty result.
    account = aws.get_caller_identity(opts=pulumi.InvokeOptions(parent=child.parent)).account_id or ""
    if provider is not None:
        _accounts[provider] = account
    return account


def with_trust(policy: str) -> pulumi.ResourceTransform:
    """Gives this trust policy to a role that another component creates, such as `eks.Cluster`."""

    def transform(child: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if child.type_ != "aws:iam/role:Role":
            return None
        return pulumi.ResourceTransformResult({**child.props, "assumeRolePolicy": policy}, child.opts)

    return transform


def managed_policy(name: str, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """ARN of an AWS managed policy, in the partition of the provider (`aws`, `aws-us-gov`, `aws-cn`)."""
    partition = aws.get_partition_output(opts=pulumi.InvokeOptions(parent=child.parent))
    # Pulumi's mocks return an empty result.
    return partition.apply(lambda answer: f"arn:{answer.partition or 'aws'}:iam::aws:policy/{name}")


def document(statements: list[Statement]) -> str:
    """The policy document with these statements, as compact JSON."""
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def tls_only(queue_arn: str) -> Statement:
    """The statement of a queue's policy that refuses calls without TLS."""
    return {
        "Sid": "DenyHTTP",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue_arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
