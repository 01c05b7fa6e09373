"""Every container image and Helm chart that a stack can use, with the digest that its registry gave it.

A test finds no image and no chart outside this table (tests/program/test_artifacts.py). Not in it: what EKS itself
installs, which comes as a build of an add-on or of the AMI from the region's own registry.
"""

from dataclasses import dataclass
from functools import cache

from sharing import tables


@dataclass(frozen=True, slots=True)
class Artifact:
    """An image or a chart in one version."""

    kind: str
    """`image` or `chart`."""
    name: str
    """Where it is published: registry and repository, or the chart repository and the chart's name."""
    version: str
    digest: str
    """Of an image or a chart in a registry: of its manifest. Of another chart: of its package. Empty where unknown."""
    pinned_by: str
    """`digest` or `version`: what a stack names. A version that is published again brings other content."""
    charts: tuple[str, ...]
    """Names of the charts that start the image; none where a stack or a command names it itself."""
    compressed_mib: float
    """What a GPU node downloads of it; 0 where nobody measured, or where no GPU node pulls it."""
    source: str
    """Where the digest was read."""

    @property
    def reference(self) -> str:
        """As a container names the image, by its digest."""
        return f"{self.name}:{self.version}@{self.digest}"


@cache
def known() -> tuple[Artifact, ...]:
    """The whole table."""
    return tuple(
        Artifact(charts=tuple(row["charts"].split()), **tables.cells_of(row, Artifact))
        for row in tables.read("artifacts").rows
    )


def find(name: str) -> Artifact:
    """The artifact with this name; raises `KeyError` where the table has none."""
    return {artifact.name: artifact for artifact in known()}[name]


def images_mib() -> float:
    """What a new GPU node downloads before any model."""
    return sum(artifact.compressed_mib for artifact in known())
