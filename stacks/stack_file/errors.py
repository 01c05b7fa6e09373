"""What keeps a stack file from becoming a plan. Imports nothing, so that every command can afford to know it."""


class UnreadableError(Exception):
    """The file cannot be read as YAML at all; the message says why and what to do."""
