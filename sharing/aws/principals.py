"""The IAM principals that can be admins of a cluster: EKS accepts them as `principalArn` of an access entry.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html
"""

import re

from sharing.aws.partitions import partition_of
from sharing.printable import visible
from sharing.problems import Problem

PRINCIPAL = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):iam::[0-9]{12}:(?P<kind>role|user)/(?P<name>[\w+=,.@/-]{1,1024})"
)
SESSION = re.compile(r"arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role/([\w+=,.@-]{1,64})/.+")
SSO_ROLE = "AWSReservedSSO_"
SERVICE_ROLES = "aws-service-role/"
EXAMPLE = "Write a role or user, for example `arn:aws:iam::111122223333:role/ci`."


def judge_principal(path: str, arn: str, region: str) -> Problem | None:
    """The error of an admin of a cluster in `region`, if any; `path` is its place in the stack file."""
    shown = visible(arn)[:200]
    if session := SESSION.fullmatch(arn):
        return Problem(
            path, shown, "is a session, which expires; an admin must be its role", _role_of(*session.groups())
        )
    principal = PRINCIPAL.fullmatch(arn)
    if principal is None:
        rule = "is not the ARN of an IAM role or user"
        if arn.endswith(":root"):
            # EKS accepts it but gives nobody access (kubernetes-sigs/aws-iam-authenticator#797).
            rule = "is an AWS account, which EKS accepts and then ignores"
        return Problem(path, shown, rule, EXAMPLE)
    if principal["name"].startswith(SERVICE_ROLES):
        # EKS: "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role"
        return Problem(path, shown, "is a service-linked role, which EKS refuses", EXAMPLE)
    if principal["kind"] == "role" and principal["name"].startswith(SSO_ROLE):
        # EKS: "The specified principalArn is invalid: invalid principal" (terraform-aws-modules/terraform-aws-eks#2969)
        return Problem(
            path, shown, "lacks the path that every IAM Identity Center role has", _look_up(principal["name"])
        )
    if principal["partition"] != (here := partition_of(region)):
        fix = f"Write a role or user whose ARN begins with `arn:{here}:iam::`."
        return Problem(path, shown, f"is in another partition than {region}", fix)
    return None


def _role_of(partition: str, account: str, role: str) -> str:
    if role.startswith(SSO_ROLE):
        return _look_up(role)
    # A session's ARN does not show the path of its role.
    return f"Write `arn:{partition}:iam::{account}:role/{role}`, with the role's path if it has one."


def _look_up(role: str) -> str:
    return f"Write the ARN that `aws iam get-role --role-name {role} --query Role.Arn --output text` prints."
