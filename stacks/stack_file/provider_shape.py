"""The shape of the `aws:` keys that a stack file may have."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from stacks.stack_file.section import Section
from stacks.stack_file.yaml import decode


def from_json(value: object) -> object:
    """A list or mapping that may be written as JSON text."""
    is_json = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return decode(value) if is_json else value


def _account_from_number(value: object) -> object:
    # `pulumi config set --path` stores digits as a number, unless the first one is a zero.
    return f"{value:012d}" if isinstance(value, int) and not isinstance(value, bool) else value


AccountId = Annotated[str, BeforeValidator(_account_from_number), Field(pattern=r"^[0-9]{12}$")]


class AssumedRole(Section):
    """A role that Pulumi, and the AWS CLI in the kubeconfig, assume. Keys are those of the AWS provider."""

    model_config = ConfigDict(alias_generator=to_camel)

    role_arn: str = Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$", description="ARN of the role.")
    session_name: str | None = Field(
        default=None,
        # https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html, RoleSessionName
        pattern=r"^[A-Za-z0-9_+=,.@-]{2,64}$",
        description="Name of the session in AWS's records.",
    )
    duration: str | None = Field(
        default=None, pattern=r"^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$", description="How long a session lasts, e.g. `2h`."
    )


class DefaultTags(Section):
    """Tags on every AWS resource."""

    tags: dict[str, str] = Field(default={}, description="The tags.")
