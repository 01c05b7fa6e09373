"""An account without access: one line with the fix, exit code 2, never a traceback."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore import exceptions
from botocore.awsrequest import HeadersDict
from botocore.parsers import create_parser

from sharing.sections.provider import AssumedRole
from tandem.aws import session
from tandem.aws.clusters import there
from tests.rows import read_rows
from tests.tandem.aws.asked import Requests
from tests.tandem.aws.conftest import Run
from tests.tandem.aws.emulated import REGION, Emulated

Refusal = Callable[..., str]
COMMANDS = ("leftovers", "quota", "prices")


@pytest.fixture
def refusal(tandem: Run) -> Refusal:
    def call(*arguments: str) -> str:
        code, out, err = tandem(*arguments)
        assert (code, out) == (2, "")
        # On a busy machine, a line of progress comes first.
        *progress, last = err.splitlines(keepends=True)
        assert all("so far" in line for line in progress)
        assert last.startswith("error: ")
        return last

    return call


@pytest.mark.slow
def test_no_call_hangs_and_each_is_retried(emulated: Emulated) -> None:
    with mock.patch.object(boto3.Session, "client", autospec=True, side_effect=boto3.Session.client) as made:
        session.connect(REGION).client("ec2")
    configs = [call.kwargs["config"] for call in made.call_args_list]
    limits = [(one.connect_timeout, one.read_timeout, one.retries) for one in configs]
    # `standard` also retries throttled calls of services that botocore's `legacy` does not know (boto3 guide, retries).
    assert limits == [(5, 60, {"mode": "standard", "total_max_attempts": 5})] * 2


@pytest.mark.parametrize(
    ("command", "code", "shown"),
    [
        ("leftovers", "ExpiredToken", "have expired or cannot be renewed (ExpiredToken). Run `aws sso login`"),
        ("quota", "InvalidClientTokenId", "`aws account enable-region --region-name us-east-1`"),
        ("prices", "AccessDenied", "These credentials may not call GetCallerIdentity (AccessDenied)"),
    ],
)
def test_errors_of_aws_are_explained(emulated: Emulated, refusal: Refusal, command: str, code: str, shown: str) -> None:
    emulated.denied["GetCallerIdentity"] = code
    assert shown in refusal(command)


def test_credentials_of_the_environment_that_have_expired_are_an_error(
    emulated: Emulated, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore credentials.py, EnvProvider: it reads the time of `AWS_CREDENTIAL_EXPIRATION`."""
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z")
    assert "the AWS credentials have expired: " in refusal("quota")


@pytest.mark.slow
def test_a_call_of_a_command_without_permission_is_named(emulated: Emulated, refusal: Refusal) -> None:
    emulated.denied["DescribeVpcs"] = "UnauthorizedOperation"
    assert "may not call DescribeVpcs" in refusal("quota")


