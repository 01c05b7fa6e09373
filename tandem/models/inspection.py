"""`tandem models inspect`: describes a model, and writes the description for a stack file."""

import argparse
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharing.files import write_whole
from sharing.fit.memory import need
from sharing.hardware.gpus import gpus
from sharing.models.catalogue import Model, find
from sharing.models.served import MODEL_NAME, ServedModel
from sharing.names import model_id
from sharing.printable import address, as_json, printable
from sharing.problems import foreign_letters
from stacks.model_files import cache, gguf_file
from stacks.model_files.description import Description
from stacks.model_files.errors import MissingFileError, UnknownModelError, UnreadableModelError
from stacks.model_files.find import describe_name, describe_place, is_url, suggest
from stacks.model_files.gguf_file import Contents
from stacks.model_files.registry import Reference, describe
from stacks.model_files.web import read_url, shown
from stacks.stack_file.edit import write_description
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.yaml import as_yaml
from tandem.lookup import existing
from tandem.models.listing import CONTEXT, GPU, more_elsewhere
from tandem.terminal import FAILED, FINE, CallError, print_json, print_line, short, status

UNNAMED = "NAME"
"""The placeholder for the tag of a model read from a file."""
PROJECTOR = "clip"
"""`general.architecture` of a projector."""
CATALOGUE, KEPT, REGISTRY, PLACE, SERVER = "catalogue", "cache", "registry", "file", "ollama"
"""What answered."""
GIB, MIB = 2**30, 2**20
ENDING = ".json"


class UndescribedError(CallError):
    """A model that cannot be described."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A model's description, and who gave it."""

    name: str
    description: Description
    by: str
    notes: tuple[str, ...] = ()
    """Remarks: inexact values, or values that are not needed."""

    @property
    def given_name(self) -> str | None:
        """The name; None for a model read from a file without one."""
        return None if self.name == UNNAMED else self.name

    @property
    def model(self) -> Model:
        """The model as a plan sees it."""
        return self.description.named(self.name)


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    name = _name(parsed)
    is_file = bool(parsed.write) and parsed.write.endswith(ENDING)
    stack = existing(parsed.write) if parsed.write and not is_file else None
    try:
        with status(f"Reading {short(parsed.model)}"):
            inspected = _inspect(parsed, name)
    except MissingFileError as error:
        raise CallError(str(error)) from None
    except UnreadableModelError as error:
        raise UndescribedError(_said(parsed, error)) from None
    written = Path(parsed.write) if is_file else stack and stack.parent / f"{model_id(name)}{ENDING}"
    if written:
        _write(written, inspected.description, lambda: stack and write_description(stack, name, {"gguf": written.name}))
    if parsed.json:
        print_json(as_dict(inspected, written))
    else:
        show(inspected, parsed, written)
    return FINE


def as_dict(inspected: Inspected, written: Path | None) -> dict[str, Any]:
    """The description for `--json`, in the form that `gguf` takes, with more about it."""
    about = {"name": inspected.given_name, "by": inspected.by, "notes": list(inspected.notes)}
    return {**inspected.description.as_dict(), **about, "written": str(written) if written else None}


def show(inspected: Inspected, parsed: argparse.Namespace, written: Path | None) -> None:
    """What decides the model's memory, remarks, and how a stack file names it."""
    for label, value in _rows(inspected):
        print_line(f"{label:<16} {value}", sys.stdout)
    for note in inspected.notes:
        print_line(f"warning: {note}", sys.stdout)
    print_line(_next_step(inspected, parsed, written), sys.stdout)


def _rows(inspected: Inspected) -> list[tuple[str, str]]:
    model, digest = inspected.model, inspected.description.digest
    needed = need(ServedModel.of(model, context=CONTEXT), gpus()[GPU]).total * MIB / GIB
    kind = " ".join(filter(None, (model.architecture or "unknown", model.quant)))
    rows = [
        ("model", inspected.given_name or "(none: pass --name)"),
        ("from", f"{inspected.by}: {model.source}"),
        ("digest", digest or ""),
        ("architecture", f"{kind}{', computes embeddings' * model.encoder}"),
        ("files", f"{model.file_bytes / GIB:.2f} GiB"),
        ("layers", f"{model.layers}"),
        ("longest context", f"{model.max_context:,} tokens" if model.max_context else "unknown"),
        ("GPU memory", f"{needed:.2f} GiB with context {CONTEXT}, {more_elsewhere()}"),
    ]
    return [(label, value) for label, value in rows if value]


def _next_step(inspected: Inspected, parsed: argparse.Namespace, written: Path | None) -> str:
    name = f"`name: {as_yaml(inspected.name)}`"
    if written and written.name == Path(parsed.write).name:
        return f"Write `gguf: {written.name}` beside {name}, with the file in the folder of the stack file."
    if written:
        return f"{parsed.write} and {written.name} describe the model. Run `tandem plan {parsed.write}`."
    if inspected.by == CATALOGUE:
        return f"Write {name} in a stack file. The catalogue has the rest."
    if inspected.by in (KEPT, REGISTRY):
        kept = cache.place_of(str(Reference.of(inspected.name)))
        is_kept = f" Its description is kept in {kept}." if kept.is_file() else ""
        return f"Write {name} in a stack file.{is_kept}"
    return "Write it to a stack file with `--write STACK`, or to a file of its own with `--write FILE.json`."


