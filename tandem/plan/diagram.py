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
from tandem.dry_run.program import Planned
from tandem.terminal import count

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
    components = sorted(set(home.values()), key=lambda urn: (order.depth_of(urn, home), urn))
    ids |= {urn: f"c{place}" for place, urn in enumerate(components)}

    def box(urn: str) -> Box:
        names = tuple(graph[one].name for one in before if merged[one] == urn)
        kind = kind_of(graph[urn].type)
        return Box(ids[urn], kind, names, minutes.get(urn, 0.0), urn in minutes, order.depths[urn])

    groups = [_group(ids[one], graph[one], [box(urn) for urn in order.boxes if home[urn] == one]) for one in components]
    steps = {(one.urn, other.urn) for one, other in pairwise(path)}
    edges = {(one, other, True) for one, other in steps}
    edges |= {(one, other, False) for one, other in order.edges(home, steps)}
    when = f"{'ready' if planned.starts_models else 'up'} in about {count(round(startup.minutes), 'minute')}"
    way = ", ".join(f"{kind_of(graph[step.urn].type)} {graph[step.urn].name} {step.minutes:.1f}" for step in path)
    drawn = f"{count(len(graph), 'resource')} ({len(before)} drawn in {count(len(groups), 'component')})"
    return Diagram(
        title=f"{stack}: {drawn}, {when}",
        description=f"Startup path, in minutes: {way}.",
        groups=tuple(groups),
        edges=tuple(sorted(Edge(ids[one], ids[other], on_path) for one, other, on_path in edges)),
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
    seen: dict[str, frozenset[str]] = {}
    for urn in TopologicalSorter(before).static_order():
        seen[urn] = _union(seen[one] if one in hidden else {one} for one in before[urn])
    return {urn: ones for urn, ones in sorted(seen.items()) if urn not in hidden}


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
    for urn, ones in before.items():
        boxes[merged[urn]] |= {merged[one] for one in ones} - {merged[urn]}
    return {box: frozenset(ones) for box, ones in boxes.items()}


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
            ones = before[urn]
            implied = _union(self._above[one] for one in ones)
            self._above[urn] = implied | ones
            self._direct[urn] = ones - implied
            self.depths[urn] = 1 + max((self.depths[one] for one in ones), default=-1)
        self.boxes = sorted(before)

    def depth_of(self, component: str, home: Mapping[str, str]) -> tuple[int, float]:
        """How many components a component waits for, and the mean depth of its boxes."""
        own = [urn for urn in self.boxes if home[urn] == component]
        others = {home[one] for one in _union(self._above[urn] for urn in own)} - {component}
        return len(others), sum(self.depths[urn] for urn in own) / len(own)

    def edges(self, home: Mapping[str, str], steps: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Within a component from box to box; from another component only to the whole one, unless `steps` imply it."""
        inside: set[tuple[str, str]] = set()
        across: set[tuple[str, str]] = set()
        for urn, ones in self._direct.items():
            for one in ones:
                (inside if home[one] == home[urn] else across).add((one, urn))
        entries = {(one, home[other]) for one, other in across | steps if home[one] != home[other]}
        implied = {(one, home[other]) for one, other in steps}
        for one, component in entries:
            later = (other for other, entered in entries if entered == component)
            if any(one in self._above[other] for other in later):
                implied.add((one, component))
        return inside - steps | entries - implied


def _component(graph: Graph, urn: str) -> str:
    """The component of ours that a resource belongs to; the stack for one that belongs to none."""
    above = list(graph.ancestors(urn))
    return next((one for one in above if one.type.startswith(OURS)), above[-1]).urn


def _group(id: str, component: Resource, boxes: Iterable[Box]) -> Group:
    ordered = tuple(sorted(boxes, key=lambda box: (box.depth, not box.on_path, box.kind, box.names)))
    return Group(id, kind_of(component.type), component.name, ordered)


def _union(sets: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(chain.from_iterable(sets))
