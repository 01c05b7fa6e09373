"""A plan's resources as a diagram: grouped by component, alike ones as one box, and the startup path.

Seventy boxes with all their edges would be unreadable. So resources of one type in one component share a box, unless
they are steps of the startup path or would wait for each other in a circle. Edges that follow from others are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise

from sandbox.graph import IN_STATE_ALONE, STACK_TYPE, Graph, Resource
from sandbox.preview.timeline import waits
from sharing.printable import counted
from tandem.dry_run.program import Planned

OURS = "tandem:index:"
SHORT = 0.05
"""Steps of the path that take fewer minutes have no box of their own: it would show 0.0."""

Before = Mapping[str, frozenset[str]]
"""What each box waits for."""


@dataclass(frozen=True, slots=True)
class Box:
    """A step of the startup path, or all other resources of a type in a component."""

    id: str
    kind: str
    names: tuple[str, ...]
    minutes: float
    on_path: bool
    depth: int
    """The largest number of boxes in a row that it waits for."""

    @property
    def label(self) -> str:
        """The name of one resource, or the number of several."""
        return self.names[0] if len(self.names) == 1 else f"× {len(self.names)}"


@dataclass(frozen=True, slots=True)
class Group:
    """A component with its boxes; those that wait for the fewest others come first."""

    id: str
    kind: str
    name: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """`after`, a box or a whole group, waits for the box `before`."""

    before: str
    after: str
    on_path: bool


@dataclass(frozen=True, slots=True)
class Diagram:
    """The whole picture."""

    title: str
    description: str
    groups: tuple[Group, ...]
    edges: tuple[Edge, ...]


def make_diagram(planned: Planned, stack: str) -> Diagram:
    """The diagram of a planned stack."""
    graph, startup = planned.graph, planned.startup
    before = _visible(graph, waits(graph))
    path = [step for step in startup.path if step.urn in before and step.minutes >= SHORT]
    minutes = {step.urn: step.minutes for step in path}
    merged = _merge(graph, before, minutes)
    order = _Order(_quotient(before, merged))
    home = {urn: _component(graph, urn) for urn in order.boxes}
    ids = {urn: f"r{place}" for place, urn in enumerate(order.boxes)}
    components = sorted(dict.fromkeys(home.values()), key=lambda urn: order.depth_of(urn, home))
    ids |= {urn: f"c{place}" for place, urn in enumerate(components)}

    def box(urn: str) -> Box:
        names = tuple(graph[each].name for each in before if merged[each] == urn)
        kind = kind_of(graph[urn].type)
        return Box(ids[urn], kind, names, minutes.get(urn, 0.0), urn in minutes, order.depths[urn])

    groups = [
        _group(ids[component], graph[component], [box(urn) for urn in order.boxes if home[urn] == component])
        for component in components
    ]
    steps = {(step.urn, later.urn) for step, later in pairwise(path)}
    edges = {(*step, True) for step in steps} | {(*edge, False) for edge in order.edges(home, steps)}
    when = f"{'ready' if planned.starts_models else 'up'} in about {counted(round(startup.minutes), 'minute')}"
    way = ", ".join(f"{kind_of(graph[step.urn].type)} {graph[step.urn].name} {step.minutes:.1f}" for step in path)
    drawn = f"{counted(len(graph), 'resource')} ({len(before)} drawn in {counted(len(groups), 'component')})"
    return Diagram(
        title=f"{stack}: {drawn}, {when}",
        description=f"Startup path, in minutes: {way}.",
        groups=tuple(groups),
        edges=tuple(sorted(Edge(ids[first], ids[later], on_path) for first, later, on_path in edges)),
    )


def kind_of(token: str) -> str:
    """`ec2 Subnet` for `aws:ec2/subnet:Subnet`, `Namespace` for `kubernetes:core/v1:Namespace`."""
    package, module, kind = token.split(":")
    if package == "pulumi":
        return kind if token == STACK_TYPE else f"{kind} provider"
    area = module.split("/")[0].split(".")[0]
    return kind if area in ("index", "core") else f"{area} {kind}"


def _visible(graph: Graph, before: Before) -> dict[str, frozenset[str]]:
    """Without resources that only exist in Pulumi's state: what waits for one of these inherits what that waits for."""
    hidden = {urn for urn in before if graph[urn].type.startswith(IN_STATE_ALONE)}
    visible: dict[str, frozenset[str]] = {}
    for urn in TopologicalSorter(before).static_order():
        visible[urn] = _union(visible[earlier] if earlier in hidden else {earlier} for earlier in before[urn])
    return {urn: earlier for urn, earlier in sorted(visible.items()) if urn not in hidden}


