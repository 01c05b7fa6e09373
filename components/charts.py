"""Helm charts: where they come from, how a caller's values are merged, and how they are released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

TIMEOUT_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A Helm chart, its version and its repository."""

    name: str
    version: str
    repository: str


def merge_values(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Merges `theirs` over `ours` like Helm: mappings by key, while lists and other values are replaced."""
    merged = dict(ours)
    for key, value in theirs.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            value = merge_values(inner, value)
        merged[key] = value
    return merged


def release_chart(
    name: str,
    chart: Chart,
    values: Mapping[str, Any],
    *,
    named: str,
    namespace: pulumi.Input[str],
    parent: pulumi.Resource,
    needs: Sequence[pulumi.Resource] = (),
) -> k8s.helm.v3.Release:
    """Registers a release called `named`. Its deletion waits for its objects. If its installation fails, it is removed,
    and if an upgrade fails, the last version comes back.
    """
    in_registry = chart.repository.startswith("oci://")
    return k8s.helm.v3.Release(
        name,
        name=named,
        namespace=namespace,
        chart=f"{chart.repository}/{chart.name}" if in_registry else chart.name,
        version=chart.version,
        repository_opts=None if in_registry else k8s.helm.v3.RepositoryOptsArgs(repo=chart.repository),
        values=values,
        atomic=True,
        timeout=TIMEOUT_SECONDS,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[*needs]),
    )
