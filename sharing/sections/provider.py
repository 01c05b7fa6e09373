"""The shape of the `aws:` keys that a stack file may have."""

import re
from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sharing.section import Fix, Section, WrongFormError


def _account_from_number(value: object) -> object:
    # `pulumi config set --path` stores digits as a number, unless the first one is a zero.
    return f"{value:012d}" if isinstance(value, int) and not isinstance(value, bool) else value


LEAST_SECONDS, MOST_SECONDS = 15 * 60, 12 * 60 * 60
"""Of a role's session (terraform-provider-aws internal/provider/sdkv2/validate.go, validAssumeRoleDuration)."""
MICROSECOND = Fraction(1, 10**6)
SECONDS: dict[str, Fraction] = {
    "ns": MICROSECOND / 1000,
    # Both spellings of µ: U+00B5 and U+03BC (go 1.26 time/format.go, unitMap).
    **dict.fromkeys(("us", "µs", "μs"), MICROSECOND),
    **{"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)},
}
PART = r"([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})(ns|us|µs|μs|ms|s|m|h)"
"""Go takes more digits, but no time needs them, and Python refuses to read a number of 4,301."""


def _session_duration(text: str) -> str:
    """A duration as Go writes it: Pulumi's AWS provider reads it with `time.ParseDuration`."""
    if not re.fullmatch(rf"\+?({PART})+", text):
        raise WrongFormError("must be numbers with the units h, m, s or ms")
    if not LEAST_SECONDS <= _seconds(text) <= MOST_SECONDS:
        raise WrongFormError("must be from 15m to 12h")
    return text


def _seconds(duration: str) -> Fraction:
    parts = re.findall(PART, duration)
    return sum((Fraction(number.rstrip(".")) * SECONDS[unit] for number, unit in parts), Fraction())


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
        return int(_seconds(self.duration)) if self.duration else None


class DefaultTags(Section):
    """Tags on every AWS resource."""

    tags: dict[str, str] = Field(default={}, examples=[{"team": "ml"}], description="The tags.")
