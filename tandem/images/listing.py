"""The images and charts that a stack deploys, from the program's own resources and the table of artifacts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sandbox.graph import plain
from sharing import artifacts
from sharing.artifacts import Artifact
from stacks.stack_file.judge import Plan
from tandem.dry_run.program import program_graph
from tandem.dry_run.startup import RELEASE

OVERFILL = "tandem verify --overfill"
PAUSE = "registry.k8s.io/pause"


def list_artifacts(plan: Plan) -> dict[Artifact, list[str]]:
    """Everything that nodes and Pulumi pull for the stack, images first, with what uses it; nothing for a chart.

    Raises `KeyError` for an image or a chart that the table lacks.
    """
    used: dict[Artifact, set[str]] = {}
    for artifact, user in _uses(plan):
        used.setdefault(artifact, set()).update([user] if user else [])
    order = sorted(used, key=lambda one: (one.kind != "image", one.name))
    return {artifact: sorted(used[artifact]) for artifact in order}


def _uses(plan: Plan) -> Iterator[tuple[Artifact, str]]:
    yield artifacts.find(PAUSE), OVERFILL
    graph = program_graph(replace(plan, config=plan.config.changed(registry=None)))
    for resource in graph:
        if not resource.type.startswith("kubernetes:"):
            continue
        inputs = plain(resource.inputs)
        for reference in _references(inputs):
            yield artifacts.find(artifacts.name_of(reference)), graph[resource.parent].type.rpartition(":")[2]
        if resource.type == RELEASE:
            repository, chart = (inputs.get("repositoryOpts") or {}).get("repo"), inputs["chart"]
            yield artifacts.find(f"{repository}/{chart}" if repository else chart), ""
            name = chart.rpartition("/")[2]
            yield from ((image, f"chart {name}") for image in artifacts.known() if name in image.charts)


def _references(value: Any) -> Iterator[str]:
    """The images of all containers in a value."""
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _references(inner)
    if isinstance(value, Mapping) and isinstance(value.get("image"), str):
        yield value["image"]
