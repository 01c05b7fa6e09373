"""Versions of programs, and the ranges that Pulumi.yaml requires."""

import re

from semver import Version

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?")
_COMPARATOR = re.compile(r"(>=|<=|!=|==|>|<|=|!|)\s*v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)(?:\s+|$)")
_OPERATORS = {"": "==", "=": "==", "!": "!="}
"""Those of blang/semver that the library writes in another way."""


def version_in(text: str) -> Version | None:
    """The first version in the text, e.g. that of `aws-cli/2.15.30 Python/3.11.8`."""
    parts = _VERSION.search(text)
    if not parts:
        return None
    major, minor, patch, before = parts.groups()
    return Version(int(major), int(minor), int(patch), before)


def shown(version: Version) -> str:
    """The usual notation, without what follows a `-`."""
    return f"{version.major}.{version.minor}.{version.patch}"


def satisfies(version: Version, wanted: str) -> bool:
    """Whether the version is in a range like `>=3.217.0 <4.0.0 || 5.0.0`; raises ValueError for other notations.

    The notation is that of blang/semver, with which Pulumi reads `requiredPulumiVersion`.
    """
    return any(_satisfies_all(version, part.strip()) for part in wanted.split("||"))


def _satisfies_all(version: Version, wanted: str) -> bool:
    comparators = list(_COMPARATOR.finditer(wanted))
    if not wanted or "".join(each[0] for each in comparators) != wanted:
        raise ValueError(wanted)
    return all(version.match(_OPERATORS.get(each[1], each[1]) + each[2]) for each in comparators)
