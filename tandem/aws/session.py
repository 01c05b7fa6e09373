"""Access to an AWS account, and its errors: one line each, with the fix."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sharing.printable import one_line, without_secrets
from tandem.terminal import CallError

if TYPE_CHECKING:
    from sharing.sections.provider import AssumedRole

EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired")
NOT_ACCEPTED = ("InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "SignatureDoesNotMatch")
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "AuthorizationError")
NOT_ENABLED = ("OptInRequired", "RegionDisabledException", "SubscriptionRequiredException")
THROTTLED = (
    *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException"),
    *("RequestLimitExceeded", "TooManyRequestsException", "SlowDown", "PriorRequestNotComplete"),
    "EC2ThrottledException",
)
"""As in botocore 1.44, retries/standard.py."""
IN_USE = (
    *("DependencyViolation", "DeleteConflict", "ResourceInUseException", "VolumeInUse", "IncorrectState"),
    *("InvalidIPAddress.InUse", "InvalidGroup.InUse", "InvalidNetworkInterface.InUse"),
    *("ConcurrentModification", "ConcurrentModificationException"),
)
"""Errors that end once something else is deleted; Terraform's AWS provider retries for minutes."""
ATTEMPTS = 5
"""Of each call, with pauses between them."""
NOT_THERE = ("NoSuch", "NotFound", "NonExistent", "DoesNotExist")
"""Parts of the codes for missing resources: a retry after a lost answer gets one."""


class AccountError(CallError):
    """A command cannot continue; one line with the fix."""


class NoKeysError(AccountError):
    """There are no credentials."""


class InUseError(AccountError):
    """Something that may soon be deleted still uses it."""


@dataclass(frozen=True, slots=True)
class Account:
    """An AWS account, seen in one region."""

    id: str
    region: str
    session: Any
    """A `boto3.Session`."""
    caller: str
    """ARN of the owner of these credentials; for a role, of its session."""
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Threads may share clients; a session may create only one at a time."""

    def client(self, service: str, region: str | None = None) -> Any:
        """The boto3 client of a service; created once."""
        key = (service, region or self.region)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self.session.client(service, region_name=key[1], config=_config())
            return self._clients[key]

    def pages(self, service: str, operation: str, **arguments: Any) -> Iterator[Any]:
        """The answers to `operation`, page by page if AWS pages them."""
        client = self.client(service)
        if client.can_paginate(operation):
            yield from client.get_paginator(operation).paginate(**arguments)
        else:
            yield getattr(client, operation)(**arguments)


def connect(region: str, profile: str | None = None, roles: "Sequence[AssumedRole]" = ()) -> Account:
    """The account of the ambient credentials or of `profile`, or of the last of the `roles` that these assume.

    Raises `AccountError` if AWS denies access.
    """
    import boto3

    with explained(region):
        session = boto3.Session(profile_name=profile, region_name=region)
        try:
            identity = session.client("sts", config=_config()).get_caller_identity()
        except RuntimeError as error:
            # botocore raises it after the time in AWS_CREDENTIAL_EXPIRATION (credentials.py, 1.44).
            raise AccountError(f"the AWS credentials have expired: {error} Run `aws sso login`.") from error
    account = Account(id=identity["Account"], region=region, session=session, caller=identity["Arn"])
    for role in roles:
        account = _assume(account, role)
    return account


def _assume(account: Account, role: "AssumedRole") -> Account:
    import boto3

    duration = {"DurationSeconds": role.seconds} if role.seconds else {}
    with explained(account.region):
        answer = account.client("sts").assume_role(
            RoleArn=role.role_arn, RoleSessionName=role.session_name or "tandem", **duration
        )
    keys, caller = answer["Credentials"], answer["AssumedRoleUser"]["Arn"]
    session = boto3.Session(
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    return Account(id=role.role_arn.split(":")[4], region=account.region, session=session, caller=caller)


@contextmanager
def explained(region: str) -> Iterator[None]:
    """Turns boto3's exceptions into `AccountError`."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except NoCredentialsError as error:
        raise NoKeysError(reason(error, region)) from error
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise AccountError(reason(error, region)) from error


def code(error: Exception) -> str:
    """AWS's code of the error, e.g. `AccessDenied`; empty if it is not from AWS."""
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


def reason(error: Exception, region: str) -> str:
    """Why a call to AWS failed, and the fix."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    # AWS_ENDPOINT_URL and a proxy's address may have a password.
    said = without_secrets(one_line(str(error)))
    aws_code = code(error)
    if isinstance(error, exceptions.ProfileNotFound):
        return f"{said}. List the profiles with `aws configure list-profiles`."
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return "No AWS credentials found. Run `aws configure sso`, or pass --profile."
    if aws_code in EXPIRED or isinstance(
        error, exceptions.SSOError | exceptions.TokenRetrievalError | exceptions.CredentialRetrievalError
    ):
        return f"The AWS credentials have expired or cannot be renewed ({aws_code or said}). Run `aws sso login`."
    if aws_code in NOT_ACCEPTED or aws_code in NOT_ENABLED:
        return (
            f"AWS rejected these credentials in {region} ({aws_code}). Check them with `aws sts "
            f"get-caller-identity`, or enable the region with `aws account enable-region --region-name {region}`."
        )
    if aws_code in DENIED:
        asked = getattr(error, "operation_name", "the call")
        return (
            f"These credentials may not call {asked} ({aws_code}). Request that permission, or pass another --profile."
        )
    if aws_code in THROTTLED:
        return f"AWS is throttling requests ({aws_code}). Try again in a minute."
    if isinstance(error, ResponseParserError) or aws_code.isdigit():
        # botocore 1.44, parsers.py: the code is the status, and the message the whole page.
        request = getattr(error, "response", {}).get("ResponseMetadata", {}).get("RequestId", "")
        facts = [f"status {aws_code}"] * bool(aws_code) + [f"request {one_line(request)}"] * bool(request)
        answered = f" ({', '.join(facts)})" if facts else ""
        return f"The answer is not in AWS's format{answered}. Check the proxy and AWS_ENDPOINT_URL, and try again."
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError | exceptions.InvalidRegionError):
        return (
            f"AWS cannot be reached: {said}. Check the network, the proxy, AWS_ENDPOINT_URL, and the region {region}."
        )
    return said


def explain(error: Exception, region: str) -> str:
    """Why a call failed, whatever the exception: an unexpected one is named."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    if isinstance(error, AccountError):
        return str(error)
    if isinstance(error, BotoCoreError | ClientError | ResponseParserError):
        return reason(error, region)
    return without_secrets(one_line(f"unexpected {type(error).__name__}: {error}"))


def is_temporary(error: Exception) -> bool:
    """Whether the same call may succeed within minutes: AWS is busy or unreachable, or a deletion is still running."""
    from botocore import exceptions

    if isinstance(error, InUseError | exceptions.ConnectionError | exceptions.HTTPClientError):
        return True
    if not isinstance(error, exceptions.ClientError):
        return False
    aws_code = code(error)
    status = str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    passing = aws_code in THROTTLED or aws_code in EXPIRED or aws_code in IN_USE
    return passing or status.startswith("5") or any(part in aws_code for part in NOT_THERE)


def _config() -> Any:
    from botocore.config import Config

    return Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
