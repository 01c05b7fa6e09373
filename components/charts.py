"""Helm charts: where they come from, and how a caller's values are merged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
