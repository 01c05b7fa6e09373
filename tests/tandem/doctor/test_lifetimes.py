"""How long credentials last, by where botocore found them (its providers' `METHOD`s), and the verdict of all checks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore import exceptions as of_boto

from tandem.aws.session import AccountError
from tandem.aws.stack_account import WrongAccountError
from tandem.doctor.checks import CHECKS, Answered
from tandem.doctor.command import _ambient_region
from tandem.doctor.credentials import _is_refusal, _lifetime_of, _minutes
from tandem.doctor.finding import Finding, exit_code
from tandem.doctor.screen import as_dict


@pytest.mark.parametrize(
    "method", ["iam-role", "container-role", "assume-role-with-web-identity", "custom-process", "login"]
)
def test_every_sdk_renews_these_credentials(method: str) -> None:
    session: Any = SimpleNamespace(get_credentials=lambda: SimpleNamespace(method=method, _expiry_time="soon"))
    found = _lifetime_of(session)
    assert (found.known, found.expires, found.why) == (True, None, f"renewed ({method})")


@pytest.mark.parametrize("source", ["Ec2InstanceMetadata", "EcsContainer"])
def test_a_machine_with_a_role_of_its_own_assumes_another_again(source: str) -> None:
    """Values of `credential_source`: AWS SDKs and Tools Reference Guide, Assume role credential provider."""
    asked: Any = SimpleNamespace(
        profile_name="deploy",
        get_credentials=lambda: SimpleNamespace(method="assume-role"),
        _session=SimpleNamespace(get_scoped_config=lambda: {"credential_source": source}),
    )
    found = _lifetime_of(asked)
    assert (found.known, found.expires, found.why) == (True, None, "a role, assumed again by this machine's own role")


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0.4, "0 minutes"),
        (0.6, "1 minute"),
        (1.4, "1 minute"),
        (1.6, "2 minutes"),
        (179, "179 minutes"),
        (180, "3 hours"),
        (2880, "48 hours"),
        (2881, "more than 2 days"),
    ],
)
def test_a_time_is_in_words(minutes: float, words: str) -> None:
    assert _minutes(minutes) == words


def of_aws(code: str, operation: str = "GetCallerIdentity") -> of_boto.ClientError:
    return of_boto.ClientError({"Error": {"Code": code}}, operation)


REFUSALS: list[Exception] = [
    of_boto.NoCredentialsError(),
    of_boto.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
    of_boto.ProfileNotFound(profile="p"),
    of_boto.UnauthorizedSSOTokenError(),
    of_boto.TokenRetrievalError(provider="sso", error_msg="expired"),
    of_boto.CredentialRetrievalError(provider="custom-process", error_msg="exit code 1"),
    RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired."),
    of_aws("ExpiredToken"),
    of_aws("InvalidClientTokenId"),
    of_aws("OptInRequired"),
    of_aws("AccessDenied", "AssumeRole"),
]
OTHERS: list[Exception] = [
    of_boto.EndpointConnectionError(endpoint_url="https://sts"),
    of_boto.ReadTimeoutError(endpoint_url="https://sts"),
    of_aws("Throttling"),
    of_aws("Throttling", "AssumeRole"),
    of_aws("InternalFailure"),
]


@pytest.mark.parametrize(
    ("error", "is_refused"), [*((one, True) for one in REFUSALS), *((one, False) for one in OTHERS)]
)
def test_only_refused_or_missing_credentials_stop_up(error: Exception, is_refused: bool) -> None:
    """botocore's exceptions, and the codes of the STS API reference. Anything else may pass by itself."""
    explained = AccountError("no access")
    explained.__cause__ = error
    assert [_is_refusal(explained), _is_refusal(error)] == [is_refused] * 2
    assert _is_refusal(WrongAccountError("another account"))


@pytest.mark.parametrize(
    ("verdicts", "code", "said"),
    [("ok warning", 0, "ok"), ("ok unknown warning", 2, "unknown"), ("unknown stops ok", 1, "stops")],
)
def test_an_error_outweighs_what_is_unknown(verdicts: str, code: int, said: str) -> None:
    """The exit codes are those of `tandem doctor --help`."""
    machine: Any = SimpleNamespace(stack=None, account_id=None, region="")
    kinds: Any = verdicts.split()
    answers = [Answered(CHECKS[0], Finding(verdict=kind, text=f"is {kind}", fix="Do it.")) for kind in kinds]
    assert exit_code(one.finding for one in answers) == code
    assert as_dict(machine, answers) == {
        "schema_version": 1,
        "stack": None,
        "account": None,
        "region": None,
        "verdict": said,
        "checks": [
            {"check": "python", "title": "Python", "verdict": kind, "found": f"is {kind}", "fix": "Do it."}
            for kind in kinds
        ],
    }


def test_without_a_region_it_is_that_of_the_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As boto3's configuration guide says: `AWS_CONFIG_FILE`, and a section for each profile."""
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-west-1\n[profile work]\nregion = eu-north-1\n")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert [_ambient_region(profile) for profile in (None, "work", "none")] == ["eu-west-1", "eu-north-1", ""]
