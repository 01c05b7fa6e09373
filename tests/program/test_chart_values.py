"""Every value that we give a chart exists there, with that type: a chart without a schema ignores misspelt keys."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.graph import Graph, Resource

CHARTS = Path(__file__).resolve().parent.parent / "charts"
CONDITIONS = {"nvidia-device-plugin": {"nfd.enabled": "bool"}}
"""Keys that only `condition` in a chart's Chart.yaml reads, of charts whose values.yaml does not list them."""
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "map": (dict,),
    "object": (dict,),
}


def keys(chart: str, version: str) -> dict[str, str]:
    loaded = json.loads((CHARTS / f"{chart}-{version}.keys.json").read_text(encoding="utf-8"))
    assert (loaded["chart"], loaded["version"]) == (chart, version)
    return {**loaded["keys"], **CONDITIONS.get(chart, {})}


def unknown(values: dict[str, Any], known: dict[str, str], prefix: str = "") -> Iterator[str]:
    """Paths that the chart does not have, or has with another type."""
    for key, value in values.items():
        path = prefix + key.replace(".", "\\.")
        kind = known.get(path)
        if kind is None:
            yield path
        elif kind in TYPES and (not isinstance(value, TYPES[kind]) or (kind == "int" and isinstance(value, bool))):
            yield f"{path}: {value!r} is no {kind}"
        elif kind == "object" and isinstance(value, dict):
            yield from unknown(value, known, f"{path}.")


def chart(release: Resource) -> str:
    """The chart's name, without its registry."""
    return str(release.inputs["chart"]).rpartition("/")[2]


def releases(graph: Graph) -> tuple[Resource, ...]:
    return graph.of_type("kubernetes:helm.sh/v3:Release")


@pytest.mark.slow
def test_every_value_exists_in_its_chart_with_its_type(graphs: Callable[[str], Graph], any_stack: str) -> None:
    found = releases(graphs(any_stack))
    assert found
    for release in found:
        known = keys(chart(release), release.inputs["version"])
        assert not list(unknown(release.inputs.get("values") or {}, known)), release.name


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="Node feature discovery runs once in a cluster; two of them fight over the labels of the nodes.",
    source="nvidia-device-plugin chart 0.20.0, Chart.yaml (condition nfd.enabled,gfd.enabled); "
    "gpu-operator chart v26.7.0, Chart.yaml (condition nfd.enabled)",
)
def test_feature_discovery_is_one_release_in_the_version_that_both_charts_bring_along(
    graphs: Callable[[str], Graph], any_stack: str
) -> None:
    found = {release.name: release.inputs for release in releases(graphs(any_stack))}
    own = found.pop("tandem-sharing-discovery")
    assert (own["chart"].rpartition("/")[2], own["version"]) == ("node-feature-discovery", "0.19.0")
    for inputs in found.values():
        if inputs["chart"] in ("nvidia-device-plugin", "gpu-operator"):
            assert inputs["values"]["nfd"] == {"enabled": False}
            assert inputs["values"]["gfd"] == {"enabled": True}
