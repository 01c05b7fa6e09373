"""The credentials of a call: those of an assumed role, of a profile, or of the user that runs `pulumi`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.cloud.aws.places import Place
from sandbox.cloud.protocol import Values
from sandbox.world.entities import CloudError, value_at
from sandbox.world.providers.kubeconfig import aws_options

PROFILES = "https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html"
CONTEXT = "terraform-provider-aws, internal/service/iam/session_context_data_source.go, dataSourceSessionContextRead"
ACCOUNTS = "https://registry.terraform.io/providers/hashicorp/aws/latest/docs#allowed_account_ids"


@dataclass(slots=True)
class Callers:
    """The people and machines that have credentials for the emulated cloud."""

    ambient: str = ""
    """ARN of the role or user that runs `pulumi`. If empty, it is a user of the emulated account."""
    profiles: Mapping[str, str] = field(default_factory=dict)
    """ARN of the role or user of each profile in the AWS configuration."""
    may_get_role: bool = True
    """Whether roles have the permission iam:GetRole."""
    forbidden: frozenset[str] = frozenset()
    """Calls of AWS that nobody has the permission for, e.g. `eks:DescribeCluster`."""

    def of(self, provider: Values) -> str:
        """ARN of the role or user that calls through a provider with these inputs. Raises CloudError."""
        options = aws_options(dict(provider))
        if options:
            roles = [options.get("role-arn") or options.get("role")]
            profile, region = options.get("profile"), options.get("region")
        else:
            roles = [value_at(one, "roleArn") for one in _listed(provider.get("assumeRoles"))]
            profile, region = provider.get("profile"), provider.get("region")
        if profile and profile not in self.profiles:
            raise CloudError("ProfileNotFound", f"failed to get shared config profile, {profile}", PROFILES)
        own = self.profiles[str(profile)] if profile else self.ambient
        return next((str(one) for one in reversed(roles) if one), "") or own or _user(region)

    def admit(self, provider: Values) -> None:
        """Checks the credentials as the AWS provider does before any other call. Raises CloudError."""
        number, allowed = account(self.of(provider)), _listed(provider.get("allowedAccountIds"))
        if allowed and number not in allowed:
            raise CloudError("WrongAccount", f"AWS account ID not allowed: {number}", ACCOUNTS)

    def identity(self, provider: Values) -> Values:
        """The result of sts:GetCallerIdentity."""
        caller = self.of(provider)
        return {"accountId": account(caller), "arn": session(caller)}

    def session_context(self, args: Values, provider: Values) -> Values:
        """The role behind a session, with its path, which the session's ARN lacks. For a user, it is the user.

        terraform-provider-aws, internal/service/iam/session_context_data_source.go
        """
        caller = self.of(provider)
        if not self.may_get_role and ":assumed-role/" in args["arn"]:
            name = args["arn"].split("/")[1]
            raise CloudError("AccessDenied", f"unable to get role ({name}): not authorized: iam:GetRole", CONTEXT)
        issuer = caller if args["arn"] == session(caller) else args["arn"]
        return {"issuerArn": issuer}


def account(arn: str) -> str:
    """The account in an ARN."""
    return arn.split(":")[4]


def session(caller: str) -> str:
    """The caller's ARN in replies. For a role, it is the ARN of a session, which has no path."""
    partition, number, resource = caller.split(":")[1], account(caller), caller.split(":", 5)[5]
    if not resource.startswith("role/"):
        return caller
    return f"arn:{partition}:sts::{number}:assumed-role/{resource.rpartition('/')[2]}/session"


def _user(region: Any) -> str:
    return Place.of({"region": region}).arn("iam", "user/sandbox", regional=False)


def _listed(value: Any) -> list[Any]:
    # On the wire, a provider's inputs are JSON strings.
    found = json.loads(value) if isinstance(value, str) else value
    return list(found or [])
