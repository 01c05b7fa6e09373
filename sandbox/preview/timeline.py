"""The timeline of an `up`: the waiting rules of SDK and engine, applied to a graph.

- A resource waits for its dependencies and its provider.
- A remote component is complete when every descendant that its provider registered is created.
- A local component is registered when its own dependencies are created. It takes no time, and its children wait for it.
- A child of a custom resource or a remote component in the program waits until its parent is complete.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from sandbox.graph import Graph, Resource, references

Minutes = Callable[[Resource], float]


@dataclass(frozen=True, slots=True)
class Step:
    """The creation of one resource. Times are minutes from the start of the `up`."""

    urn: str
    minutes: float
    start: float
    end: float
    waits_for: str | None
    """The resource that this one waits for last. None if it waits for nothing."""


class _Event(NamedTuple):
    """Start or end of a resource's creation."""

    urn: str
    is_end: bool


class _Moment(NamedTuple):
    time: float
    cause: str
    """URN of the custom resource that ends at this moment; "" for the start of the `up`."""


def longest_path(graph: Graph, minutes: Minutes, until: str | None = None) -> list[Step]:
    """The steps of the critical path to the end of the `up`, or to `until`, a resource or component.

    Only custom resources are steps, because components take no time. Of equally long paths, the smallest URNs win.
    Raises KeyError for an unknown `until`.
    """
    steps, moments = _scheduled(graph, minutes)
    if until is None:
        last = max(steps.values(), key=lambda step: step.end).urn if steps else ""
    else:
        last = moments[_Event(until, True)].cause
    path: list[Step] = []
    while last:
        path.append(steps[last])
        last = steps[last].waits_for or ""
    return path[::-1]


def waits(graph: Graph) -> Mapping[str, frozenset[str]]:
    """For each custom resource the custom resources that it waits for, directly or through components, by URN."""
    before = {event: earlier for resource in graph for event, earlier in _waits(graph, resource)}
    causes: dict[_Event, frozenset[str]] = {}
    for event in TopologicalSorter(before).static_order():
        causes[event] = frozenset().union(
            *(
                {earlier.urn} if earlier.is_end and graph[earlier.urn].custom else causes[earlier]
                for earlier in before[event]
            )
        )
    return {resource.urn: causes[_Event(resource.urn, True)] for resource in graph if resource.custom}


def _scheduled(graph: Graph, minutes: Minutes) -> tuple[dict[str, Step], dict[_Event, _Moment]]:
    waits = {event: sorted(before) for resource in graph for event, before in _waits(graph, resource)}
    try:
        order = list(TopologicalSorter(waits).static_order())
    except CycleError as error:
        raise AssertionError(f"a registered graph cannot have a cycle: {error.args[1]}") from error
    steps: dict[str, Step] = {}
    moments: dict[_Event, _Moment] = {}
    for event in order:
        # The latest moment. Of equal moments, one with a cause is preferred, and then the first.
        moment = min(
            (moments[before] for before in waits[event]),
            key=lambda one: (-one.time, not one.cause),
            default=_Moment(0.0, ""),
        )
        resource = graph[event.urn]
        if event.is_end and resource.custom:
            length = minutes(resource)
            assert length >= 0, f"{event.urn} takes {length} minutes"
            # Rounded, so that floating-point errors do not decide between equal paths.
            end = round(moment.time + length, 9)
            steps[event.urn] = Step(event.urn, length, moment.time, end, moment.cause or None)
            moment = _Moment(end, event.urn)
        moments[event] = moment
    return dict(sorted(steps.items())), moments


def _waits(graph: Graph, resource: Resource) -> Iterator[tuple[_Event, set[_Event]]]:
    """The events that must precede the start and the end of a resource."""
    provider = graph.effective_provider(resource.urn)
    # The SDK also waits for resources in the inputs of a remote component, which are not in its dependencies.
    named = {*resource.dependencies, *references(resource.inputs), *resource.providers.values(), provider}
    begin = {_Event(urn, True) for urn in named - {""}}
    if resource.parent:
        parent = graph[resource.parent]
        is_below_finished = parent.custom or (parent.remote and not resource.constructed)
        begin.add(_Event(parent.urn, is_below_finished))
    yield _Event(resource.urn, False), begin
    end = {_Event(resource.urn, False)}
    if resource.remote:
        end |= {_Event(below.urn, True) for below in graph.descendants(resource.urn) if below.constructed}
    yield _Event(resource.urn, True), end
