"""The shape of the `aws:` keys that a stack file may have."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sharing.section import Fix, Section, WrongFormError
from sharing.stack.go_duration import NANOSECONDS, nanoseconds


def _account_from_number(value: object) -> object:
    # `pulumi config set --path` stores digits as a number, unless the first one is a zero.
    return f"{value:012d}" if isinstance(value, int) and not isinstance(value, bool) else value


LEAST_MINUTES, MOST_MINUTES = 15, 12 * 60
"""Of a role's session (terraform-provider-aws internal/provider/sdkv2/validate.go, validAssumeRoleDuration)."""


def _session_duration(text: str) -> str:
    length = nanoseconds(text)
    if length is None:
        raise WrongFormError("must be numbers with the units h, m, s or ms")
    if not LEAST_MINUTES <= length / NANOSECONDS["m"] <= MOST_MINUTES:
        raise WrongFormError("must be from 15m to 12h")
    return text


AccountId = Annotated[str, BeforeValidator(_account_from_number), Field(pattern=r"^[0-9]{12}$")]


class AssumedRole(Section):
    """A role that Pulumi, and the AWS CLI in the kubeconfig, assume. Keys are those of the AWS provider."""

    model_config = ConfigDict(alias_generator=to_camel)

    role_arn: str = Field(
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$",
        examples=["arn:aws:iam::111122223333:role/ci"],
        description="ARN of the role.",
    )
    session_name: Annotated[str | None, Fix("Write 2 to 64 letters, digits or +=,.@-_.")] = Field(
        default=None,
        # https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html, RoleSessionName
        pattern=r"^[A-Za-z0-9_+=,.@-]{2,64}$",
        description="Name of the session in AWS's records.",
    )
    duration: Annotated[str, AfterValidator(_session_duration)] | None = Field(
        default=None, examples=["2h"], description="How long a session lasts, from 15m to 12h, e.g. `2h` or `1h30m`."
    )

    @property
    def seconds(self) -> int | None:
        """The duration, in whole seconds as STS takes it; None for STS's default, an hour."""
        length = nanoseconds(self.duration) if self.duration else None
        return None if length is None else length // NANOSECONDS["s"]


class DefaultTags(Section):
    """Tags on every AWS resource."""

    tags: dict[str, str] = Field(default={}, examples=[{"team": "ml"}], description="The tags.")
