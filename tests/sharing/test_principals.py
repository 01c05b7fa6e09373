"""Which ARNs may be admins of a cluster: cases typed from the IAM and EKS documentation."""

import pytest

from sharing.principals import judge_principal, partition_of

ROLE = "arn:aws:iam::111122223333:role"
SSO = "aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Admin_0123456789abcdef"


@pytest.mark.parametrize(
    ("arn", "region"),
    [
        (f"{ROLE}/ci", "us-east-1"),
        (f"{ROLE}/teams/ml/ci", "eu-west-3"),
        (f"{ROLE}/{SSO}", "us-east-1"),
        ("arn:aws:iam::111122223333:user/anna", "us-east-1"),
        ("arn:aws-cn:iam::111122223333:role/ci", "cn-north-1"),
        ("arn:aws-us-gov:iam::111122223333:role/ci", "us-gov-west-1"),
    ],
)
def test_roles_and_users_of_the_regions_partition_are_admins(arn: str, region: str) -> None:
    assert judge_principal("cluster.admins[0]", arn, region) is None


@pytest.mark.parametrize(
    ("arn", "rule", "fix"),
    [
        ("ci", "is not the ARN of an IAM role or user", "role/ci"),
        (f"{ROLE}/*", "is not the ARN of an IAM role or user", "role/ci"),
        ("arn:aws:iam::111122223333:root", "is an AWS account", "role/ci"),
        (
            "arn:aws:sts::111122223333:assumed-role/deploy/anna",
            "is a session",
            "Write `arn:aws:iam::111122223333:role/deploy`",
        ),
        (
            "arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_Admin_0123456789abcdef/anna",
            "is a session",
            "aws iam get-role --role-name AWSReservedSSO_Admin_0123456789abcdef",
        ),
        (
            f"{ROLE}/AWSReservedSSO_Admin_0123456789abcdef",
            "lacks the path",
            "aws iam get-role --role-name AWSReservedSSO_Admin_0123456789abcdef",
        ),
        (
            f"{ROLE}/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS",
            "is a service-linked role",
            "role/ci",
        ),
        ("arn:aws-cn:iam::111122223333:role/ci", "is in another partition than us-east-1", "`arn:aws:iam::`"),
    ],
)
def test_other_arns_are_refused_with_the_one_to_write(arn: str, rule: str, fix: str) -> None:
    problem = judge_principal("cluster.admins[0]", arn, "us-east-1")
    assert problem is not None
    assert problem.path == "cluster.admins[0]"
    assert rule in problem.rule
    assert fix in problem.fix


def test_control_characters_of_an_arn_are_not_shown() -> None:
    problem = judge_principal("cluster.admins[0]", "arn:\x1b[31m", "us-east-1")
    assert problem is not None
    assert "\x1b" not in str(problem)


def test_regions_belong_to_partitions() -> None:
    regions = ("us-east-1", "cn-northwest-1", "us-gov-east-1", "us-iso-east-1", "us-isob-east-1")
    assert [partition_of(region) for region in regions] == ["aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b"]
