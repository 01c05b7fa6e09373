"""Where a Job keeps its checkpoints: objects in an S3 bucket, or files on an EBS volume."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws

from components.arguments import check_arguments, check_least
from components.disks import claim_volume, ebs_volume
from components.iam import POD_IDENTITY, trust

DIRECTORY = "/checkpoints"
"""Where the volume is mounted."""
DIRECTORY_VARIABLE, URI_VARIABLE = "CHECKPOINT_DIRECTORY", "CHECKPOINT_URI"
PLAIN_PREFIX = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")
"""A key prefix without the characters that IAM policies expand: `*`, `?` and `$`."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class BucketCheckpoints:
    """Checkpoints in an S3 bucket, which pods reach from every zone.

    The Job's pods may list, read, write and delete objects under `prefix`, and nothing else in AWS. They get
    `CHECKPOINT_URI`, e.g. `s3://mine/train/`. Raises `ValueError` for a value of the wrong type and a prefix with other
    characters than letters, digits and `._=-/`.
    """

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster. It needs the add-on `eks-pod-identity-agent`, which `GpuCluster` installs."""
    bucket: pulumi.Input[str]
    """Name of the bucket. The component does not create it, so `pulumi destroy` keeps the checkpoints."""
    prefix: str
    """Prefix of the keys, e.g. `train`. Use another one for each Job."""

    def __post_init__(self) -> None:
        if not PLAIN_PREFIX.fullmatch(self.prefix):
            raise ValueError(
                f"BucketCheckpoints.prefix is {self.prefix!r}. Pass letters, digits and `._=-`, with "
                "`/` only between them."
            )


@check_arguments
@dataclass(frozen=True, kw_only=True)
class VolumeCheckpoints:
    """Checkpoints on an EBS volume, which ties the Job to one zone: without capacity there, it waits.

    The Job's pods get its directory in `CHECKPOINT_DIRECTORY`. Raises `ValueError` for a value of the wrong type and a
    size below 1.
    """

    zone: pulumi.Input[str]
    """Zone of the volume, e.g. `us-east-1a`. The pool must have nodes in it."""
    size_gib: int = 10
    """Size of the volume in GiB. `pulumi destroy` deletes it with the checkpoints."""

    def __post_init__(self) -> None:
        check_least(self, size_gib=1)


Checkpoints = BucketCheckpoints | VolumeCheckpoints


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The storage of a Job's checkpoints, as its pods see it."""

    location: pulumi.Input[str] | None = None
    environment: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    claim: pulumi.Input[str] | None = None
    """Name of the claim on the volume."""
    needs: Sequence[pulumi.Resource] = ()
    """Resources without which the pods have no access."""


def store_in_bucket(
    name: str,
    kept: BucketCheckpoints,
    namespace: pulumi.Input[str],
    account: pulumi.Input[str],
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> Storage:
    """Registers the role with which pods of this service account reach the bucket."""
    role = aws.iam.Role(
        f"{name}-role",
        assume_role_policy=trust(POD_IDENTITY, child, tags_sessions=True),
        tags=dict(tags),
        opts=child,
    )
    partition = aws.get_partition_output(opts=pulumi.InvokeOptions(parent=child.parent))
    policy = aws.iam.Policy(
        f"{name}-policy",
        policy=pulumi.Output.all(partition, kept.bucket).apply(
            # Pulumi's mocks return an empty result.
            lambda known: json.dumps(access(f"arn:{known[0].partition or 'aws'}:s3:::{known[1]}", kept.prefix))
        ),
        tags=dict(tags),
        opts=child,
    )
    attached = aws.iam.RolePolicyAttachment(
        f"{name}-policy-attached", role=role.name, policy_arn=policy.arn, opts=child
    )
    association = aws.eks.PodIdentityAssociation(
        f"{name}-identity",
        cluster_name=kept.cluster_name,
        namespace=namespace,
        service_account=account,
        role_arn=role.arn,
        tags=dict(tags),
        opts=child,
    )
    uri = pulumi.Output.concat("s3://", kept.bucket, "/", kept.prefix, "/")
    # Pod Identity gives a pod credentials but no region, and the pod cannot ask the node's metadata service.
    # Pulumi's mocks have no region.
    region = association.region.apply(lambda known: known or "region")
    return Storage(
        location=uri,
        # boto3 reads only the second (botocore 1.44.5 configprovider.py), most other SDKs only the first.
        environment={URI_VARIABLE: uri, "AWS_REGION": region, "AWS_DEFAULT_REGION": region},
        # Without the policy, the first request is denied. A pod gets credentials only if the association exists when it
        # is created: the region in its environment comes from there.
        needs=[attached],
    )


def access(bucket_arn: str, prefix: str) -> dict[str, Any]:
    """Policy that allows to list, read, write and delete objects under a prefix.

    To find out whether an object exists, a program must list it: without `s3:ListBucket` for the request, S3 answers
    403 for a missing object (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html), and a request for an
    object has no `s3:prefix`.
    """
    objects = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": objects, "Resource": f"{bucket_arn}/{prefix}/*"},
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": bucket_arn,
                "Condition": {"StringLike": {"s3:prefix": f"{prefix}/*"}},
            },
        ],
    }


def store_on_volume(
    name: str,
    kept: VolumeCheckpoints,
    namespace: pulumi.Input[str],
    job: str,
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> Storage:
    """Registers the volume and a claim on it."""
    source = ebs_volume(name, kept.zone, kept.size_gib, tags, child)
    claim = claim_volume(name, f"{job}-checkpoints", namespace, f"{kept.size_gib}Gi", source, child)
    return Storage(location=DIRECTORY, environment={DIRECTORY_VARIABLE: DIRECTORY}, claim=claim)
