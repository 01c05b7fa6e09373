"""Generated identifiers. They look like real ones, and only depend on a resource's type and name."""

import hashlib

ACCOUNT = "123456789012"
SUFFIX = "0000000"
"""Placeholder for the random characters that providers append to a generated name."""


def digest(*parts: str, length: int = 17) -> str:
    """Hexadecimal digits, always the same for the same parts. EC2's ids have 17."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:length]


def autonamed(logical: str, given: str | None) -> str:
    """The given name, or the logical name with a suffix."""
    return given or f"{logical}-{SUFFIX}"
