"""Who runs the program, asked of AWS before anything is registered that costs money."""

import pulumi
import pulumi_aws as aws


def find_caller(options: pulumi.InvokeOptions) -> str:
    """ARN of the IAM role or user whose credentials the AWS provider has; empty where mocks answer nothing.

    Of an assumed role it is the role, with its path: what EKS takes, and what stays the same from session to session.
    Raises `pulumi.RunError`, which Pulumi shows without a traceback, where AWS does not accept the credentials.
    """
    try:
        arn = aws.get_caller_identity(opts=options).arn
        return aws.iam.get_session_context(arn=arn, opts=options).issuer_arn or "" if arn else ""
    except Exception as error:  # the SDK raises no narrower one for a function that fails
        said = "".join(char if char.isprintable() else " " for char in str(error))[:500]
        fix = "Check `aws:profile`, `aws:assumeRoles` and `aws:allowedAccountIds` in the stack file."
        raise pulumi.RunError(f"AWS credentials are not accepted: {said}. {fix}") from None
