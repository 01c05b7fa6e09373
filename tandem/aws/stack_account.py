"""The way from a stack file to its AWS account: region, profile and role, and only an account that the file allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sharing.problems import Problem
from sharing.sections.config import SECTIONS
from sharing.sections.provider import AccountId, AssumedRole
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.judge import stack_name
from stacks.stack_file.positions import Document, locate
from stacks.stack_file.provider_keys import ALLOWED, FORBIDDEN, refuse_keys
from stacks.stack_file.yaml import Source, from_json, read
from tandem.aws.session import Account, AccountError, connect
from tandem.lookup import existing, require_region, stack_file
from tandem.terminal import CallError


class WrongAccountError(AccountError):
    """The credentials are of an account in which Pulumi would refuse to work for this stack file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who works for a stack, and in which accounts."""

    profile: str | None = None
    roles: Sequence[AssumedRole] = ()
    allowed: Sequence[str] = ()
    """Empty: any."""
    forbidden: Sequence[str] = ()
    file: Document | None = None
    """Where the lists of accounts are; None if that is not known."""

    def connect(self, region: str) -> Account:
        """The account of this identity. Raises `WrongAccountError`, as the provider ends with "AWS account ID not
        allowed" (hashicorp/aws-sdk-go-base/v2, VerifyAccountIDAllowed), and `AccountError` if AWS denies access."""
        account = connect(region, self.profile, self.roles)
        if account.id in self.forbidden:
            self._refuse(account, FORBIDDEN, "is in", self.forbidden, "Use credentials of another account.")
        if self.allowed and account.id not in self.allowed:
            fix = "Use credentials of that account, or add this account to the list."
            self._refuse(account, ALLOWED, "is not in", self.allowed, fix)
        return account

    def _refuse(self, account: Account, key: str, verb: str, ids: Sequence[str], fix: str) -> None:
        [located] = locate([Problem(key, account.id, "", "")], [self.file] if self.file else [])
        place = located.place
        where = f" of {place.file}:{place.line}:{place.column}" if place and place.line else ""
        raise WrongAccountError(f"account {account.id} {verb} `{key}` ({', '.join(ids)}){where}. {fix}")


def identity(path: Path | None, profile: str | None = None) -> Identity:
    """The identity that the stack file at `path` names; without a file, that of `profile` alone.

    The rest of the file may be wrong. A wrong key of the AWS provider is an error: a command would work in another
    account than Pulumi.
    """
    if path is None or not path.is_file():
        return Identity(profile=profile)
    source = read(path, SECTIONS)
    document = Document(path.name, source.root)
    _refuse_wrong_keys(source, document)
    keys = source.provider
    return Identity(
        profile=profile or _profile(keys.get("aws:profile"), path),
        roles=_listed(TypeAdapter(list[AssumedRole]), keys, "aws:assumeRoles", "roles", path),
        allowed=_listed(TypeAdapter(list[AccountId]), keys, ALLOWED, "account numbers", path),
        forbidden=_listed(TypeAdapter(list[AccountId]), keys, FORBIDDEN, "account numbers", path),
        file=document,
    )


def _refuse_wrong_keys(source: Source, document: Document) -> None:
    wrong = [problem for problem in source.problems if problem.path.lower().startswith("aws:")]
    wrong += [problem for problem in refuse_keys(source.provider) if problem.path != FORBIDDEN]
    if wrong:
        raise CallError(str(locate(wrong, [document])[0]))


def _profile(value: object, path: Path) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise CallError(f"`aws:profile` in {path} is not the name of a profile. Check it with `tandem plan`.")


def _listed(shape: TypeAdapter[list[Any]], keys: dict[str, Any], key: str, what: str, path: Path) -> list[Any]:
    value = keys.get(key)
    try:
        return [] if value is None else shape.validate_python(from_json(value))
    except ValidationError:
        raise CallError(f"`{key}` in {path} is not a list of {what}. Check it with `tandem plan`.") from None


def stack_and_region(stack: str, region: str | None = None) -> tuple[str, str]:
    """Name of the stack and its region. With `region`, the file may be missing, or wrong elsewhere."""
    name = stack_name(stack_file(stack))
    if not region:
        region = _region(existing(stack))
    require_region(region)
    return name, region


def _region(path: Path) -> str:
    region = read(path, SECTIONS).region
    if not isinstance(region, str):
        raise UnreadableError(f"{path} has no `aws:region`. Set it there, or pass --region.")
    return region


def account_in(region: str, stack: str, profile: str | None) -> Account:
    """The account that Pulumi works in: from `profile` or the file's profile, and the file's roles."""
    return identity(stack_file(stack) if stack else None, profile or None).connect(region)
