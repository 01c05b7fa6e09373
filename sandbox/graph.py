"""What a program asked of the engine, as plain data: resources, logs and outputs. No Pulumi in here."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDER_TYPE_PREFIX = "pulumi:providers:"
IN_STATE_ALONE = ("pulumi:", "random:")
"""Beginnings of types that are in Pulumi's state and nowhere else."""
MASK = "[secret]"
INHERITED_OPTIONS = ("deletedWith", "protect", "retainOnDelete")


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Marks a value as secret. It never prints; compare `value` where a test needs it."""

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
    """The value with everything changed that is no map and no list. A value in which nothing changes is not copied."""
    if isinstance(value, Mapping):
        changed = {key: rebuilt(item, change) for key, item in value.items()}
        return changed if any(changed[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        items = [rebuilt(item, change) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return change(value)


def masked(value: Any) -> Any:
    """The value as it may be shown: secrets as `[secret]`, resource references as `{"resource": urn}`. Fit for JSON."""

    def show(one: Any) -> Any:
        if isinstance(one, Secret):
            return MASK
        return {"resource": one.urn} if isinstance(one, Ref) else one

    return rebuilt(value, show)


def plain(value: Any) -> Any:
    """The value as a provider sees it: secrets in clear, a resource reference as its id (a component's as its URN)."""
    return rebuilt(value, lambda one: plain(one.value) if isinstance(one, Secret) else _identity(one))


def dereferenced(value: Any) -> Any:
    """The value with resource references as ids, and secrets still marked."""
    return rebuilt(value, lambda one: Secret(dereferenced(one.value)) if isinstance(one, Secret) else _identity(one))


def _identity(one: Any) -> Any:
    if isinstance(one, Ref):
        return one.urn if one.id is None else one.id
    return one


def parts(value: Any) -> Iterator[Any]:
    """The value, and everything in it; secrets are opened."""
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
    """Whether a secret is anywhere in the value."""
    return any(isinstance(one, Secret) for one in parts(value))


def references(value: Any) -> frozenset[str]:
    """URNs of the resources used as values anywhere in the value."""
    return frozenset(one.urn for one in parts(value) if isinstance(one, Ref))


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A resource to be registered with the engine, by the program or by a component's provider."""

    type: str
    """Type token, e.g. `aws:ec2/vpc:Vpc`."""
    name: str
    """Logical name, the URN's last part."""
    parent: str = ""
    """URN; "" for the stack alone."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """As sent, with `Secret` and `Ref` marks. A provider's inputs are JSON texts, as on the wire."""
    custom: bool = True
    remote: bool = False
    """A component that its provider builds, such as `eks:index:Cluster`."""
    dependencies: tuple[str, ...] = ()
    """URNs of `depends_on` and of everything in the inputs, sorted. A local component stands for its children here."""
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provider: str = ""
    """URN of the explicit provider, or ""."""
    providers: Mapping[str, str] = field(default_factory=dict)
    """Package to provider URN; components only."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Only what was set, named as in Pulumi's schema: protect, deletedWith, ignoreChanges, aliases, customTimeouts …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Registration):
    """One registration, as the engine received it, and what came of it."""

    urn: str
    outputs: Mapping[str, Any]
    id: str = ""
    """"" for components."""
    constructed: bool = False
    """Registered by the provider of the remote component above it, not by the program."""


@dataclass(frozen=True, slots=True)
class Log:
    """One message of the program, or a warning that the engine would give."""

    severity: str
    """`info`, `warning` or `error`; debug messages are dropped."""
    message: str
    urn: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Everything that one run registered."""

    resources: Mapping[str, Resource]
    """By URN, in sorted order: registration order varies from run to run."""
    logs: tuple[Log, ...] = ()
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each component registered as its outputs, by the component's URN."""
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
        """Resources whose parent is that URN, sorted by URN."""
        return self._children.get(urn, ())

    def descendants(self, urn: str) -> Iterator[Resource]:
        """Children, their children, and so on."""
        for child in self.children(urn):
            yield child
            yield from self.descendants(child.urn)

    def ancestors(self, urn: str) -> Iterator[Resource]:
        """Parent, its parent, and so on up to the stack."""
        while urn := self.resources[urn].parent:
            yield self.resources[urn]

    def of_type(self, token: str) -> tuple[Resource, ...]:
        """Resources of that type token, sorted by URN."""
        return tuple(resource for resource in self if resource.type == token)

    def named(self, name: str, token: str | None = None) -> Resource:
        """The one resource of that logical name (and type). Raises KeyError when there is none or several."""
        found = [one for one in self if one.name == name and token in (None, one.type)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} resources are called {name!r}: {[one.urn for one in found]}")
        return found[0]

    def effective_options(self, urn: str) -> Mapping[str, Any]:
        """Options of a resource after the engine's inheritance, with `provider` (URN) among them when there is one.

        The engine, not the SDK, hands deletedWith, protect, retainOnDelete and provider from parent to child; a mock
        therefore does not show them. (pulumi 3.260, pkg/resource/deploy/source_eval.go)
        """
        resource = self.resources[urn]
        options = dict(resource.options)
        for above in self.ancestors(urn):
            for option in INHERITED_OPTIONS:
                if option not in options and option in above.options:
                    options[option] = above.options[option]
        if provider := self._effective_provider(resource):
            options["provider"] = provider
        return options

    def _effective_provider(self, resource: Resource) -> str:
        if resource.provider:
            return resource.provider
        package = resource.type.split(":", 1)[0]
        for above in (resource, *self.ancestors(resource.urn)):
            if found := above.providers.get(package):
                return found
            if above.provider and self.resources[above.provider].type == PROVIDER_TYPE_PREFIX + package:
                return above.provider
            if above.custom and above is not resource:
                break  # a custom resource hands on its own provider, not the ones it could have had
        return ""
