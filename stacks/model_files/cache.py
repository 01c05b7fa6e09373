"""Descriptions of models that were read from elsewhere, kept in the user's cache, a file for each. No network."""

import hashlib
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from sharing.files import user_cache, write_whole
from sharing.printable import as_json
from stacks.model_files.description import MOST_JSON, Description

LONGEST_NAME = 200
"""Characters of a file's name; file systems allow 255 bytes."""


def home() -> Path:
    """The folder of the files."""
    return user_cache("models")


def place_of(key: str) -> Path:
    """The file for what `key` names: a model with its host and tag, or a URL, which may have a secret."""
    plain = quote(key, safe=":")
    is_long = len(plain) > LONGEST_NAME or "://" in key
    return home() / f"{hashlib.sha256(key.encode()).hexdigest() if is_long else plain}.json"


def load(key: str) -> Description | None:
    """The kept description; None if there is none, or none that can be read."""
    path = place_of(key)
    with suppress(OSError, ValidationError):
        if path.is_file():  # the reader of a pipe may wait for ever
            with path.open("rb") as file:
                return Description.model_validate_json(file.read(MOST_JSON))
    return None


def keep(key: str, description: Description) -> None:
    """Keeps the description. A folder that cannot be written is no error: the next run reads the model again."""
    path = place_of(key)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, as_json(description.as_dict()), mode=0o600)