def _said(parsed: argparse.Namespace, error: UnreadableModelError) -> str:
    """The error, for a tag after names of the catalogue that were probably meant."""
    if parsed.ollama or is_url(parsed.model) or _is_file(parsed.model):
        return str(error)
    name = f"'{short(parsed.model)}'"
    head = f"unknown model {name}" if isinstance(error, UnknownModelError) else f"model {name} cannot be looked up"
    return f"{head}. {suggest(parsed.model)}{error}"


def _write(path: Path, description: Description, then: Callable[[], object]) -> None:
    """Writes the description, then what names it; nothing of both if that fails."""
    before = None
    try:
        if path.exists():
            describe_place(str(path))
            before = path.read_bytes()
        write_whole(path.resolve(), as_json(description.as_dict(), indent=1) + "\n")
    except UnreadableModelError:
        raise CallError(f"{path} is a file with another content. Move it, or write to another file.") from None
    except OSError as error:
        raise CallError(f"{path} cannot be written: {error.strerror}. Choose another folder.") from None
    try:
        then()
    except UnreadableError:
        if before is None:
            path.unlink()
        else:
            write_whole(path.resolve(), before.decode())
        raise


def _name(parsed: argparse.Namespace) -> str:
    """The model's name in the stack file: the tag that its pods pull."""
    is_tag = not is_url(parsed.model) and not _is_file(parsed.model)
    name = parsed.name or (parsed.model if is_tag else UNNAMED)
    if not re.fullmatch(MODEL_NAME, name):
        letters = foreign_letters(name) or ("a space" if " " in name else "")
        strange = f" It contains {letters}." if letters else ""
        raise CallError(
            f"'{short(address(name))}' is not a tag.{strange} Write one as in `ollama pull`, e.g. llama2:7b."
        )
    if parsed.write and not parsed.write.endswith(ENDING) and name == UNNAMED:
        raise CallError("the model has no name for the stack file. Pass `--name TAG`, the tag that its pods pull.")
    return str(name)


def _inspect(parsed: argparse.Namespace, name: str) -> Inspected:
    """Finds the model; raises `UnreadableModelError` if its description is unclear."""
    projector = _projector(parsed.projector) if parsed.projector else 0
    if parsed.ollama:
        inspected = _ask(parsed, name, projector)
    elif is_url(parsed.model) or _is_file(parsed.model):
        inspected = Inspected(name=name, by=PLACE, description=_read_place(parsed.model, projector))
    elif model := find(parsed.model):
        return Inspected(name=name, by=CATALOGUE, description=Description.of(model))
    else:
        kept = cache.load(str(Reference.of(parsed.model)))
        by = KEPT if kept else REGISTRY
        return Inspected(name=name, by=by, description=kept or describe_name(parsed.model))
    known = f"The catalogue has {name}: `name` alone is enough, unless you have changed the model."
    notes = (*inspected.notes, known) if find(name) else inspected.notes
    return Inspected(name=name, by=inspected.by, description=inspected.description, notes=notes)


def _read_place(place: str, projector: int) -> Description:
    if not projector:
        return describe_place(place)
    source, contents = (shown(place), read_url(place)) if is_url(place) else (gguf_file.label(place), _read(place))
    return Description.of(describe(source, contents, projector))


def _ask(parsed: argparse.Namespace, name: str, projector: int) -> Inspected:
    """The description by a running Ollama."""
    # They need httpx, which a model of the catalogue does without.
    from tandem.deployed.endpoints import Endpoint, wrong_with
    from tandem.deployed.ollama import Ollama
    from tandem.models.from_ollama import read_tag

    for wrong in wrong_with(parsed.ollama):
        raise CallError(f"--ollama {address(printable(parsed.ollama))}: {wrong}")
    with Ollama(Endpoint("Ollama", parsed.ollama.rstrip("/"), parsed.model)) as server:
        contents, at_most = read_tag(server)
    notes = ("projector_bytes is an upper bound: Ollama does not report the projector's size.",)
    description = Description.of(describe(f"{parsed.model} of Ollama", contents, projector or at_most))
    return Inspected(name=name, by=SERVER, description=description, notes=notes if at_most and not projector else ())


def _projector(place: str) -> int:
    """Bytes of the projector at `place`."""
    contents = read_url(place) if is_url(place) else _read(place)
    if contents.metadata.get("general.architecture") != PROJECTOR:
        fix = "Choose the file with `mmproj` in its name."
        raise UnreadableModelError(f"{printable(gguf_file.label(place))} is not a projector", fix)
    return contents.bytes


def _read(place: str) -> Contents:
    return gguf_file.read(Path(place).expanduser())


def _is_file(place: str) -> bool:
    is_path = place.endswith((".gguf", ENDING)) or place.startswith(("/", "./", "../", "~"))
    return is_path or os.path.exists(place)
