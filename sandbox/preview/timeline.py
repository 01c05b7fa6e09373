"""How long an `up` takes, and what it waits for: the waiting rules of SDK and engine over a graph.

- A resource waits for its dependencies, its provider, and what its `deleted_with` and `replace_with` name.
- A remote component is there when all that its provider registered below it is there.
- A local component is registered when its own dependencies are there; it takes no time. Its children wait for that.
- A child that the program puts below a custom resource or a remote component waits until that parent is there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from sandbox.graph import Graph, Resource, references

Minutes = Callable[[Resource], float]


@dataclass(frozen=True, slots=True)
class Step:
    """One resource in time. Minutes from the beginning of the `up`."""

    urn: str
    minutes: float
    start: float
    end: float
    waits_for: str | None
    """The resource whose end lets this one start; None for one that waits for nothing."""


class _Event(NamedTuple):
    """Beginning or end of a resource's creation."""

    urn: str
    is_end: bool


class _Moment(NamedTuple):
    time: float
    cause: str
    """URN of the custom resource whose end it is; "" for the very beginning."""


def schedule(graph: Graph, minutes: Minutes) -> Mapping[str, Step]:
    """When each custom resource starts and ends if nothing but other resources holds it up, by URN."""
    return _scheduled(graph, minutes)[0]


def longest_path(graph: Graph, minutes: Minutes, until: str | None = None) -> list[Step]:
    """The steps that decide when everything (or `until`, a resource or component) is there, first to last.

    Only custom resources are steps; components take no time. Of equally long paths, that with the smallest URNs.
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


def _scheduled(graph: Graph, minutes: Minutes) -> tuple[dict[str, Step], dict[_Event, _Moment]]:
    waits = {event: sorted(before) for resource in graph for event, before in _waits(graph, resource)}
    try:
        order = list(TopologicalSorter(waits).static_order())
    except CycleError as error:
        raise AssertionError(f"a graph that was registered cannot wait for itself: {error.args[1]}") from error
    steps: dict[str, Step] = {}
    moments: dict[_Event, _Moment] = {}
    for event in order:
        # The latest moment; of equal ones the first, but any that has a cause before those that have none.
        moment = min(
            (moments[before] for before in waits[event]),
            key=lambda one: (-one.time, not one.cause),
            default=_Moment(0.0, ""),
        )
        resource = graph[event.urn]
        if event.is_end and resource.custom:
            length = minutes(resource)
            assert length >= 0, f"{event.urn} takes {length} minutes"
            # Rounded, or the noise of adding floats would decide between equal paths.
            end = round(moment.time + length, 9)
            steps[event.urn] = Step(event.urn, length, moment.time, end, moment.cause or None)
            moment = _Moment(end, event.urn)
        moments[event] = moment
    return dict(sorted(steps.items())), moments


def _waits(graph: Graph, resource: Resource) -> Iterator[tuple[_Event, set[_Event]]]:
    """What a resource's beginning and its end come after."""
    provider = graph.effective_options(resource.urn).get("provider", "")
    # Resources among the inputs of a remote component are not in its dependencies, but the SDK waits for them.
    named = {*resource.dependencies, *references(resource.inputs), *resource.providers.values(), provider}
    # Not the inherited deletedWith: the engine adds that one without waiting.
    named |= {resource.options.get("deletedWith", ""), *resource.options.get("replaceWith", ())}
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
