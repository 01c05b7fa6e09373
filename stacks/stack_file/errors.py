"""Errors of stack files. Imports nothing, so that it is cheap for every command."""


class UnreadableError(Exception):
    """The file is not readable as YAML; the message has the reason and the fix."""
