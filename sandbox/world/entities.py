"""The resources of the emulated cloud, who created them, and the errors of its rules."""

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Literal

from sandbox.world import tokens

Key = tuple[str, str]
"""Type token and id, which identify a resource in Pulumi's state."""
PULUMI = "pulumi"

CREATE_FAILED, DEGRADED = "CREATE_FAILED", "DEGRADED"
STAYS_FAILED = (tokens.NODE_GROUP, tokens.ADDON)
"""Types that EKS keeps after a failed creation. The provider then has their id (d.SetId in node_group.go, addon.go)."""


class CloudError(Exception):
    """The cloud rejects a call, in its own words."""

    def __init__(self, code: str, message: str, source: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.source = code, message, source
        """`code` is AWS's error code or a Kubernetes reason. `source` is the API reference of the rule."""


class IncompleteError(CloudError):
    """The resource exists but is incomplete, so Pulumi's state has to record it."""

    def __init__(self, error: CloudError, id: str, outputs: dict[str, Any]) -> None:
        super().__init__(error.code, error.message, error.source)
        self.id, self.outputs = id, outputs


class Lost(Exception):
    """The call succeeded, but its reply never arrived. Only tests lose replies."""


@dataclass(slots=True, kw_only=True)
class Entity:
    """An existing resource, created by Pulumi or by a controller."""

    type: str
    id: str
    name: str
    """Logical name, or the actual name if a controller created it."""
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    made_by: str = PULUMI
    """`pulumi`, or the controller that created it."""
    owner: Key | None = None
    """Its owner, if a controller created it. The deletion of the owner also deletes it."""
    cluster: str = ""
    """API server of its cluster, for Kubernetes objects."""
    serial: int = 0
    """Number in the order of creation. It makes ids unique."""
    provider: dict[str, Any] = field(default_factory=dict)
    """Inputs of the provider that created it, without credentials."""
    status: str = ""
    """EKS's status `CREATE_FAILED` or `DEGRADED`; empty for a healthy resource."""

    def set_status(self, status: str) -> None:
        """Sets EKS's status. The provider shows it only for node groups."""
        self.status = status
        if self.type == tokens.NODE_GROUP:
            self.outputs["status"] = status

    @property
    def key(self) -> Key:
        """Type and id."""
        return self.type, self.id

    @property
    def namespace(self) -> str:
        """Namespace of a Kubernetes object or release; "" for those without one."""
        return str(self.outputs.get("namespace") or value_at(self.outputs, "metadata.namespace") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event that concerns the GPUs of a node."""

    kind: Literal["stop", "mode", "prove", "start", "clash"]
    """`stop` and `start`: a pod's process stopped or started. `mode`: the device plugin's configuration changed.
    `prove`: a Job completed. `clash`: two device plugins run on the node.
    """
    node: str
    config: str
    """The plugin's config: for `stop`, the config when the process started; for `mode`, the new config."""
    who: str = ""
    """Id of the pod or Job; for `clash`, the ids of the releases."""
    before: str = ""
    """For `mode`, the previous config; empty for a new node."""


@dataclass(slots=True, kw_only=True)
class GpuState:
    """The state of a node's device plugin."""

    template: str = ""
    """Digest of the template of the plugin's pod; empty without a plugin."""
    lost_shares: bool = False
    """Whether that pod advertises no shares until it is recreated."""
    config: str = ""
    """The last config of the plugin. The GPUs do not change while the node has none."""
    clash: str = ""
    """The releases that run a plugin there, if there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process on a GPU: that of a pod with a share."""

    node: str
    config: str
    """The plugin's config under which the process started."""
    is_mps: bool
    """Whether that config shares the GPU by MPS."""


@dataclass(slots=True)
class Entities:
    """All resources by type and id, and everything else that outlives a process."""

    first: InitVar[Iterable[Entity]] = ()
    _: KW_ONLY
    serial: int = 0
    """The last serial number."""
    recycled: dict[str, int] = field(default_factory=dict)
    """Number of nodes that updates have replaced, by node group."""
    quotas: dict[str, int] = field(default_factory=dict)
    """Limits on running vCPUs, by code of the quota. A missing quota is unlimited."""
    peaks: dict[str, int] = field(default_factory=dict)
    """Peak of running vCPUs, by code of the quota."""
    buried: dict[Key, str] = field(default_factory=dict)
    """Kubernetes objects that were deleted with their cluster, and its API server."""
    journal: list[Event] = field(default_factory=list)
    """Events that concern GPUs, in order."""
    gpus: dict[str, GpuState] = field(default_factory=dict)
    """The state of each node's GPUs, by the node's id."""
    processes: dict[str, Process] = field(default_factory=dict)
    """Running processes on GPUs, by the id of the pod."""
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Inputs of every version of a launch template, by its id and the version, e.g. `lt-1:2`."""
    offers: dict[str, list[str]] = field(default_factory=dict)
    """Zones in which this account gets an instance type, if they differ from the default."""
    _by_key: dict[Key, Entity] = field(init=False, default_factory=dict)
    _by_type: dict[str, dict[Key, Entity]] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self, first: Iterable[Entity]) -> None:
        for entity in first:
            self.add(entity)

    def __iter__(self) -> Iterator[Entity]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, token: str, identity: Any) -> Entity | None:
        """The resource with this type and id."""
        return self._by_key.get((token, str(identity)))

    def add(self, entity: Entity) -> Entity:
        """Adds a resource."""
        self._by_key[entity.key] = entity
        self._by_type.setdefault(entity.type, {})[entity.key] = entity
        return entity

    def remove(self, entity: Entity) -> None:
        """Removes a resource, and everything that controllers created for it."""
        self._by_key.pop(entity.key, None)
        self._by_type.get(entity.type, {}).pop(entity.key, None)
        for below in self.owned_by(entity):
            self.remove(below)

    def of(self, token: str) -> list[Entity]:
        """Resources of a type, oldest first."""
        return [*self._by_type.get(token, {}).values()]

    def having(self, token: str, **inputs: Any) -> list[Entity]:
        """Resources of a type with these inputs, oldest first."""
        return [
            entity for entity in self.of(token) if all(entity.inputs.get(key) == given for key, given in inputs.items())
        ]

    def role(self, arn: Any) -> Entity | None:
        """The IAM role with this ARN."""
        return next((entity for entity in self.of(tokens.ROLE) if entity.outputs.get("arn") == arn), None)

    def within(self, cluster: str, token: str) -> list[Entity]:
        """Objects of a type in one Kubernetes cluster, oldest first."""
        return [entity for entity in self.of(token) if entity.cluster == cluster]

    def owned_by(self, owner: Entity, token: str = "") -> list[Entity]:
        """Resources that controllers created for `owner`, of one type if given."""
        return [one for one in self._by_key.values() if one.owner == owner.key and token in ("", one.type)]

    def inside(self, cluster: str) -> list[Entity]:
        """Objects of one Kubernetes cluster."""
        return [entity for entity in self._by_key.values() if entity.cluster == cluster]

    def is_owned_by_any(self, entity: Entity, known: frozenset[Key]) -> bool:
        """Whether the resource, or one of its direct or indirect owners, is in `known`."""
        seen: Entity | None = entity
        while seen is not None:
            if seen.key in known:
                return True
            seen = self._by_key.get(seen.owner) if seen.owner else None
        return False


def values_at(values: Any, path: str) -> list[Any]:
    """The values at a dotted path. Lists on the path and at its end are flattened."""
    if isinstance(values, list | tuple):
        return [found for item in values for found in values_at(item, path)]
    if not path:
        return [] if values is None else [values]
    key, _, rest = path.partition(".")
    return values_at(values.get(key), rest) if isinstance(values, dict) else []


def value_at(values: Any, path: str) -> Any:
    """The first value at a dotted path, or None."""
    found = values_at(values, path)
    return found[0] if found else None
