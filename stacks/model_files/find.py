"""Finds the model behind a name or a file, for every command and for programs of your own: one way for all."""

import codecs
import re
from pathlib import Path

from pydantic import ValidationError

from sharing.models.catalogue import Model, find, models, nearest_names
from sharing.problems import foreign_letters, near
from stacks.model_files import cache, gguf_file
from stacks.model_files.description import MOST_JSON, Description, first_of
from stacks.model_files.errors import MissingFileError, UnreadableModelError

STACK_FOLDER = "TANDEM_STACK_FOLDER"
"""Variable that `tandem sandbox` sets for its `pulumi`: the folder of the user's stack file."""
URL = re.compile("https?:/", re.IGNORECASE)
NEW_DESCRIPTION = "Write it again with `tandem models inspect NAME --write FILE.json`."


def find_model(name: str, gguf: str | Path | None = None, *, folder: Path | None = None) -> Model:
    """The model that Ollama serves for `name`, e.g. `find_model("hf.co/bartowski/Qwen2.5-7B-Instruct-GGUF:Q8_0")`.

    `gguf` describes a model that no registry has: a GGUF file, its URL, or the JSON that `tandem models inspect`
    writes. `folder` is that of a relative path, the current one by default. Without `gguf`, the catalogue answers
    first, then what earlier calls have kept, then the registry. Raises `UnreadableModelError`, whose text has the fix.
    """
    return describe_place(str(gguf), folder).named(name) if gguf else find(name) or describe_name(name).named(name)


def describe_name(name: str) -> Description:
    """The description of a model outside the catalogue: as it was kept, or else from its registry."""
    from stacks.model_files.registry import Reference, read_name

    return cache.load(key := str(Reference.of(name))) or _kept(key, read_name(name))


def describe_place(place: str, folder: Path | None = None) -> Description:
    """The description in a file or at a URL. Raises `UnreadableModelError`."""
    if is_url(place):
        return cache.load(place) or _kept(place, _describe_url(place))
    path = (folder or Path()) / Path(place).expanduser()
    gguf_file.refuse_special(path, place := gguf_file.label(place))
    try:
        with path.open("rb") as file:
            start = file.read(MOST_JSON + 1)
    except (OSError, ValueError) as error:  # `ValueError` for a path with a null character
        reason = error.strerror if isinstance(error, OSError) else "no file has that name"
        raise MissingFileError(f"{place} cannot be read ({reason})", "Write the path of a file.") from None
    start = start.removeprefix(codecs.BOM_UTF8)
    if start.lstrip()[:1] == b"{" or path.suffix == ".json":
        return _read_json(place, start)
    from stacks.model_files.registry import describe

    return Description.of(describe(place, gguf_file.read(path)))


def suggest(name: str) -> str:
    """The names of the catalogue that `name` probably means, and letters that only look like ASCII; else empty."""
    return f"{nearest_names(name)} " if near(name, models()) or foreign_letters(name) else ""


def is_url(place: str) -> bool:
    """Whether `place` is an address, and not a path."""
    return bool(URL.match(place))


def _describe_url(url: str) -> Description:
    from stacks.model_files.registry import describe
    from stacks.model_files.web import read_url, shown

    return Description.of(describe(shown(url), read_url(url)))


def _kept(key: str, description: Description) -> Description:
    cache.keep(key, description)
    return description


def _read_json(place: str, content: bytes) -> Description:
    if len(content) > MOST_JSON:
        what = f"{place} has more than {MOST_JSON // 1024} KiB, the limit for a description"
        raise UnreadableModelError(what, NEW_DESCRIPTION)
    try:
        return Description.model_validate_json(content)
    except ValidationError as error:
        what = f"{place} does not describe a model ({first_of(error)})"
        raise UnreadableModelError(what, "Update tandem." if _is_newer(error) else NEW_DESCRIPTION) from None


def _is_newer(error: ValidationError) -> bool:
    return any(each["loc"] == ("schema_version",) and each["type"] == "less_than_equal" for each in error.errors())
