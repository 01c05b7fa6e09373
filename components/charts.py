"""Helm charts: where they come from, how a caller's values are merged, and how they are released."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from sharing.problems import did_you_mean

RELEASE = "kubernetes:helm.sh/v3:Release"
TIMEOUT_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A Helm chart, its version and its repository."""

    name: str
    version: str
    repository: str


def check_charts(args: Any, charts: Collection[str]) -> None:
    """Raises `ValueError` if `args` have values for a chart that is none of these."""
    for chart in args.values:
        if chart not in charts:
            fix = did_you_mean(chart, charts)
            raise ValueError(f"{type(args).__name__}.values has an unknown chart {chart!r}. {fix}")


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
    needs: Sequence[pulumi.Resource],
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
