"""Who runs the program, asked of AWS before anything is registered that costs money."""

import pulumi
import pulumi_aws as aws

from sharing.principals import judge_principal
from sharing.printable import one_line


def find_caller(options: pulumi.InvokeOptions, region: str) -> str:
    """ARN of the IAM role or user whose credentials the AWS provider has; empty where mocks answer nothing.

    Of an assumed role it is the role, with its path: what EKS takes, and what stays the same from session to session.
    Raises `pulumi.RunError`, which Pulumi shows without a traceback, where nobody can be found whom EKS admits.
    """
    try:
        session = aws.get_caller_identity(opts=options).arn
    except Exception as error:  # the SDK raises no narrower one for a function that fails
        fix = "Check `aws:profile`, `aws:assumeRoles` and `aws:allowedAccountIds` in the stack file."
        raise pulumi.RunError(f"AWS credentials are not accepted: {_shown(error)}. {fix}") from None
    if not session:
        return ""
    try:
        caller = aws.iam.get_session_context(arn=session, opts=options).issuer_arn or ""
    except Exception as error:
        fix = "Allow the role `iam:GetRole` on itself."
        raise pulumi.RunError(f"The role of {_shown(session)} is unknown: {_shown(error)}. {fix}") from None
    if caller and (problem := judge_principal("AWS credentials", caller, region)):
        fix = "Run as a role or user, not as root."
        raise pulumi.RunError(f"{problem.path} cannot use a cluster: {problem.found} {problem.rule}. {fix}")
    return caller


def _shown(said: object) -> str:
    """What AWS says, in one line of bounded length."""
    return one_line(str(said))[:500]