def _merge(graph: Graph, before: Before, alone: Iterable[str]) -> dict[str, str]:
    """For each resource, the one that represents its box."""
    own = set(alone)
    merged = {urn: urn for urn in before}
    alike: dict[tuple[str, str], list[str]] = {}
    for urn in before:
        if urn not in own:
            alike.setdefault((_component(graph, urn), graph[urn].type), []).append(urn)
    for urns in alike.values():
        tried = merged | dict.fromkeys(urns, urns[0])
        if _is_ordered(_quotient(before, tried)):
            merged = tried
    return merged


def _quotient(before: Before, merged: Mapping[str, str]) -> dict[str, frozenset[str]]:
    boxes: dict[str, set[str]] = {box: set() for box in merged.values()}
    for urn, earlier in before.items():
        boxes[merged[urn]] |= {merged[each] for each in earlier} - {merged[urn]}
    return {box: frozenset(earlier) for box, earlier in boxes.items()}


def _is_ordered(before: Before) -> bool:
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


class _Order:
    """What waits for what, without edges that follow from others."""

    def __init__(self, before: Before) -> None:
        self._above: dict[str, frozenset[str]] = {}
        self._direct: dict[str, frozenset[str]] = {}
        self.depths: dict[str, int] = {}
        for urn in TopologicalSorter(before).static_order():
            earlier = before[urn]
            implied = _union(self._above[each] for each in earlier)
            self._above[urn] = implied | earlier
            self._direct[urn] = earlier - implied
            self.depths[urn] = 1 + max((self.depths[each] for each in earlier), default=-1)
        self.boxes = sorted(before)

    def depth_of(self, component: str, home: Mapping[str, str]) -> int:
        """How many components a component waits for, itself included."""
        return len({home[above] for urn in self.boxes if home[urn] == component for above in (urn, *self._above[urn])})

    def edges(self, home: Mapping[str, str], steps: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Within a component from box to box; from another component only to the whole one, unless `steps` imply it."""
        inside: set[tuple[str, str]] = set()
        across: set[tuple[str, str]] = set()
        for urn, earlier in self._direct.items():
            for each in earlier:
                (inside if home[each] == home[urn] else across).add((each, urn))
        entries = {(first, home[later]) for first, later in across | steps if home[first] != home[later]}
        implied = {(first, home[later]) for first, later in steps}
        for urn, component in entries:
            others = (other for other, entered in entries if entered == component)
            if any(urn in self._above[other] for other in others):
                implied.add((urn, component))
        return inside - steps | entries - implied


def _component(graph: Graph, urn: str) -> str:
    """The component of ours that a resource belongs to; the stack for one that belongs to none."""
    above = list(graph.ancestors(urn))
    return next((resource for resource in above if resource.type.startswith(OURS)), above[-1]).urn


def _group(id: str, component: Resource, boxes: Iterable[Box]) -> Group:
    ordered = tuple(sorted(boxes, key=lambda box: (box.depth, not box.on_path)))
    return Group(id, kind_of(component.type), component.name, ordered)


def _union(sets: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(chain.from_iterable(sets))
