"""How rules are written down: one row each, with the words of the API that refuses and where they are documented."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from sandbox.world.things import CloudError, Thing, Things, values_at

Moment = Literal["check", "create", "update", "delete"]
Moments = tuple[Moment, ...]
CREATE: Moments = ("create",)
CHANGE: Moments = ("create", "update")
UPDATE: Moments = ("update",)
DELETE: Moments = ("delete",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call that rules look at."""

    things: Things
    """What exists before the call."""
    type: str
    name: str
    """Logical name."""
    inputs: dict[str, Any]
    """The new inputs; for a delete those that the thing has."""
    id: str = ""
    """Empty at creation."""
    thing: Thing | None = None
    """What is to be changed or deleted; None at creation."""
    cluster: str = ""
    """API server that the Kubernetes provider talks to."""
    provider: dict[str, Any] = field(default_factory=dict)
    caller: str = ""
    """ARN of the role or user that calls."""


Refusal = Callable[[Case], str | None]
"""Why a call is refused, in the API's words; None when it is not."""


def absent(path: str, to: str, words: str) -> Refusal:
    """Refuses an id at that path of the inputs that names no thing of the type `to`: `{id}` in the words."""

    def refuse(case: Case) -> str | None:
        named = values_at(case.inputs, path)
        return next((words.format(id=one) for one in named if case.things.get(to, one) is None), None)

    return refuse


def used(by: str, path: str, words: str) -> Refusal:
    """Refuses while a thing of the type `by` names this one: `{by}` and `{id}` in the words."""

    def refuse(case: Case) -> str | None:
        users = [one.id for one in case.things.of(by) if case.id in values_at(one.inputs, path)]
        return words.format(id=case.id, by=users[0]) if users else None

    return refuse


def taken(*keys: str, words: str) -> Refusal:
    """Refuses a second thing of the type with the same values of these inputs, by whose names the words have them."""

    def refuse(case: Case) -> str | None:
        wanted = {key: case.inputs.get(key) for key in keys}
        others = [one for one in case.things.having(case.type, **wanted) if one is not case.thing]
        if not others or not any(wanted.values()):
            return None
        return words.format_map({**case.inputs, "made_by": others[0].made_by})

    return refuse


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one API: a row of a table, in this order."""

    types: tuple[str, ...]
    """Type tokens; one that ends in `:` stands for all that begin so."""
    on: Moments
    code: str
    """The API's own error code or reason."""
    source: str
    """Where the API documents it."""
    refuses: Refusal
    leaves: Callable[[Case], None] | None = None
    """What the refused call has done all the same."""
    waits: bool = False
    """The call is taken and polled until it may pass; it fails when nothing else moves any more."""
    done: bool = False
    """The call does its work all the same, and fails afterwards, also where the rule does not wait; for releases unless
    Helm is to undo it (`atomic`)."""

    def is_about(self, token: str, moment: Moment) -> bool:
        """Whether the rule looks at such a call."""
        return moment in self.on and any(
            token.startswith(one) if one.endswith(":") else token == one for one in self.types
        )


def refusal(rules: Iterable[Rule], moment: Moment, case: Case) -> tuple[Rule, CloudError] | None:
    """The first rule that refuses, and its words."""
    for rule in rules:
        if rule.is_about(case.type, moment) and (message := rule.refuses(case)) is not None:
            return rule, CloudError(rule.code, message, rule.source)
    return None
