"""Whether AWS lets us in, and for as long as `up` takes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tandem.doctor.case import Access
from tests.tandem.account.emulated import Emulated
from tests.tandem.doctor.conftest import Cases, planned
from tests.tandem.doctor.findings import finding, summary

ACCOUNT = "account 123456789012"


def test_access_keys_never_expire(emulated: Emulated, case: Cases) -> None:
    assert summary("credentials", case()) == [("ok", f"{ACCOUNT}; access keys, which do not expire")]


def temporary(monkeypatch: pytest.MonkeyPatch, expiry: str = "") -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    if expiry:
        monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", expiry)


@pytest.mark.real_world(
    behaviour="Temporary credentials that expire during `up` stop it halfway; a chained role lasts an hour at most.",
    source="AWS IAM user guide, Roles terms and concepts, Role chaining; botocore/credentials.py, EnvProvider",
)
@pytest.mark.parametrize(
    ("expiry", "verdict", "told"),
    [
        ("2099-01-01T16:00:00Z", "ok", "expire in 4 hours"),
        ("2099-01-01T12:15:00Z", "stops", "expire in 15 minutes, and `up` takes about 2"),
        ("2099-01-01T11:59:00Z", "stops", "expired at 11:59 UTC"),
    ],
)
def test_credentials_that_expire_before_up_ends_stop_it(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch, expiry: str, verdict: str, told: str
) -> None:
    temporary(monkeypatch, expiry)
    found = finding("credentials", case("timeslice"))
    assert found.verdict == verdict
    assert told in found.found
    assert ("60 minutes at most" in found.fix) == (verdict == "stops")


def test_credentials_that_last_just_about_as_long_are_a_warning(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate = planned("timeslice").planned.first_token
    # The estimate is some 20 minutes, give or take 3: a minute more than that lies between.
    assert 15 < estimate.minutes < 30
    assert 1.5 < estimate.plus_minus < 10
    temporary(monkeypatch, f"2099-01-01T12:{int(estimate.minutes) + 2:02}:00Z")
    assert finding("credentials", case("timeslice")).verdict == "warning"


def test_without_a_stack_the_time_that_is_left_is_only_said(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary(monkeypatch, "2099-01-01T12:05:00Z")
    assert summary("credentials", case()) == [("ok", f"{ACCOUNT}; the credentials expire in 5 minutes")]


def test_temporary_credentials_without_an_expiry_are_never_fine(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary(monkeypatch)
    found = finding("credentials", case("timeslice"))
    assert found.verdict == "unknown"
    assert "do not say when they expire" in found.found
    assert "aws configure export-credentials" in found.fix


def test_credentials_that_have_expired_stop_up(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary(monkeypatch, "2001-01-01T00:00:00Z")
    found = finding("credentials", case("timeslice"))
    assert found.verdict == "stops"
    assert found.found.startswith("the AWS credentials have expired")


def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "aws-config").write_text(text)


KEYS = "aws_access_key_id = testing\naws_secret_access_key = testing\n"
ROLE = "role_arn = arn:aws:iam::123456789012:role/deployer\n"


@pytest.mark.parametrize(
    ("source", "verdict", "told"),
    [
        (KEYS, "ok", "access keys, which do not expire"),
        (f"{KEYS}aws_session_token = token\n", "unknown", "do not say when they expire"),
    ],
)
def test_a_role_lasts_as_long_as_what_assumes_it(
    emulated: Emulated,
    case: Cases,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    source: str,
    verdict: str,
    told: str,
) -> None:
    text = f"[profile base]\n{source}[profile deploy]\nsource_profile = base\n{ROLE}"
    profiles(monkeypatch, tmp_path, text)
    found = finding("credentials", case("timeslice", profile="deploy"))
    assert found.verdict == verdict
    assert told in found.found


@pytest.mark.parametrize(
    ("token", "verdict", "told"),
    [
        ({"expiresAt": "2099-01-01T12:10:00Z"}, "stops", "the tokens of `aws sso login` expire in 10 minutes"),
        ({"expiresAt": "2099-01-01T20:00:00UTC"}, "ok", "the tokens of `aws sso login` expire in 8 hours"),
        ({"expiresAt": "2099-01-01T12:10:00Z", "refreshToken": "r"}, "ok", "renewed as long as"),
        ({"expiresAt": "soon"}, "unknown", "cannot be read"),
        (None, "unknown", "cannot be read"),
    ],
)
@pytest.mark.parametrize("by_session", [False, True])
def test_a_login_lasts_as_long_as_its_token(
    emulated: Emulated,
    case: Cases,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    token: dict[str, str] | None,
    verdict: str,
    told: str,
    by_session: bool,
) -> None:
    # Where the AWS CLI keeps the token: the SHA-1 of the session's name, or of the address (botocore, SSOTokenLoader).
    name, key = "e8be5486177c5b5392bd9aa76563515b29358e6e", "https://example.awsapps.com/start"
    settings = f"sso_start_url = {key}\nsso_region = us-east-1\n"
    account = "sso_account_id = 123456789012\nsso_role_name = Admin\n"
    if by_session:
        name = "0ad374308c5a4e22f723adf10145eafad7c4031c"
        text = f"[profile login]\nsso_session = my-sso\n{account}[sso-session my-sso]\n{settings}"
    else:
        text = f"[profile login]\n{settings}{account}"
    profiles(monkeypatch, tmp_path, text)
    monkeypatch.setattr("tandem.doctor.case.Case.access", property(lambda case: _accepted()))
    cache = tmp_path / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    if token is not None:
        (cache / f"{name}.json").write_text(json.dumps({"accessToken": "a", **token}))
    found = finding("credentials", case("timeslice", profile="login"))
    assert (found.verdict, told in found.found) == (verdict, True), found


def _accepted() -> Any:
    from types import SimpleNamespace

    from tandem.doctor.case import Access

    someone: Any = SimpleNamespace(id="123456789012", caller="arn:aws:iam::123456789012:user/anna")
    return Access(account=someone)


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId", "SignatureDoesNotMatch"])
def test_credentials_that_aws_refuses_stop_up(emulated: Emulated, case: Cases, code: str) -> None:
    emulated.denied["GetCallerIdentity"] = code
    found = finding("credentials", case("timeslice"))
    assert (found.verdict, code in found.found) == ("stops", True)


@pytest.mark.slow
def test_no_credentials_stop_up(emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert summary("credentials", case()) == [("stops", "there are no AWS credentials")]


def test_an_unknown_profile_stops_up(emulated: Emulated, case: Cases) -> None:
    found = finding("credentials", case(profile="nobody"))
    assert (found.verdict, "nobody" in found.found) == ("stops", True)


@pytest.mark.parametrize("check", ["credentials", "region", "quotas", "offerings", "spot-role"])
def test_an_aws_that_cannot_be_reached_is_not_fine(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise EndpointConnectionError(endpoint_url="https://sts.us-east-1.amazonaws.com/")

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", away)
    monkeypatch.setattr(type(emulated), "__call__", away)
    assert finding(check, case("timeslice")).verdict == "unknown"


@pytest.mark.real_world(
    behaviour="EKS accepts the account's root user as the principal of an access entry, and admits nobody by it.",
    source="kubernetes-sigs/aws-iam-authenticator issue 797",
)
def test_the_root_user_stops_up(emulated: Emulated, case: Cases) -> None:
    there = case("timeslice")
    account = there.account()
    there._access = Access(account=replace(account, caller="arn:aws:iam::123456789012:root"))
    found = finding("credentials", there)
    assert (found.verdict, found.fix) == ("stops", "Use the credentials of an IAM role or user.")
    assert "root user" in found.found
