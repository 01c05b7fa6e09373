"""Invented identifiers: they look like the real ones and depend on a resource's type and name alone."""

import hashlib

ACCOUNT = "123456789012"
SUFFIX = "0000000"
"""Stands for the random characters that providers append to a name that they make up."""


def digest(*parts: str, length: int = 17) -> str:
    """Hexadecimal digits, always the same for the same parts; 17 is the length of EC2's ids."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:length]


def autonamed(logical: str, given: str | None) -> str:
    """The given name, or the logical one with a suffix, as providers do."""
    return given or f"{logical}-{SUFFIX}"
