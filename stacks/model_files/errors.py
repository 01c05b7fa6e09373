"""Errors of models that cannot be described. Cheap to import, for every command."""

from sharing.printable import without_secrets


class UnreadableModelError(Exception):
    """A file, a URL, a registry or a server without a description of a model."""

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = without_secrets(what), fix
        super().__init__(f"{self.what}. {fix}")
        """What is wrong, and how to mend it, as sentences."""


class MissingFileError(UnreadableModelError):
    """There is no file that can be read."""


class UnknownModelError(UnreadableModelError):
    """A registry that does not have the model."""


class ContentError(UnreadableModelError):
    """A file that is no GGUF file, or a broken one."""
