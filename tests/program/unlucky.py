"""Whole stacks in the emulated cloud without the engine, created and deleted in any order that the engine may take."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation
from sandbox.graph import IN_STATE_ALONE, Graph, Resource, plain
from sandbox.preview.program import run
from sandbox.world import CloudError, IncompleteError, World
from sharing.names import PROJECT
from stacks.deploy import deploy
from tests.program.conftest import judge_with, plan_of, read_variants

EXTRA = read_variants("emulated")
"""Stacks besides those of `conftest.py`."""
Needs = Mapping[str, frozenset[str]]
"""The resources that must outlive a resource, by URNs."""


class WorldCloud(Cloud):
    """Creates resources in an emulated world, in this process."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def created(self, creation: Creation) -> Created:
        if creation.type.startswith(IN_STATE_ALONE):
            return super().created(creation)
        inputs = self.world.check(creation.type, creation.name, dict(creation.inputs), None)
        identity, outputs = self.world.create(creation.type, creation.name, inputs, dict(creation.provider))
        return Created(identity, outputs)


def up(variant: str, world: World) -> Graph:
    plan = judge_with(*EXTRA[variant]).plan() if variant in EXTRA else plan_of(variant)
    return run(lambda: deploy(plan), project=PROJECT, stack=plan.stack, preview=False, cloud=WorldCloud(world))


def cloud_resources(graph: Graph) -> list[Resource]:
    return [
        resource
        for resource in graph
        if resource.custom and resource.id and not resource.type.startswith(IN_STATE_ALONE)
    ]


def down(graph: Graph, world: World, needs: Needs, ids: Mapping[str, str], first: Collection[str] = ()) -> None:
    """Deletes in an order that the engine may take: only unneeded resources, and `first` as early as possible."""
    left = {resource.urn: resource for resource in cloud_resources(graph)}
    above = needed_by(needs)
    for wanted in (first, list(left)):
        while todo := [urn for urn in wanted if urn in left]:
            free = [urn for urn in todo if above.get(urn, frozenset()).isdisjoint(left)]
            assert free, todo
            for urn in free:
                world.delete(left[urn].type, ids[urn])
                del left[urn]


def again(graph: Graph, world: World, needs: Needs, last: str) -> dict[str, str]:
    """Creates everything again, with `last` and its dependents as late as the dependencies allow; new ids by URN.

    Resources that also wait in a real `up`, such as pods without a node, are tried again after others exist.
    """
    left = {resource.urn: resource for resource in cloud_resources(graph)}
    ids: dict[str, str] = {}
    renamed: dict[str, str] = {}
    held = {last}
    unfinished: list[tuple[str, dict[str, Any]]] = []
    while left:
        before = len(left)
        for urn in [one for one in left if one not in held and not left.keys() & needs[one]]:
            one = left[urn]
            inputs, provider = (_renamed(plain(values), renamed) for values in (one.inputs, _provider(graph, one)))
            try:
                ids[urn], outputs = world.create(one.type, one.name, inputs, provider)
            except IncompleteError as error:
                # Unfinished Kubernetes objects may still succeed; a failed node group or add-on stays failed.
                if one.type.startswith("aws:"):
                    raise
                ids[urn], outputs = error.id, error.outputs
                unfinished.append((urn, inputs))
            except CloudError as error:
                if error.code != "Timeout":
                    raise
                continue
            _pair({"id": one.id, **plain(one.outputs)}, {"id": ids[urn], **outputs}, renamed)
            del left[urn]
        if len(left) == before:
            assert held, f"nothing lets these come: {list(left)}"
            held = set()
    for urn, inputs in unfinished:
        world.update(graph[urn].type, ids[urn], inputs)
    return ids


def _provider(graph: Graph, resource: Resource) -> dict[str, Any]:
    urn = graph.effective_provider(resource.urn)
    return {key: plain(value) for key, value in graph[urn].inputs.items()} if urn else {}


def _pair(old: Any, new: Any, renamed: dict[str, str]) -> None:
    """Notes which texts differ this time."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            _pair(old[key], new[key], renamed)
    elif isinstance(old, list) and isinstance(new, list):
        for one, other in zip(old, new, strict=False):
            _pair(one, other, renamed)
    elif isinstance(old, str) and isinstance(new, str) and old != new:
        renamed[old] = new


def _renamed(values: Any, renamed: Mapping[str, str]) -> Any:
    text = json.dumps(values)
    for old in sorted(renamed, key=len, reverse=True):
        text = text.replace(old, renamed[old])
    return json.loads(text)


def all_needed(graph: Graph) -> Needs:
    return {resource.urn: needed(graph, resource) for resource in cloud_resources(graph)}


def needed_by(needs: Needs) -> dict[str, set[str]]:
    """The resources that are deleted before each resource, by URNs."""
    found: dict[str, set[str]] = {}
    for urn, below in needs.items():
        for one in below:
            found.setdefault(one, set()).add(urn)
    return found


def needed(graph: Graph, resource: Resource) -> frozenset[str]:
    """The resources that outlive a resource: its dependencies and those of its parent components, with their parts."""
    named = {*resource.dependencies, graph.effective_provider(resource.urn)} - {""}
    for above in graph.ancestors(resource.urn):
        named |= {*above.dependencies, *([above.urn] if above.custom else [])}
    for urn in list(named):
        named |= {below.urn for below in graph.descendants(urn)} if graph[urn].remote else set()
        if graph[urn].type.startswith("pulumi:providers:"):
            named |= needed(graph, graph[urn])
    return frozenset(named - {resource.urn})
