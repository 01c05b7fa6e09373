"""`aws:assumeRoles[].duration` means the same to tandem and to Pulumi's AWS provider, which is written in Go."""

import pytest
from pydantic import ValidationError

from sharing.sections.provider import AssumedRole

# Printed by time.ParseDuration of go 1.26.8, in whole seconds.
READ = {
    "1.5h": 5400,
    "900000ms": 900,
    "1h30m": 5400,
    "15m": 900,
    "12h": 43200,
    "1h1h": 7200,
    ".5h": 1800,
    "1.h": 3600,
    "+1h": 3600,
    "1h0.5m": 3630,
    "1h1.999s": 3601,
    "5400000000us": 5400,
    "5400000000µs": 5400,
    "5400000000μs": 5400,
    "5400000000000ns": 5400,
}
NOT_READ = ("", "1", "h", ".h", "1 h", "1H", "1d", "1h30", "1.5.5h", "--1h", "1e3s", "٣h", "9" * 5000 + "h", "0", "-1h")
# terraform-provider-aws internal/provider/sdkv2/provider.go, validAssumeRoleDuration.
OUTSIDE = ("14m59.999s", "12h0m1s", "899999ms")


def role(duration: str) -> AssumedRole:
    return AssumedRole(role_arn="arn:aws:iam::123456789012:role/ci", duration=duration)


@pytest.mark.parametrize(("text", "seconds"), READ.items())
def test_a_duration_has_the_seconds_that_go_reads(text: str, seconds: int) -> None:
    assert role(text).seconds == seconds


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        *((text, "must be numbers with the units h, m, s or ms") for text in NOT_READ),
        *((text, "must be from 15m to 12h") for text in OUTSIDE),
    ],
)
def test_a_duration_that_pulumi_would_refuse_is_one_error(text: str, rule: str) -> None:
    with pytest.raises(ValidationError) as raised:
        role(text)
    assert [error["msg"] for error in raised.value.errors()] == [f"Value error, {rule}"]


def test_a_role_without_a_duration_gets_that_of_sts() -> None:
    assert AssumedRole(role_arn="arn:aws:iam::123456789012:role/ci").seconds is None
