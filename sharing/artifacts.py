"""Every container image and Helm chart that a stack can use, with the digest that its registry gave it.

A test checks that this table lacks no image and no chart (tests/program/test_artifacts.py). Images that EKS
itself installs are not listed: they are part of an add-on or of the AMI, from the registry of the region.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from sharing import tables

DOCKER_HUB = "docker.io"
"""Registry of images whose name has no host. Those without a folder, too, are in `library/`."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """An image or a chart in one version."""

    kind: str
    """`image` or `chart`."""
    name: str
    """Place of publication: registry and repository, or the chart repository and the chart's name."""
    version: str
    digest: str
    """Digest of the manifest, or of the package for a chart outside a registry; empty if unknown."""
    pinned_by: str
    """`digest` or `version`: how a stack refers to it. A version that is published again has other content."""
    charts: tuple[str, ...]
    """Names of the charts that use the image; empty if a stack or a command uses it directly."""
    compressed_mib: float
    """Download size on a GPU node; 0 if not measured, or if no GPU node pulls it."""
    source: str
    """Source of the digest."""

    @property
    def reference(self) -> str:
        """How a stack refers to it: by version and, if it is pinned so, by digest."""
        return f"{self.name}:{self.version}{f'@{self.digest}' if self.pinned_by == 'digest' else ''}"

    def copy_in(self, registry: str) -> str:
        """Its name in a registry that has a copy: `HOST/PREFIX/charts/NAME` for a chart."""
        if self.kind == "chart":
            return f"{registry}/charts/{self.name.rpartition('/')[2]}"
        return f"{registry}/{self.name.partition('/')[2]}"


@cache
def known() -> tuple[Artifact, ...]:
    """The whole table."""
    return tuple(
        Artifact(charts=tuple(row["charts"].split()), **tables.cells_of(row, Artifact))
        for row in tables.read("artifacts").rows
    )


def find(name: str) -> Artifact:
    """The artifact with this name; raises `KeyError` if the table has none."""
    return {artifact.name: artifact for artifact in known()}[name]


def name_of(reference: str) -> str:
    """The image without tag and digest, with its registry: `ollama/ollama:0.32` is `docker.io/ollama/ollama`.

    Source: distribution/reference v0.6.0, normalize.go, splitDockerDomain.
    """
    name = re.sub(r":[^/:]*$", "", reference.partition("@")[0])
    first, _, rest = name.partition("/")
    host, path = (first, rest) if rest and (first == "localhost" or re.search("[.:]", first)) else (DOCKER_HUB, name)
    return f"{host}/{path if host != DOCKER_HUB or '/' in path else f'library/{path}'}"


def redirect(reference: str, registry: str) -> str:
    """The same image in a registry that has a copy, by the same tag and digest: a copy keeps its digest."""
    version = re.search(r"(:[^/:@]+)?(@.*)?$", reference)
    assert version, "the pattern also matches nothing"
    return f"{registry}/{name_of(reference).partition('/')[2]}{version[0]}"


def redirect_chart(chart: str, registry: str) -> dict[str, Any]:
    """The chart's values with which its images come from a registry that has copies."""
    values: dict[str, Any] = {}
    for row in tables.read("chart_images").rows:
        if row["chart"] == chart:
            copy = redirect(row["image"], registry)
            # A value holds the registry and the repository, the same without its last part, or the registry alone.
            held = {"name": copy, "folder": copy.rpartition("/")[0], "registry": registry}
            *above, last = row["value"].split(".")
            place = values
            for key in above:
                place = place.setdefault(key, {})
            place[last] = held[row["holds"]]
    return values


def images_mib() -> float:
    """Size of the images that a new GPU node downloads before any model."""
    return sum(artifact.compressed_mib for artifact in known())
