"""Compares Pulumi's state with the emulated cloud: orphans, missing resources, unfinished operations."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.graph import IN_STATE_ALONE, PROVIDER_TYPE_PREFIX

if TYPE_CHECKING:
    from sandbox.graph import Graph
    from sandbox.world import Entity, World

PENDING = "pendingReplacement"
"""Marks an entry of the state whose resource is deleted and not yet recreated. `refresh` ignores it, and the next
`up` creates it. (pulumi 3.260 pkg/resource/deploy/step.go, DeleteStep.Apply and RefreshStep.Apply)"""
REPLACING = "replacing"
HELM = "helm"
"""The emulated cloud's maker of a release's resources."""


@dataclass(frozen=True, slots=True)
class Managed:
    """A resource in Pulumi's state that should exist in the cloud."""

    urn: str
    type: str
    id: str

    @property
    def name(self) -> str:
        """Logical name."""
        return name_of(self.urn)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An operation that has not ended in Pulumi's state."""

    urn: str
    type: str
    operation: str
    """`creating`, `updating`, `deleting` …, or `replacing` for a deleted resource without its replacement."""
    parent: str = ""
    provider: str = ""
    """URNs of the resource's parent and provider."""

    def importing(self, identity: str) -> tuple[str, ...]:
        """The arguments with which `pulumi` imports the created resource into the state."""
        return _importing(self.type, name_of(self.urn), identity, self.parent, self.provider)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A resource in the cloud but in no state, and the command that repairs it."""

    entity: "Entity"
    repair: str
    pending: Unfinished | None = None
    """The unfinished creation that created it."""
    replaces: bool = False
    """Whether the state still has the resource that it replaces: then `up` creates another instead of importing it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """State and cloud, compared."""

    managed: tuple[Managed, ...]
    resources: int
    """As `pulumi` counts them: with components, providers and the stack itself, without default providers."""
    entities: int
    orphans: tuple[Orphan, ...]
    missing: tuple[Managed, ...]
    """In the state, but not in the cloud."""
    unfinished: tuple[Unfinished, ...]
    left_off: str = ""
    """The verb that left the stack incomplete, or "": `up`, `destroy`, or a `refresh` that removed resources."""
    made: int = 0
    """Resources in the cloud that AWS, Kubernetes or Helm created, not Pulumi."""
    alone: int = 0
    """Resources of the state alone: the stack itself, components, providers and random values."""

    @property
    def agree(self) -> bool:
        """Whether there is nothing to repair."""
        return not (self.orphans or self.missing or self.unfinished)

    @property
    def finishes(self) -> str:
        """The verb that completes the unfinished operations, or ""."""
        if any(one.operation != REPLACING for one in self.unfinished):
            return "refresh"
        return "up" if self.unfinished else ""

    @property
    def completes(self) -> str:
        """The verb that completes the stack when state and cloud agree, or ""."""
        if self.left_off == "destroy":
            return "destroy"
        return "up" if self.left_off or self.missing or self.finishes == "up" else ""


def compare(stack: str, deployment: Mapping[str, Any], world: "World", graph: "Graph | None" = None) -> Findings:
    """Compares state and cloud. `graph` is the program's graph, with an orphan's parent and provider."""
    from sandbox.world.foreign import ELSEWHERE

    resources = [one for one in deployment.get("resources") or () if not _is_default_provider(one)]
    managed = tuple(_managed(resources))
    operations = [(one["type"], one["resource"]) for one in deployment.get("pending_operations") or ()]
    operations += [(REPLACING, one) for one in resources if one.get(PENDING)]
    unfinished = tuple(_unfinished(operation, one) for operation, one in operations)
    keys = {(one.type, one.id) for one in managed}
    providers = {one["urn"]: f"{one['urn']}::{one['id']}" for one in resources if _is_provider(one)}
    left = world.leftovers(keys)
    named = {entity.key for entity in left}
    # Resources that a controller created for an orphan are deleted with it.
    roots = [entity for entity in left if entity.owner not in named and not _goes_with_the_cluster(entity)]
    known = {one["urn"] for one in resources}
    orphans = tuple(_orphan(stack, entity, unfinished, graph, providers, known) for entity in roots)
    missing = tuple(one for one in managed if _is_missing(one, world))
    there = [entity for entity in world.entities() if entity.made_by != ELSEWHERE]
    made = sum(entity.made_by != "pulumi" for entity in there)
    alone = len(resources) - len(managed)
    return Findings(managed, len(resources), len(there), orphans, missing, unfinished, made=made, alone=alone)


