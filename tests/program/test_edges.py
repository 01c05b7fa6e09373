"""Every explicit `depends_on` prevents a failure: without it, the worst order of the others fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sandbox.graph import Graph, Resource
from sandbox.world import CloudError
from sharing.names import TOKEN
from tests.program.unlucky import again, all_needed, cloud_resources, down, up
from tests.sandbox.outside import Outside

pytestmark = pytest.mark.slow

VARIANTS = (
    *("everything", "karpenter-volumes", "karpenter-idle", "karpenter-scheduled"),
    *("scheduled", "ui", "monitored"),
)
TABLE: dict[str, dict[str, str]] = yaml.safe_load((Path(__file__).parent / "edges.yaml").read_text(encoding="utf-8"))

Edge = tuple[Resource, str, frozenset[str]]
"""The waiting resource, its target's name, and the target's URNs: a component stands for all its resources."""


def explicit(graph: Graph) -> Iterator[Edge]:
    """The edges of the program's own resources that do not follow from the data."""
    for one in graph:
        if one.constructed:
            continue
        shown = {urn for urns in one.property_dependencies.values() for urn in urns}
        left = set(one.dependencies) - shown
        while left:
            target = graph[min(left)]
            component = graph[target.parent]
            whole = {child.urn for child in graph.children(component.urn) if child.custom}
            own = component.type.startswith(TOKEN.format("")) and component not in graph.ancestors(one.urn)
            urns = whole if own and whole <= left else {target.urn}
            yield one, component.name if urns is whole else target.name, frozenset(urns)
            left -= urns


def failures(graph: Graph, edge: Edge, made: Outside) -> list[str]:
    """The failures without the edge: `destroy` deletes its target first, or `up` creates it last."""
    dependent, _, urns = edge
    kept = tuple(urn for urn in dependent.dependencies if urn not in urns)
    needs = all_needed(Graph({**graph.resources, dependent.urn: replace(dependent, dependencies=kept)}))
    ids = {one.urn: one.id for one in cloud_resources(graph)}
    found = []
    for urn in urns & set(ids):
        before = {urn}
        while more := {one for one in needs if before & needs[one]} - before:
            before |= more
        world = made.copied()
        try:
            down(graph, world, needs, ids, before)
            found += [f"left over: {one.key}" for one in world.leftovers([])]
        except CloudError as error:
            found.append(str(error))
        try:
            again(graph, Outside(patience=0.0), needs, urn)
        except CloudError as error:
            found.append(str(error))
    return found


def test_without_an_explicit_dependency_something_fails() -> None:
    prevented: dict[str, str] = {}
    harmless = set()
    for variant in VARIANTS:
        made = Outside(patience=0.0)
        graph = up(variant, made)
        for edge in explicit(graph):
            name, met = f"{edge[0].name} after {edge[1]}", failures(graph, edge, made)
            if met:
                prevented.setdefault(name, met[0].partition(":")[0])
            else:
                harmless.add(name)
    assert prevented == TABLE["prevented"]
    assert harmless - set(prevented) == set(TABLE["harmless"])
