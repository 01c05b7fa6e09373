"""The result of a program's run as plain data, without Pulumi: resources, logs and outputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDER_TYPE_PREFIX = "pulumi:providers:"
IN_STATE_ALONE = ("pulumi:", "random:")
"""Prefixes of types that only exist in Pulumi's state."""
MASK = "[secret]"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Marks a value as secret. It is never printed. Tests can compare `value`."""

    value: Any

    def __repr__(self) -> str:
        return MASK


@dataclass(frozen=True, slots=True)
class Ref:
    """A resource used as a value, e.g. `role=role` instead of `role=role.name`."""

    urn: str
    id: str | None = None
    """None for components, which have no id."""


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` applied to everything except maps and lists. Unchanged parts are not copied."""
    if isinstance(value, Mapping):
        changed = {key: rebuilt(item, change) for key, item in value.items()}
        return changed if any(changed[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        items = [rebuilt(item, change) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return change(value)


def masked(value: Any) -> Any:
    """The value for display, as JSON data: secrets as `[secret]`, resource references as `{"resource": urn}`."""

    def show(one: Any) -> Any:
        if isinstance(one, Secret):
            return MASK
        return {"resource": one.urn} if isinstance(one, Ref) else one

    return rebuilt(value, show)


def plain(value: Any) -> Any:
    """The value as a provider sees it: secrets as plain text, a resource reference as its id (or a component's URN)."""
    return rebuilt(value, lambda one: plain(one.value) if isinstance(one, Secret) else _identity(one))


def dereferenced(value: Any) -> Any:
    """The value with resource references as ids, and secrets still marked."""
    return rebuilt(value, lambda one: Secret(dereferenced(one.value)) if isinstance(one, Secret) else _identity(one))


def _identity(one: Any) -> Any:
    if isinstance(one, Ref):
        return one.urn if one.id is None else one.id
    return one


def parts(value: Any) -> Iterator[Any]:
    """The value and all values inside it, including those of secrets."""
    yield value
    inside: Iterable[Any] = ()
    if isinstance(value, Secret):
        inside = (value.value,)
    elif isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    for item in inside:
        yield from parts(item)


def holds_secret(value: Any) -> bool:
    """Whether the value contains a secret."""
    return any(isinstance(one, Secret) for one in parts(value))


def references(value: Any) -> frozenset[str]:
    """URNs of all resources that the value refers to."""
    return frozenset(one.urn for one in parts(value) if isinstance(one, Ref))


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A resource that the program or a component's provider registers with the engine."""

    type: str
    """Type token, e.g. `aws:ec2/vpc:Vpc`."""
    name: str
    """Logical name, the last part of the URN."""
    parent: str = ""
    """URN of the parent; "" only for the stack."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Inputs as sent, with `Secret` and `Ref` marks. A provider's inputs are JSON strings, as on the wire."""
    custom: bool = True
    remote: bool = False
    """Whether its provider builds the component, e.g. `eks:index:Cluster`."""
    dependencies: tuple[str, ...] = ()
    """URNs in `depends_on` and in the inputs, sorted. A local component is replaced by its children."""
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provider: str = ""
    """URN of the explicit provider, or ""."""
    providers: Mapping[str, str] = field(default_factory=dict)
    """Provider URN by package, only for components."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that were set, named as in Pulumi's schema, e.g. ignoreChanges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Registration):
    """One registration, as the engine received it, and its result."""

    urn: str
    outputs: Mapping[str, Any]
    id: str = ""
    """"" for components."""
    constructed: bool = False
    """Whether the provider of a remote component registered it, not the program."""


@dataclass(frozen=True, slots=True)
class Log:
    """One message of the program, or a warning of the engine."""

    severity: str
    """`info`, `warning` or `error`; debug messages are dropped."""
    message: str
    urn: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """All resources, logs and outputs of one run."""

    resources: Mapping[str, Resource]
    """Resources by URN, sorted, because the order of registration varies."""
    logs: tuple[Log, ...] = ()
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The registered outputs of each component, by its URN."""
    stack_outputs: Mapping[str, Any] = field(default_factory=dict)
    _children: Mapping[str, tuple[Resource, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_parent: dict[str, list[Resource]] = {}
        for resource in self.resources.values():
            by_parent.setdefault(resource.parent, []).append(resource)
        object.__setattr__(self, "_children", {urn: tuple(below) for urn, below in by_parent.items()})

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.resources.values())

    def __len__(self) -> int:
        return len(self.resources)

    def __getitem__(self, urn: str) -> Resource:
        return self.resources[urn]

    def children(self, urn: str) -> tuple[Resource, ...]:
        """Resources with this parent, sorted by URN."""
        return self._children.get(urn, ())

    def descendants(self, urn: str) -> Iterator[Resource]:
        """All descendants."""
        for child in self.children(urn):
            yield child
            yield from self.descendants(child.urn)

    def ancestors(self, urn: str) -> Iterator[Resource]:
        """All ancestors, from the parent to the stack."""
        while urn := self.resources[urn].parent:
            yield self.resources[urn]

    def of_type(self, token: str) -> tuple[Resource, ...]:
        """Resources with this type token, sorted by URN."""
        return tuple(resource for resource in self if resource.type == token)

    def named(self, name: str, token: str | None = None) -> Resource:
        """The only resource with this logical name (and type). Raises KeyError if there is none or more than one."""
        found = [one for one in self if one.name == name and token in (None, one.type)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} resources have the name {name!r}: {[one.urn for one in found]}")
        return found[0]

    def effective_provider(self, urn: str) -> str:
        """URN of a resource's explicit provider, or "".

        Children inherit it in the engine, not in the SDK (pulumi 3.260, pkg/resource/deploy/source_eval.go).
        """
        resource = self.resources[urn]
        if resource.provider:
            return resource.provider
        package = resource.type.split(":", 1)[0]
        for above in (resource, *self.ancestors(urn)):
            if found := above.providers.get(package):
                return found
            if above.provider and self.resources[above.provider].type == PROVIDER_TYPE_PREFIX + package:
                return above.provider
            if above.custom and above is not resource:
                break  # children of a custom resource inherit its own provider only
        return ""
