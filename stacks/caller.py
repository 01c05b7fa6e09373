"""Who runs the program, asked of AWS before anything is registered that costs money."""

import pulumi
import pulumi_aws as aws


def find_caller(options: pulumi.InvokeOptions) -> str:
    """ARN of the IAM role or user whose credentials the AWS provider has; empty where mocks answer nothing.

    Of an assumed role it is the role, with its path: what EKS takes, and what stays the same from session to session.
    """
    arn = aws.get_caller_identity(opts=options).arn
    return aws.iam.get_session_context(arn=arn, opts=options).issuer_arn or "" if arn else ""
