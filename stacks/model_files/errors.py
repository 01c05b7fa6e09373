"""Errors of models that cannot be described. Imports nothing, so that it is cheap for every command."""


class UnreadableModelError(Exception):
    """A file, a URL, a registry or a server without a description of a model."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. {fix}")
        self.what, self.fix = what, fix
        """What is wrong, and how to mend it, as sentences."""


class MissingFileError(UnreadableModelError):
    """There is no file that can be read."""
