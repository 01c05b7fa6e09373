"""Checks of the AWS credentials: whether they work, and whether they outlast `up`."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.doctor.case import Case
from tandem.doctor.finding import Finding, ok, parts_of, stops, unknown, warning

RENEWED = (
    "iam-role",
    "container-role",
    "assume-role-with-web-identity",
    "custom-process",
    "login",
)
"""Sources of credentials, in botocore's words, from which every AWS SDK renews them."""
LONGER = (
    "Get credentials that last longer: run `aws sso login`, or use a profile with `role_arn`, which the SDKs renew. A "
    "role assumed through another role lasts at most 60 minutes."
)
SAY_WHEN = (
    "Use a profile instead of exported credentials, or export them with their expiry: "
    "`aws configure export-credentials --format env`."
)
NOT_ROOT = "Use the credentials of an IAM role or user."


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The lifetime of credentials."""

    known: bool
    expires: datetime.datetime | None = None
    """None if they are renewed, or never expire."""
    why: str = ""
    """Their kind, in words."""


def check_credentials(case: Case) -> Iterator[Finding]:
    """AWS accepts the credentials, and they last longer than `pulumi up` takes by the plan's estimate."""
    import boto3

    access = case.access
    if access.error and not access.region_closed:
        yield (stops if _is_refusal(access.error) else unknown)(*parts_of(str(access.error)))
        return
    if access.account and access.account.caller.endswith(":root"):
        # EKS makes the account an admin and then admits nobody (kubernetes-sigs/aws-iam-authenticator#797).
        yield stops("the credentials are those of the account's root user, which cannot use a cluster", NOT_ROOT)
        return
    lifetime = _lifetime_of(boto3.Session(profile_name=case.profile))
    who = f"account {access.account.id}" if access.account else "accepted"
    yield _judge(case, lifetime, who)


def _judge(case: Case, lifetime: Lifetime, who: str) -> Finding:
    if not lifetime.known:
        return unknown(f"{who}; {lifetime.why}", SAY_WHEN)
    if lifetime.expires is None:
        return ok(f"{who}; {lifetime.why}")
    left = (lifetime.expires - case.now).total_seconds() / 60
    if left <= 0:
        return stops(f"{who}; {lifetime.why} expired at {lifetime.expires:%H:%M %Z}", LONGER)
    text = f"{who}; {lifetime.why} expire in {_minutes(left)}"
    if case.stack is None:
        return ok(text)
    estimate = case.stack.planned.startup
    text = f"{text}, and `up` takes about {_minutes(estimate.minutes)}"
    if left < estimate.minutes:
        return stops(text, LONGER)
    if left < estimate.minutes + estimate.plus_minus:
        return warning(f"{text} ± {_minutes(estimate.plus_minus)}", LONGER)
    return ok(text)


def _minutes(minutes: float) -> str:
    if minutes > 2 * 24 * 60:
        return "more than 2 days"
    return (
        f"{minutes / 60:.0f} hours" if minutes >= 180 else f"{minutes:.0f} minute{'' if round(minutes) == 1 else 's'}"
    )


def _is_refusal(error: Exception) -> bool:
    """Whether AWS refuses, or credentials are missing. Otherwise the network may be down."""
    from botocore import exceptions

    from tandem.aws.session import EXPIRED, NOT_ACCEPTED, NOT_ENABLED, THROTTLED, code
    from tandem.aws.stack_account import WrongAccountError

    if isinstance(error, WrongAccountError):
        return True
    cause = error.__cause__ or error
    refusals = (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.ProfileNotFound,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
        exceptions.CredentialRetrievalError,
        RuntimeError,
    )
    if isinstance(cause, refusals):
        return True
    refusal = code(cause) if isinstance(cause, Exception) else ""
    if getattr(cause, "operation_name", "") == "AssumeRole":
        # Denied, no such role, or longer than an hour for a role assumed through another one.
        return refusal not in THROTTLED
    return refusal in (*EXPIRED, *NOT_ACCEPTED, *NOT_ENABLED)


def _lifetime_of(session: Any) -> Lifetime:
    """How long the session's credentials last, and can be renewed."""
    credentials = session.get_credentials()
    method = str(credentials.method)
    if method in RENEWED:
        return Lifetime(known=True, why=f"renewed ({method})")
    if method == "assume-role":
        return _lifetime_of_source(session)
    if method.startswith("sso"):
        return _lifetime_of_login(session)
    expires = getattr(credentials, "_expiry_time", None)
    if expires is not None:
        return Lifetime(known=True, expires=expires, why="the credentials")
    if credentials.token is None:
        return Lifetime(known=True, why="access keys, which do not expire")
    return Lifetime(known=False, why=f"temporary credentials ({method}) without an expiry")


def _lifetime_of_source(session: Any) -> Lifetime:
    """A role is assumed again as long as its source's credentials last."""
    import boto3

    profile = session._session.get_scoped_config()
    source = profile.get("source_profile")
    if source and source != session.profile_name:
        # This ends: botocore refuses a chain of profiles with a loop (credentials.py, InfiniteLoopConfigError).
        return _lifetime_of(boto3.Session(profile_name=source))
    if source and not profile.get("aws_session_token"):
        return Lifetime(known=True, why="a role, assumed again with access keys")
    if profile.get("credential_source") in ("Ec2InstanceMetadata", "EcsContainer"):
        return Lifetime(known=True, why="a role, assumed again by this machine's own role")
    return Lifetime(known=False, why="a role, assumed with credentials without an expiry")


def _lifetime_of_login(session: Any) -> Lifetime:
    """IAM Identity Center: role credentials are renewed as long as the login's token lasts."""
    from botocore.exceptions import BotoCoreError
    from botocore.utils import JSONFileCache, SSOTokenLoader

    profile = session._session.get_scoped_config()
    login = profile.get("sso_session")
    settings = session._session.full_config.get("sso_sessions", {}).get(login, {}) if login else profile
    cache = JSONFileCache(str(Path.home() / ".aws" / "sso" / "cache"))
    try:
        token = SSOTokenLoader(cache=cache)(settings.get("sso_start_url", ""), login)
        # `Z` today, `UTC` from older AWS CLIs.
        expires = datetime.datetime.fromisoformat(str(token["expiresAt"]).replace("UTC", "Z"))
    except (BotoCoreError, KeyError, ValueError):
        return Lifetime(known=False, why="the token of `aws sso login` cannot be read")
    if token.get("refreshToken"):
        return Lifetime(known=True, why="renewed as long as the session of `aws sso login` lasts")
    return Lifetime(known=True, expires=expires, why="the tokens of `aws sso login`")