def lack_dependencies(deployment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Imported entries that no `up` has updated since: they lack their dependencies."""
    entries = deployment.get("resources") or ()
    return [one for one in entries if one.get("id") and not _is_provider(one) and "propertyDependencies" not in one]


def restore_dependencies(deployment: Mapping[str, Any], graph: "Graph") -> None:
    """Adds the program's dependencies to such entries, if they precede them in the state."""
    needs = {one.urn: one.dependencies for one in graph}
    lacking = [one["urn"] for one in lack_dependencies(deployment)]
    earlier: set[str] = set()
    for one in deployment["resources"]:
        if one["urn"] in lacking:
            one["dependencies"] = [urn for urn in needs.get(one["urn"], ()) if urn in earlier]
        earlier.add(one["urn"])


def _unfinished(operation: str, resource: Mapping[str, Any]) -> Unfinished:
    parent, provider = resource.get("parent", ""), resource.get("provider", "").rpartition("::")[0]
    return Unfinished(resource["urn"], resource["type"], operation, parent, provider)


def _goes_with_the_cluster(entity: "Entity") -> bool:
    """Whether a release left the entity. Helm deletes neither CRDs of `crds/` nor namespaces; they cost nothing."""
    return entity.made_by == HELM and entity.owner is None


def _is_missing(one: Managed, world: "World") -> bool:
    """Whether the resource no longer exists. Resources of a deleted cluster no longer answer."""
    from sandbox.world import CloudError

    try:
        return world.read(one.type, one.id) is None
    except CloudError:
        return True


def name_of(urn: str) -> str:
    """The logical name in a URN."""
    return urn.rsplit("::", 1)[1]


def _is_default_provider(resource: Mapping[str, Any]) -> bool:
    return _is_provider(resource) and name_of(resource["urn"]).startswith("default")


def _is_provider(resource: Mapping[str, Any]) -> bool:
    return bool(resource["type"].startswith(PROVIDER_TYPE_PREFIX))


def _managed(resources: list[dict[str, Any]]) -> Iterator[Managed]:
    for one in resources:
        if (
            one.get("custom")
            and one.get("id")
            and not one["type"].startswith(IN_STATE_ALONE)
            and not one.get("external")
            and not one.get(PENDING)
        ):
            yield Managed(one["urn"], one["type"], one["id"])


def _orphan(
    stack: str,
    entity: "Entity",
    unfinished: tuple[Unfinished, ...],
    graph: "Graph | None",
    providers: Mapping[str, str],
    known: Collection[str],
) -> Orphan:
    created = [
        one
        for one in unfinished
        if (one.operation, one.type, name_of(one.urn)) == ("creating", entity.type, entity.name)
    ]
    if created:
        # `refresh` first ends unfinished operations.
        again = shlex.join(("tandem", "sandbox", "refresh", stack))
        return Orphan(entity, again, created[0], replaces=created[0].urn in known)
    if entity.made_by == "pulumi" and graph is not None:
        # A resource with an entry is no candidate: the engine imports nothing twice.
        found = [one for one in graph.of_type(entity.type) if one.name == entity.name and one.urn not in known]
        if found and found[0].provider in providers:
            importing = _importing(entity.type, entity.name, entity.id, found[0].parent, found[0].provider)
            return Orphan(entity, shlex.join(("tandem", "sandbox", "pulumi", stack, "--", *importing)))
    return Orphan(entity, shlex.join(("tandem", "sandbox", "delete", stack, entity.type, entity.id)))


def _importing(token: str, name: str, identity: str, parent: str, provider: str) -> tuple[str, ...]:
    places = ("--parent", f"parent={parent}", "--provider", f"provider={provider}")
    return ("import", token, name, identity, *places, "--protect=false", "--generate-code=false", "--yes")
