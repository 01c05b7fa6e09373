"""What all Helm charts have in common: where they come from, and values that a caller adds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart and where it comes from."""

    name: str
    version: str
    repository: str


def merge_values(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """`theirs` over `ours`, as Helm merges several value files: mappings key by key, lists and all else replaced."""
    merged = dict(ours)
    for key, value in theirs.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            value = merge_values(inner, value)
        merged[key] = value
    return merged
