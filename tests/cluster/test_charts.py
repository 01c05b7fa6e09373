"""Helm renders the pinned charts with our values to the objects of `charts.py`; the API server accepts them.

Needs the charts' repositories, or `--charts FOLDER` with each chart's source folder in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.cluster.charts import Render, objects_of
from tests.cluster.deployment import CHARTS, Graphs, releases

NOT_OURS = frozenset(
    {
        "args",
        "command",
        "dnsPolicy",
        "enableServiceLinks",
        "env",
        "envFrom",
        "imagePullPolicy",
        "livenessProbe",
        "ports",
        "readinessProbe",
        "securityContext",
        "startupProbe",
        "volumeMounts",
    }
)
"""Fields that only a rendered pod or container may have: none of them affects admission or placement."""


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Differences between our objects and the chart's; the chart's may have more fields only if in `NOT_OURS`."""
    if path.endswith(".image"):
        if theirs.rpartition("/")[2] != ours.rpartition("/")[2]:
            yield f"{path}: {ours!r} here, {theirs!r} there"
    elif isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in ours:
            yield from differences(ours[key], theirs.get(key), f"{path}.{key}")
        if ".template.spec" in path and not path.endswith(".readinessProbe"):
            beyond = {key for key, value in theirs.items() if value} - ours.keys() - NOT_OURS
            yield from (f"{path}.{key} is there only" for key in sorted(beyond))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} here, {theirs!r} there"


def key(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def test_the_charts_make_of_our_values_what_is_written_here(render: Render, graphs: Graphs, any_stack: str) -> None:
    for release in releases(graphs(any_stack), *CHARTS):
        theirs = {key(one): one for one in render(release)}
        ours = {key(one): one for one in objects_of(release)}
        assert {name for name in theirs if name[0] in ("DaemonSet", "Deployment", "Job", "Pod")} == {
            name for name in ours if name[0] in ("DaemonSet", "Deployment")
        }
        shown = [f"{' '.join(name)} {one}" for name in ours for one in differences(ours[name], theirs.get(name))]
        assert not shown, "\n".join(shown)
