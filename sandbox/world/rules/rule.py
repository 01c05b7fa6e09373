"""The format of rules: one row per rule, with the API's message and its documentation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from sandbox.world.entities import CloudError, Entities, Entity, values_at

Moment = Literal["check", "create", "update", "delete"]
Moments = tuple[Moment, ...]
CREATE: Moments = ("create",)
CHANGE: Moments = ("create", "update")
UPDATE: Moments = ("update",)
DELETE: Moments = ("delete",)
# The AWS provider retries such deletions for minutes (terraform-provider-aws internal/service: ec2/vpc_.go,
# vpc_subnet.go, vpc_internet_gateway.go, vpc_security_group.go, ebs_volume.go, iam/role.go, policy.go). Here, that of a
# route table is no exception. The Kubernetes provider awaits objects, and Helm its hooks and workloads
# (pulumi-kubernetes provider/pkg/await).
WAITED = frozenset(
    {"DependencyViolation", "VolumeInUse", "DeleteConflict", "Timeout", "DeadlineExceeded", "BackoffLimitExceeded"}
)
"""Codes of rules that a provider polls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call that the rules check."""

    entities: Entities
    """The resources before the call."""
    type: str
    name: str
    """Logical name."""
    inputs: dict[str, Any]
    """The new inputs; for a deletion the current inputs."""
    id: str = ""
    """Empty at creation."""
    entity: Entity | None = None
    """The resource to update or delete. None for a creation."""
    cluster: str = ""
    """API server of the Kubernetes provider."""
    provider: dict[str, Any] = field(default_factory=dict)
    caller: str = ""
    """ARN of the role or user that calls."""

    @property
    def existing(self) -> Entity:
        """The resource to update or delete."""
        assert self.entity is not None
        return self.entity


Refusal = Callable[[Case], str | None]
"""Why a call is rejected, in the API's words. None if it is accepted."""


def absent(path: str, to: str, words: str) -> Refusal:
    """Rejects inputs whose id at `path` belongs to no resource of type `to`. `words` can contain `{id}`."""

    def refuse(case: Case) -> str | None:
        named = values_at(case.inputs, path)
        return next((words.format(id=one) for one in named if case.entities.get(to, one) is None), None)

    return refuse


def used(by: str, path: str, words: str) -> Refusal:
    """Rejects a call while a resource of type `by` refers to this one. `words` can contain `{by}` and `{id}`."""

    def refuse(case: Case) -> str | None:
        users = [entity.id for entity in case.entities.of(by) if case.id in values_at(entity.inputs, path)]
        return words.format(id=case.id, by=users[0]) if users else None

    return refuse


def taken(*keys: str, words: str) -> Refusal:
    """Rejects a second resource with the same values of the inputs `keys`. `words` can contain these inputs by name."""

    def refuse(case: Case) -> str | None:
        wanted = {key: case.inputs.get(key) for key in keys}
        others = [entity for entity in case.entities.having(case.type, **wanted) if entity is not case.entity]
        if not others or not any(wanted.values()):
            return None
        return words.format_map({**case.inputs, "made_by": others[0].made_by})

    return refuse


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one API: a row of a table, in this order."""

    types: tuple[str, ...]
    """Type tokens. A token that ends with `:` or `/` is a prefix."""
    on: Moments
    code: str
    """The API's error code or reason."""
    source: str
    """The API's documentation of the rule."""
    refuses: Refusal
    leaves: Callable[[Case], None] | None = None
    """Side effect of the rejected call."""
    done: bool = False
    """Whether the call still makes its change and fails afterwards, even if the rule does not wait. Not for releases
    that Helm rolls back (`atomic`).
    """

    @property
    def waits(self) -> bool:
        """Whether the call is polled until the rule allows it. It fails when nothing else changes any more."""
        return self.code in WAITED

    def is_about(self, token: str, moment: Moment) -> bool:
        """Whether the rule applies to such a call."""
        return moment in self.on and any(
            token.startswith(one) if one.endswith((":", "/")) else token == one for one in self.types
        )


def refusal(rules: Iterable[Rule], moment: Moment, case: Case) -> tuple[Rule, CloudError] | None:
    """The first rule that rejects the call, and its error."""
    for rule in rules:
        if rule.is_about(case.type, moment) and (message := rule.refuses(case)) is not None:
            return rule, CloudError(rule.code, message, rule.source)
    return None
