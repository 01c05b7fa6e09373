"""What exists in the emulated cloud: things, who made them, and how a rule says no."""

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Literal

from sandbox.world import tokens

Key = tuple[str, str]
"""Type token and id: what Pulumi's state knows of a resource."""
PULUMI = "pulumi"

CREATE_FAILED, DEGRADED = "CREATE_FAILED", "DEGRADED"


class CloudError(Exception):
    """The cloud says no, in its own words."""

    def __init__(self, code: str, message: str, source: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.source = code, message, source
        """`code` is AWS's own or a Kubernetes reason; `source` the API reference of the rule."""


class IncompleteError(CloudError):
    """The thing is there, and not as it should be: the state has to know of it."""

    def __init__(self, error: CloudError, id: str, outputs: dict[str, Any]) -> None:
        super().__init__(error.code, error.message, error.source)
        self.id, self.outputs = id, outputs


class Lost(Exception):
    """The call succeeded, but its answer never arrived."""


@dataclass(slots=True, kw_only=True)
class Thing:
    """One resource that exists, whoever made it."""

    type: str
    id: str
    name: str
    """Logical name; for what a controller made, its own."""
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    made_by: str = PULUMI
    """`pulumi`, or the controller that made it."""
    owner: Key | None = None
    """What it goes with, for what a controller made."""
    cluster: str = ""
    """API server of the cluster that holds it, for Kubernetes objects."""
    serial: int = 0
    """Order of creation; it makes ids unique."""
    provider: dict[str, Any] = field(default_factory=dict)
    """Inputs of the provider it was created with, without credentials."""
    status: str = ""
    """`CREATE_FAILED` or `DEGRADED`, as EKS calls it; empty for what is as it should be."""

    def set_status(self, status: str) -> None:
        """Notes what EKS calls it now; the provider shows it for node groups alone."""
        self.status = status
        if self.type == tokens.NODE_GROUP:
            self.outputs["status"] = status

    @property
    def key(self) -> Key:
        """Type and id."""
        return self.type, self.id

    @property
    def namespace(self) -> str:
        """Namespace of a Kubernetes object or release; "" for everything else."""
        found = self.outputs.get("namespace") or (self.outputs.get("metadata") or {}).get("namespace")
        return str(found or "") if self.type.startswith("kubernetes:") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the cards of a node."""

    kind: Literal["stop", "mode", "prove", "start", "clash"]
    """A process of a pod ended, the device plugin took another configuration, a Job completed, a process of a pod
    began, or two device plugins run on the node."""
    node: str
    config: str
    """The plugin's config: of `stop` the one under which the process began, of `mode` the new one."""
    who: str = ""
    """Id of the pod or Job; of `clash` those of the releases."""
    before: str = ""
    """Of `mode` the config until then; empty for a node that has just come."""


@dataclass(slots=True)
class Things:
    """All things, by type and id, and what else outlives a process."""

    first: InitVar[Iterable[Thing]] = ()
    _: KW_ONLY
    serial: int = 0
    """Last one given to a thing or a name."""
    recycled: dict[str, int] = field(default_factory=dict)
    """Nodes that were replaced by an update of their group, by the group's name."""
    quotas: dict[str, int] = field(default_factory=dict)
    """vCPUs that may run at once, by code of the quota; one that is not here is no limit."""
    peaks: dict[str, int] = field(default_factory=dict)
    """Most vCPUs that ever ran at once, by code of the quota."""
    buried: dict[Key, str] = field(default_factory=dict)
    """Kubernetes objects that went with their cluster, and its API server."""
    journal: list[Event] = field(default_factory=list)
    """What happened to cards, in this order."""
    offers: dict[str, list[str]] = field(default_factory=dict)
    """Zones in which this account gets an instance type, where they are not those that every account has."""
    has_spot: bool = True
    """Whether EC2 sells spot: there is capacity, and the account has the service-linked role for it. Not kept."""
    _by_key: dict[Key, Thing] = field(init=False, default_factory=dict)
    _by_type: dict[str, dict[Key, Thing]] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self, first: Iterable[Thing]) -> None:
        for thing in first:
            self.add(thing)

    def __iter__(self) -> Iterator[Thing]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, token: str, identity: Any) -> Thing | None:
        """The thing of that type and id."""
        return self._by_key.get((token, str(identity)))

    def add(self, thing: Thing) -> Thing:
        """Takes the thing in."""
        self._by_key[thing.key] = thing
        self._by_type.setdefault(thing.type, {})[thing.key] = thing
        return thing

    def remove(self, thing: Thing) -> None:
        """Drops the thing, and what a controller made for it."""
        self._by_key.pop(thing.key, None)
        self._by_type.get(thing.type, {}).pop(thing.key, None)
        for below in self.owned_by(thing):
            self.remove(below)

    def of(self, *tokens: str) -> list[Thing]:
        """Things of these types, oldest first."""
        if len(tokens) == 1:
            return [*self._by_type.get(tokens[0], {}).values()]
        return [thing for thing in self._by_key.values() if thing.type in tokens]

    def having(self, token: str, **inputs: Any) -> list[Thing]:
        """Things of a type with these inputs, oldest first."""
        return [one for one in self.of(token) if all(one.inputs.get(key) == given for key, given in inputs.items())]

    def role(self, arn: Any) -> Thing | None:
        """The IAM role with that ARN."""
        return next((one for one in self.of(tokens.ROLE) if one.outputs.get("arn") == arn), None)

    def within(self, cluster: str, token: str) -> list[Thing]:
        """Objects of a type in one Kubernetes cluster, oldest first."""
        return [one for one in self.of(token) if one.cluster == cluster]

    def owned_by(self, owner: Thing, token: str = "") -> list[Thing]:
        """What controllers made for a thing, of one type if given."""
        return [one for one in self._by_key.values() if one.owner == owner.key and token in ("", one.type)]

    def inside(self, cluster: str) -> list[Thing]:
        """Objects of one Kubernetes cluster."""
        return [thing for thing in self._by_key.values() if cluster and thing.cluster == cluster]

    def is_owned_by_any(self, thing: Thing, known: frozenset[Key]) -> bool:
        """Whether the thing, or what it goes with, and so on, is among `known`."""
        seen: Thing | None = thing
        while seen is not None:
            if seen.key in known:
                return True
            seen = self._by_key.get(seen.owner) if seen.owner else None
        return False


def values_at(values: Any, path: str) -> list[Any]:
    """What a dotted path leads to; lists on the way are gone through, and so is one at its end."""
    if isinstance(values, list | tuple):
        return [found for item in values for found in values_at(item, path)]
    if not path:
        return [] if values is None else [values]
    key, _, rest = path.partition(".")
    return values_at(values.get(key), rest) if isinstance(values, dict) else []


def value_at(values: Any, path: str) -> Any:
    """The first of what a dotted path leads to, or None."""
    found = values_at(values, path)
    return found[0] if found else None
