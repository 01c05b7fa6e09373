"""Helm renders the charts with the values for a private registry: every image of a pod and of an operand is there.

Needs the charts' repositories, or `--charts FOLDER` with each chart's source folder in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sandbox.graph import plain
from tests.cluster.charts import Render
from tests.cluster.deployment import RELEASE
from tests.program.conftest import graph_of, graph_with

REGISTRY = "registry.example.com/tandem"
STACKS = ("timeslice", "mig", "monitored", "karpenter-idle")
"""Together, they have every chart (tests/program/test_artifacts.py)."""
OPERANDS = ("validator", "devicePlugin", "gfd", "migManager", "dcgmExporter")
"""Operands that run without virtual machines (gpu-operator v26.7.0 controllers/state_manager.go, isStateEnabled)."""


def images(value: Any) -> Iterator[str]:
    """The images of all containers in an object, and those of the operands in the operator's own object."""
    if isinstance(value, list):
        for inner in value:
            yield from images(inner)
    elif isinstance(value, Mapping):
        if isinstance(image := value.get("image"), str) and "name" in value:
            yield image
        for key, inner in value.items():
            if key in OPERANDS and isinstance(inner, Mapping) and "repository" in inner:
                yield f"{inner['repository']}/{inner['image']}:{inner['version']}"
            yield from images(inner)


@pytest.mark.parametrize("stack", STACKS)
def test_every_rendered_image_is_at_the_registry(render: Render, stack: str) -> None:
    private = {each.urn: plain(each.inputs) for each in graph_with(stack, {"registry": REGISTRY}).of_type(RELEASE)}
    for release in graph_of(stack).of_type(RELEASE):
        public, values = plain(release.inputs), private[release.urn].get("values") or {}
        found = {image for one in render({**public, "values": values}) for image in images(one)}
        assert found or public["chart"].endswith("karpenter-crd")
        assert [image for image in found if not image.startswith(f"{REGISTRY}/")] == []
