"""IAM pieces that components share: who may assume a role, and AWS's managed policies in the right partition."""

import json

import pulumi
import pulumi_aws as aws

POD_IDENTITY = "pods.eks.amazonaws.com"
"""The service that hands roles to pods, by EKS Pod Identity."""


def trust(service: str, *actions: str) -> str:
    """Trust policy that lets an AWS service assume a role; `sts:AssumeRole` when no action is named."""
    allowed = list(actions) or ["sts:AssumeRole"]
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": allowed}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def managed_policy(name: str, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """ARN of an AWS managed policy, in the partition of the provider (`aws`, `aws-us-gov`, `aws-cn`)."""
    found = aws.get_partition_output(opts=pulumi.InvokeOptions(parent=child.parent))
    # Stock mocks answer an invoke with nothing.
    return found.apply(lambda answer: f"arn:{answer.partition or 'aws'}:iam::aws:policy/{name}")
