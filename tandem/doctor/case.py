"""The subject of the checks: a machine, an account, and for a named stack, its plan and its cluster."""

import datetime
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharing.aws.partitions import HOME_REGIONS, partition_of

if TYPE_CHECKING:
    from sandbox.graph import Resource
    from stacks.stack_file.judge import Plan
    from tandem.aws.resources import Owner
    from tandem.aws.session import Account, AccountError
    from tandem.aws.stack_account import Identity
    from tandem.dry_run.program import Planned

NOT_DEPLOYED = "not deployed yet"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ADDON = "aws:eks/addon:Addon"
RELEASE = "kubernetes:helm.sh/v3:Release"


@dataclass(frozen=True, slots=True)
class Access:
    """Whether AWS grants access."""

    account: "Account | None" = None
    """None if it does not, or not in the stack's region."""
    error: "AccountError | None" = None
    """Why not."""
    region_closed: bool = False
    """Whether other regions accept the credentials, so that the region is the problem."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack to deploy."""

    plan: "Plan"
    planned: "Planned"

    @property
    def name(self) -> str:
        """Its name in Pulumi."""
        return self.plan.stack

    def resources(self, type_: str) -> "list[Resource]":
        """The resources of a type that the program registers."""
        return [resource for resource in self.planned.graph if resource.type == type_]


@dataclass
class Case:
    """Everything that a check may read. What AWS says of the whole account is asked once."""

    project: Path
    """The folder with Pulumi.yaml."""
    region: str
    """Empty if unknown."""
    profile: str | None
    now: datetime.datetime
    stack: Stack | None = None

    @property
    def planned_stack(self) -> Stack:
        """The stack, for checks that run only for a named one."""
        assert self.stack, "the check runs only for a stack"
        return self.stack

    def account(self) -> "Account":
        """The account in the stack's region; raises `AccountError`."""
        access = self.access
        if access.account is None:
            assert access.error, "no account, and no reason"
            raise access.error
        return access.account

    @property
    def identity(self) -> "Identity":
        """Who works for the stack: with `aws:assumeRoles` of its file, Pulumi works in another account."""
        from tandem.aws.stack_account import Identity

        if self.stack is None:
            return Identity(profile=self.profile)
        config = self.stack.plan.config
        return Identity(profile=self.profile, roles=config.assume_roles, allowed=config.allowed_account_ids)

    @property
    def account_id(self) -> str | None:
        """The account's number; None if unknown."""
        try:
            return self.access.account.id if self.access.account else None
        except ModuleNotFoundError:
            return None

    @cached_property
    def access(self) -> Access:
        """AWS's answer to the question for the identity."""
        from tandem.aws.session import NOT_ACCEPTED, NOT_ENABLED, AccountError, code, connect

        home = HOME_REGIONS[partition_of(self.region)]
        region = self.region or home
        try:
            return Access(account=self.identity.connect(region))
        except AccountError as error:
            if region == home or code(_cause(error)) not in (*NOT_ACCEPTED, *NOT_ENABLED):
                return Access(error=error)
            refused = error
        # A region that is not enabled rejects valid credentials as if they were wrong.
        try:
            connect(home, self.profile)
        except AccountError:
            return Access(error=refused)
        return Access(error=refused, region_closed=True)

    @cached_property
    def cluster(self) -> Any:
        """EKS's description of the stack's cluster; None if there is none, or if another owner has one of that name.

        It may be one that the stack only uses.
        """
        from tandem.aws import clusters

        raw = clusters.cluster(self.account(), self.planned_stack.plan.cluster_name)
        is_suitable = raw and (self.has_existing_cluster or self.owner.owns(raw.get("tags") or {}))
        return raw if is_suitable else None

    @cached_property
    def owner(self) -> "Owner":
        """The stack as the owner of resources."""
        from tandem.aws.clusters import owner_of

        return owner_of(self.account(), self.planned_stack.name)

    @property
    def has_existing_cluster(self) -> bool:
        """Whether the stack uses a cluster that it does not create."""
        return self.planned_stack.plan.config.cluster.existing is not None


def _cause(error: Exception) -> Exception:
    cause = error.__cause__
    return cause if isinstance(cause, Exception) else error
