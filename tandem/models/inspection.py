"""`tandem models inspect`: describes a model outside the catalogue, and writes it to a stack file."""

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sharing.models.catalogue import Model, find
from sharing.models.metadata import UnclearModelError, derive_model
from sharing.models.served import MODEL_NAME
from sharing.printable import address, printable
from stacks.stack_file.custom_models import own_keys
from stacks.stack_file.edit import describe_model
from stacks.stack_file.yaml import as_yaml
from tandem.deployed.endpoints import Endpoint, wrong_with
from tandem.deployed.ollama import Ollama
from tandem.lookup import existing
from tandem.models.from_ollama import read_tag
from tandem.models.gguf_file import Contents, UnreadableModelError, read
from tandem.models.gguf_url import read_url, shown
from tandem.terminal import FINE, CallError, print_json, say, short, status

SCHEMA_VERSION = 1
UNNAMED = "NAME"
"""The placeholder for the tag of a model read from a file."""
PROJECTOR = "clip"
"""`general.architecture` of a projector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A model's description for a stack file."""

    model: Model
    own: Mapping[str, object]
    """Its own-model keys."""
    notes: tuple[str, ...]
    """Remarks: inexact values, or values that are not needed."""


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    name = _name(parsed)
    file = existing(parsed.write) if parsed.write else None
    with status(f"Reading {address(parsed.model)[:60]}", quiet=parsed.json):
        description = _describe(parsed, name)
    count = describe_model(file, name, description.own) if file else 0
    if parsed.json:
        print_json(as_dict(description, file))
    else:
        show(description, parsed, file, count)
    return FINE


def as_dict(description: Description, file: Path | None) -> dict[str, Any]:
    """The description for `--json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": asdict(description.model),
        "own_model_keys": dict(description.own),
        "notes": list(description.notes),
        "written": str(file) if file else None,
    }


def show(description: Description, parsed: argparse.Namespace, file: Path | None, count: int) -> None:
    """The keys for a stack file, and remarks."""
    from rich.text import Text

    from tandem.terminal import open_console

    console = open_console()
    model = description.model
    settings = {"name": model.name, **description.own}
    lines = [f"{'- ' if key == 'name' else '  '}{key}: {as_yaml(value)}" for key, value in settings.items()]
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    for note in description.notes:
        say(console, f"warning: {note}")
    if file:
        entries = "the model" if count == 1 else f"{count} models"
        done = f"{file.name} describes {entries}. Run `tandem plan {parsed.write}`."
    else:
        done = "Add these lines to `tandem:models`, or run the command again with `--write STACK`."
    console.print(Text(done), soft_wrap=not console.is_terminal)


def _name(parsed: argparse.Namespace) -> str:
    """The model's name in the stack file: the tag that its pods pull."""
    is_tag = not _is_url(parsed.model) and not _is_file(parsed.model)
    name = parsed.name or (parsed.model if is_tag else UNNAMED)
    if not re.fullmatch(MODEL_NAME, name):
        raise CallError(f"'{short(name)}' is not a tag. Write one as in `ollama pull`, e.g. llama2:7b.")
    if parsed.write and name == UNNAMED:
        raise CallError("the model has no name for the stack file. Pass `--name TAG`, the tag that its pods pull.")
    return name


def _describe(parsed: argparse.Namespace, name: str) -> Description:
    """Reads the model; raises `UnreadableModelError` if its description is unclear."""
    notes: list[str] = []
    projector = _projector(parsed.projector) if parsed.projector else 0
    if _is_url(parsed.model):
        contents, source = read_url(parsed.model), shown(parsed.model)
    elif _is_file(parsed.model):
        contents, source = read(Path(parsed.model).expanduser()), parsed.model
    else:
        for wrong in wrong_with(parsed.ollama):
            raise CallError(f"--ollama {address(printable(parsed.ollama))}: {wrong}")
        with Ollama(Endpoint("Ollama", parsed.ollama.rstrip("/"), parsed.model)) as server:
            contents, at_most = read_tag(server)
        source = f"{parsed.model} of Ollama"
        if at_most and not projector:
            projector = at_most
            notes.append("projector-bytes is an upper bound: Ollama does not report the projector's size.")
    try:
        model = derive_model(name, contents.metadata, contents.tensors, projector_bytes=projector, source=source)
        own = own_keys(model)
    except UnclearModelError as error:
        raise UnreadableModelError(f"{source} cannot be described. {error}") from None
    except ValueError as error:
        said = _said(error)
        raise UnreadableModelError(f"{source} contradicts itself ({said}). Download it again.") from None
    if find(name):
        notes.append(f"The catalogue has {name}: `name` alone is enough, unless you have changed the model.")
    return Description(model=model, own=own, notes=tuple(notes))


def _said(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).rstrip(".")


def _projector(place: str) -> int:
    """Bytes of the projector at `place`."""
    contents: Contents = read_url(place) if _is_url(place) else read(Path(place).expanduser())
    if contents.metadata.get("general.architecture") != PROJECTOR:
        raise UnreadableModelError(f"{printable(place)} is not a projector. Choose the file with `mmproj` in its name.")
    return contents.bytes


def _is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _is_file(place: str) -> bool:
    return place.endswith(".gguf") or place.startswith(("/", "./", "../", "~")) or os.path.exists(place)
