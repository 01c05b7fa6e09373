"""Asks AWS for the identity of the caller before any resource that costs money is registered."""

import pulumi
import pulumi_aws as aws

from sharing.aws.principals import judge_principal
from sharing.printable import quoted


def find_caller(options: pulumi.InvokeOptions, region: str) -> str:
    """ARN of the IAM role or user whose credentials the AWS provider has; empty if mocks answer nothing.

    For an assumed role it is the role with its path, which EKS accepts and which is the same in every session.
    Raises `pulumi.RunError`, which Pulumi shows without a traceback, if EKS would not accept the caller.
    """
    try:
        session = aws.get_caller_identity(opts=options).arn
    except Exception as error:  # the SDK raises no narrower one for a function that fails
        fix = "Check `aws:profile`, `aws:assumeRoles` and `aws:allowedAccountIds` in the stack file."
        raise pulumi.RunError(f"AWS rejected the credentials: {quoted(error)}. {fix}") from None
    if not session:
        return ""
    try:
        caller = aws.iam.get_session_context(arn=session, opts=options).issuer_arn or ""
    except Exception as error:
        fix = "Allow the role `iam:GetRole` on itself."
        raise pulumi.RunError(f"the role of {quoted(session)} is unknown: {quoted(error)}. {fix}") from None
    if caller and (problem := judge_principal("AWS credentials", caller, region)):
        fix = "Run as a role or user, not as root."
        raise pulumi.RunError(f"{problem.path} cannot administer a cluster: {problem.sentence}. {fix}")
    return caller
