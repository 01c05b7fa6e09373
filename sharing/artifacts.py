"""Every container image and Helm chart that a stack can use, with the digest that its registry gave it.

A test checks that this table lacks no image and no chart (tests/program/test_artifacts.py). Images that EKS
itself installs are not listed: they are part of an add-on or of the AMI, from the registry of the region.
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
        """The reference of a container to the image, by its digest."""
        return f"{self.name}:{self.version}@{self.digest}"


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


def images_mib() -> float:
    """Size of the images that a new GPU node downloads before any model."""
    return sum(artifact.compressed_mib for artifact in known())