def test_the_profile_is_used_without_a_stack_file_too(
    emulated: Emulated, refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "(nobody) could not be found" in refusal("leftovers", "old", "--region", REGION, "--profile", "nobody")


def test_requests_are_made_with_the_keys_of_the_last_assumed_role(requests: Requests) -> None:
    """STS API reference, AssumeRole: the duration is in seconds."""
    first = {"roleArn": "arn:aws:iam::444455556666:role/ci", "sessionName": "up", "duration": "1h30m"}
    last = {"roleArn": "arn:aws:iam::444455556666:role/deployer"}
    made = session.connect(REGION, roles=[AssumedRole.model_validate(role) for role in (first, last)])
    assert [arguments for operation, arguments, _ in requests if operation == "sts.AssumeRole"] == [
        {"RoleArn": first["roleArn"], "RoleSessionName": "up", "DurationSeconds": 5400},
        {"RoleArn": last["roleArn"], "RoleSessionName": "tandem"},
    ]
    keys = made.session.get_credentials().get_frozen_credentials()
    # The caller's keys are `testing`, without a token. Those of a role begin with ASIA (IAM User Guide, unique ids).
    assert keys.access_key.startswith("ASIA")
    assert (keys.secret_key in (None, "testing"), bool(keys.token)) == (False, True)
    assert made.caller.endswith(":assumed-role/deployer/tandem")


def test_who_calls_is_asked_in_the_region(emulated: Emulated) -> None:
    """The partitions of China and of GovCloud have an STS of their own."""
    assert session.connect("eu-west-1").session.client("sts").meta.region_name == "eu-west-1"


def test_the_profile_of_the_stack_file_is_used(emulated: Emulated, refusal: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text("config: {aws:region: us-east-1, aws:profile: nobody}\n")
    assert "(nobody) could not be found" in refusal("leftovers", str(path))


@pytest.mark.parametrize("command", COMMANDS)
def test_without_boto3(refusal: Refusal, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert refusal(command).startswith(f"error: `tandem {command}` needs boto3. Run `")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (exceptions.NoCredentialsError(), "No AWS credentials found. Run `aws configure sso`"),
        (exceptions.ProfileNotFound(profile="x"), "List the profiles with `aws configure list-profiles`"),
        (exceptions.EndpointConnectionError(endpoint_url="https://x"), "AWS cannot be reached"),
        (exceptions.ConnectTimeoutError(endpoint_url="https://x"), "AWS cannot be reached"),
        (exceptions.ProxyConnectionError(proxy_url="https://x"), "AWS cannot be reached"),
        (exceptions.SSLError(endpoint_url="https://x", error=OSError("bad")), "AWS cannot be reached"),
        (exceptions.UnauthorizedSSOTokenError(), "Run `aws sso login`."),
        (exceptions.TokenRetrievalError(provider="sso", error_msg="gone"), "Run `aws sso login`."),
        (exceptions.ClientError({"Error": {"Code": "Throttling"}}, "X"), "AWS is throttling requests"),
        (exceptions.ClientError({"Error": {"Code": "Odd", "Message": "a\nb"}}, "X"), "a b"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_obstacle_has_its_line(error: Exception, shown: str) -> None:
    assert shown in session.reason(error, "us-east-1")
    assert "\n" not in session.reason(error, "us-east-1")


@pytest.mark.parametrize(("protocol", "facts"), [("json", " (status 500, request req-1)"), ("ec2", "")])
def test_no_page_of_a_server_or_proxy_is_shown(protocol: str, facts: str) -> None:
    page = {
        "status_code": 500,
        "headers": HeadersDict({"x-amzn-RequestId": "req-1"}),
        "body": b"<!doctype html><html lang=en><title>Internal Server Error</title></html>",
    }
    parser: Any = create_parser(protocol)
    with pytest.raises(session.AccountError) as raised, session.explained("us-east-1"):
        raise exceptions.ClientError(parser.parse(page, None), "ListServices")
    printed = f"The answer is not in AWS's format{facts}. Check the proxy and AWS_ENDPOINT_URL, and try again."
    assert str(raised.value) == printed


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("codes.csv")), ids=lambda row: row["codes"])
def test_every_code_is_explained_and_temporary_ones_are_retried(row: dict[str, str]) -> None:
    for code in row["codes"].split():
        error = exceptions.ClientError({"Error": {"Code": code, "Message": "words of AWS"}}, "DeleteVpc")
        assert row["message"] in session.reason(error, "us-east-1"), code
        assert session.is_temporary(error) == (row["temporary"] == "yes"), code
        with nullcontext() if row["gone"] == "yes" else pytest.raises(exceptions.ClientError, match=code):
            assert there(mock.Mock(side_effect=error)) is None


@pytest.mark.parametrize(("status", "temporary"), [(499, False), (500, True), (503, True)])
def test_an_error_of_the_server_is_temporary_whatever_its_code(status: int, temporary: bool) -> None:
    answer: Any = {"Error": {"Code": "Odd"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert session.is_temporary(exceptions.ClientError(answer, "DeleteVpc")) == temporary


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("keys", "shown"),
    [("", "has no `aws:region`"), ("aws:region: us-est-1", "unknown region 'us-est-1'"), ("aws:region: any", "`any`")],
)
def test_a_file_without_a_region_of_aws_is_refused_before_any_request(
    emulated: Emulated, refusal: Refusal, tmp_path: Path, command: str, keys: str, shown: str
) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(f"config: {{{keys}}}\n")
    assert shown in refusal(command, str(path))
    assert emulated.calls == []


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("aws:assumeRoles: [{role: x}]", "`aws:assumeRoles` in {path} is not a list of roles."),
        ("aws:allowedAccountIds: 123456789012", "`aws:allowedAccountIds` in {path} is not a list of account numbers."),
        ("aws:allowedAccountIds: {secure: v1}", "`aws:allowedAccountIds` in {path} is not a list of account numbers."),
        ("aws:forbiddenAccountIds: [x]", "`aws:forbiddenAccountIds` in {path} is not a list of account numbers."),
        ("aws:profile: {secure: v1}", "`aws:profile` in {path} is not the name of a profile."),
        ("aws:allowedAccountIDs: []", "Pulumi.x.yaml:3:3  aws:allowedAccountIDs: unknown key. Did you mean"),
        ("aws:assumeRole: {}", "Pulumi.x.yaml:3:3  aws:assumeRole: is not supported"),
        (
            "aws:allowedAccountIds: [x]\n  aws:allowedAccountIds: []",
            "Pulumi.x.yaml:4:3  aws:allowedAccountIds: duplicate",
        ),
        ("AWS:allowedAccountIds: []", "Pulumi.x.yaml:3:3  AWS:allowedAccountIds: unknown key. Did you mean aws?"),
    ],
)
def test_an_unreadable_way_to_the_account_is_refused_before_any_request(
    emulated: Emulated, refusal: Refusal, tmp_path: Path, keys: str, shown: str
) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(f"config:\n  aws:region: us-east-1\n  {keys}\n")
    assert shown.format(path=path) in refusal("leftovers", str(path), "--delete", "--yes")
    assert emulated.calls == []


ALLOWED = 'aws:allowedAccountIds: ["999999999999", "888888888888"]'
AS_JSON = """aws:allowedAccountIds: '["999999999999", "888888888888"]'"""
FORBIDDEN = 'aws:forbiddenAccountIds: ["123456789012"]'
NOT_ALLOWED = "is not in `aws:allowedAccountIds` (999999999999, 888888888888) of Pulumi.timeslice.yaml:3:26. Use "
IS_FORBIDDEN = (
    "is in `aws:forbiddenAccountIds` (123456789012) of Pulumi.timeslice.yaml:3:28. Use credentials of another "
)
READING = ("leftovers", "leftovers --delete --yes", "prices")
PLANNING = ("quota", "park", "wake --no-wait")


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="Pulumi works in no account outside `aws:allowedAccountIds`, and in none of `aws:forbiddenAccountIds`",
    source="github.com/hashicorp/aws-sdk-go-base/v2, Config.VerifyAccountIDAllowed",
)
@pytest.mark.parametrize(
    ("call", "key", "shown"),
    [
        *((call, ALLOWED, NOT_ALLOWED) for call in READING + PLANNING),
        ("leftovers", AS_JSON, NOT_ALLOWED),
        ("quota", AS_JSON, NOT_ALLOWED),
        # A plan refuses this key.
        *((call, FORBIDDEN, IS_FORBIDDEN) for call in READING),
    ],
)
def test_no_command_works_in_an_account_that_the_file_excludes(
    emulated: Emulated, refusal: Refusal, tmp_path: Path, call: str, key: str, shown: str
) -> None:
    path = tmp_path / "Pulumi.timeslice.yaml"
    path.write_text(
        f"""config:
  aws:region: us-east-1
  {key}
  tandem:sharing: {{mode: timeslice}}
  tandem:gpu-nodes: {{instance-types: [g4dn.xlarge]}}
  tandem:models: [{{name: "llama2:7b", context: 2048}}, {{name: "mistral:7b", context: 2048}}]
  tandem:park: {{schedule: "0 20 * * MON-FRI", wake: "0 8 * * MON-FRI"}}
"""
    )
    command, *options = call.split()
    assert f"error: account 123456789012 {shown}" in refusal(command, str(path), *options)
    assert emulated.calls == ["GetCallerIdentity"]
