"""The expressions of data/eks-cluster-children.json: what each means, and on which resources its value depends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox.eks.kubeconfig import kubeconfig
from sandbox.eks.kubeconfig import text as kubeconfig_text
from sandbox.graph import Ref, Secret, holds_secret, plain
from sandbox.protocol import Registered, Values

_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A value, None where there is none, and the URNs that it depends on."""

    value: Any
    dependencies: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Context:
    """For which child an expression stands."""

    words: Mapping[str, str]
    """What {name}, {key} and {policy} mean."""
    entry: Values = field(default_factory=dict)
    """The access entry."""
    policy: Values = field(default_factory=dict)
    """The access policy."""

    def filled(self, text: str) -> str:
        """The text with its words put in. Not str.format: some texts are JSON."""
        for word, meaning in self.words.items():
            text = text.replace(f"{{{word}}}", meaning)
        return text


class Scope(Protocol):
    """What expressions may speak of."""

    def argument(self, path: str) -> Evaluated:
        """An argument of the component, e.g. `vpcCniOptions.addonVersion`."""

    def child(self, name: str, token: str | None = None) -> Registered:
        """A child, registered by now."""

    def spread(self, name: str, token: str | None = None) -> frozenset[str]:
        """The URNs that depending on a child means: a component stands for what is in it."""

    def ask(self, token: str) -> Values:
        """The answer to an invoke without arguments."""


def at(value: Any, path: str) -> Any:
    """What lies at a path such as `identities[0].oidcs[0].issuer`; None where nothing does. Secrets stay so."""
    secret = False
    for step in _STEP.findall(path):
        if isinstance(value, Secret):
            value, secret = value.value, True
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return Secret(value) if secret and value is not None and not isinstance(value, Secret) else value


def evaluate(expression: Any, context: Context, scope: Scope) -> Evaluated:
    """The value of an expression."""
    if isinstance(expression, str):
        return Evaluated(context.filled(expression))
    if isinstance(expression, list):
        return _list([evaluate(one, context, scope) for one in expression])
    if not isinstance(expression, Mapping):
        return Evaluated(expression)
    for word, meaning in _WORDS.items():
        if word in expression:
            return meaning(expression, context, scope)
    return _mapping({key: evaluate(one, context, scope) for key, one in expression.items()})


def _list(parts: list[Evaluated]) -> Evaluated:
    return Evaluated([part.value for part in parts], _united(parts))


def _mapping(parts: dict[str, Evaluated]) -> Evaluated:
    given = {key: part for key, part in parts.items() if part.value is not None}
    return Evaluated({key: part.value for key, part in given.items()}, _united(list(given.values())))


def _united(parts: list[Evaluated]) -> frozenset[str]:
    return frozenset().union(*(part.dependencies for part in parts))


def _argument(expression: Values, context: Context, scope: Scope) -> Evaluated:
    found = scope.argument(expression["arg"])
    return found if found.value is not None else Evaluated(expression.get("default"))


def _ref(expression: Values, context: Context, scope: Scope) -> Evaluated:
    child = scope.child(context.filled(expression["ref"]))
    value = child.id if expression["output"] == "id" else at(child.outputs, expression["output"])
    return Evaluated(value, frozenset({child.urn}))


def _resource(expression: Values, context: Context, scope: Scope) -> Evaluated:
    name, token = context.filled(expression["resource"]), expression.get("type")
    child = scope.child(name, token)
    return Evaluated(Ref(child.urn, child.id or None), scope.spread(name, token))


def _merge(expression: Values, context: Context, scope: Scope) -> Evaluated:
    parts = [evaluate(one, context, scope) for one in expression["merge"]]
    merged: dict[str, Any] = {}
    for part in parts:
        opened = part.value.value if isinstance(part.value, Secret) else part.value
        merged |= opened or {}
    secret = any(isinstance(part.value, Secret) for part in parts)
    return Evaluated(Secret(merged) if secret else merged, _united(parts))


def _concat(expression: Values, context: Context, scope: Scope) -> Evaluated:
    parts = [evaluate(one, context, scope) for one in expression["concat"]]
    text = "".join(str(plain(part.value)) for part in parts)
    return Evaluated(Secret(text) if any(holds_secret(part.value) for part in parts) else text, _united(parts))


def _invoke(expression: Values, context: Context, scope: Scope) -> Evaluated:
    return Evaluated(at(scope.ask(expression["invoke"]), expression["output"]))


def _kubeconfig(expression: Values, context: Context, scope: Scope) -> Evaluated:
    cluster = scope.child(context.filled(expression["kubeconfig_of"]))
    config = kubeconfig(cluster.outputs)
    return Evaluated(config if expression["as"] == "object" else kubeconfig_text(config), frozenset({cluster.urn}))


def _entry(expression: Values, context: Context, scope: Scope) -> Evaluated:
    return Evaluated(context.entry.get(expression["entry"]), scope.argument("accessEntries").dependencies)


def _policy(expression: Values, context: Context, scope: Scope) -> Evaluated:
    return Evaluated(context.policy.get(expression["policy"]), scope.argument("accessEntries").dependencies)


def _values(expression: Values, context: Context, scope: Scope) -> Evaluated:
    found = scope.argument(expression["values"])
    opened = found.value.value if isinstance(found.value, Secret) else found.value
    values = [opened[key] for key in sorted(opened or {})]
    return Evaluated(Secret(values) if isinstance(found.value, Secret) else values, found.dependencies)


def _without_scheme(expression: Values, context: Context, scope: Scope) -> Evaluated:
    found = evaluate(expression["without https://"], context, scope)
    return Evaluated(str(found.value).removeprefix("https://"), found.dependencies)


_WORDS: dict[str, Callable[[Values, Context, Scope], Evaluated]] = {
    "arg": _argument,
    "ref": _ref,
    "resource": _resource,
    "merge": _merge,
    "concat": _concat,
    "invoke": _invoke,
    "kubeconfig_of": _kubeconfig,
    "entry": _entry,
    "policy": _policy,
    "values": _values,
    "without https://": _without_scheme,
}
