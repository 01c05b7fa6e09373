"""Versions of programs, and the ranges that Pulumi.yaml requires."""

import re
from collections.abc import Callable
from typing import TypeAlias

Version: TypeAlias = tuple[int, int, int, int]
"""Major, minor, patch; then 0 for a version before its release (`-dev`), else 1."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?")
_COMPARATOR = re.compile(r"(>=|<=|!=|==|>|<|=|!)?\s*v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)\s*")
_HOLDS: dict[str, Callable[[Version, Version], bool]] = {
    ">=": lambda version, wanted: version >= wanted,
    "<=": lambda version, wanted: version <= wanted,
    ">": lambda version, wanted: version > wanted,
    "<": lambda version, wanted: version < wanted,
    "!=": lambda version, wanted: version != wanted,
    "!": lambda version, wanted: version != wanted,
    "==": lambda version, wanted: version == wanted,
    "=": lambda version, wanted: version == wanted,
    "": lambda version, wanted: version == wanted,
}


def version_in(text: str) -> Version | None:
    """The first version in the text, e.g. that of `aws-cli/2.15.30 Python/3.11.8`."""
    parts = _VERSION.search(text)
    if not parts:
        return None
    major, minor, patch, before = parts.groups()
    return int(major), int(minor), int(patch), 0 if before else 1


def shown(version: Version) -> str:
    """The usual notation."""
    return ".".join(map(str, version[:3]))


def satisfies(version: Version, wanted: str) -> bool:
    """Whether the version is in a range like `>=3.217.0 <4.0.0 || 5.0.0`; raises ValueError for other notations.

    The notation is that of blang/semver, with which Pulumi reads `requiredPulumiVersion`.
    """
    return any(_satisfies_all(version, part) for part in wanted.split("||"))


def _satisfies_all(version: Version, wanted: str) -> bool:
    rest, holds = wanted.strip(), True
    if not rest:
        raise ValueError(wanted)
    while rest:
        comparator = _COMPARATOR.match(rest)
        other = version_in(comparator.group(2)) if comparator else None
        if not comparator or not other:
            raise ValueError(wanted)
        holds = holds and _HOLDS[comparator.group(1) or ""](version, other)
        rest = rest[comparator.end() :]
    return holds
