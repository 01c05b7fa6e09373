"""Writes the description of a model into the text of a stack file. Comments and other lines do not change."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sharing.files import ChangedError, write_whole
from sharing.models.catalogue import full_name
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.models import OLD_KEYS
from stacks.stack_file.yaml import as_yaml, load

MODELS = "tandem:models"
OWN_KEYS = ("gguf", *OLD_KEYS)
"""Keys that describe a model, now and in the older form."""
BY_HAND = "Write the description by hand."

BOM = "\ufeff"

Edit = tuple[int, int, str]
"""The start and the end of the replaced text, and its replacement."""


def write_description(path: Path, name: str, own: Mapping[str, object]) -> int:
    """Writes the keys that describe the model `name` into the stack file at `path`, all or nothing.

    Adds the model if the file does not have it. Returns the number of entries with the description. Raises
    `UnreadableError` if the file cannot be read, or if the change would affect anything else.
    """
    try:
        before = path.read_bytes()
        text = before.decode("utf-8")
        after, count = with_description(text, path.name, name, own)
        if after != text:
            write_whole(path.resolve(), after, replaces=before)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path.name} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except ChangedError:
        raise UnreadableError(f"{path.name} was changed by another process. Run the command again.") from None
    except OSError as error:
        raise UnreadableError(f"{path.name} cannot be written: {error.strerror}. Make it writable.") from None
    return count


def with_description(text: str, file: str, name: str, own: Mapping[str, object]) -> tuple[str, int]:
    """The text of the stack file `file` with the keys that describe the model `name`, and the number of such entries.

    Removes the keys of an older description. Raises `UnreadableError` as `write_description` does.
    """
    mark, text = text[: len(BOM)] if text.startswith(BOM) else "", text.removeprefix(BOM)
    expected = _loaded(text, file)
    models = expected["config"].get(MODELS) if isinstance(expected.get("config"), dict) else None
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise UnreadableError(
            f"{file} has no list of models. Add `{MODELS}: [{{name: {as_yaml(name)}}}]` under `config:`."
        )
    node = _models_node(text)
    places = [index for index, model in enumerate(models) if full_name(str(model.get("name"))) == full_name(name)]
    edits: list[Edit] = []
    for index in places:
        edits += _changed(text, node.value[index], own, in_block=not node.flow_style)
        models[index] = {key: value for key, value in models[index].items() if key not in OWN_KEYS} | {**own}
    if not places:
        edits.append(_added(text, node, {"name": name, **own}))
        models.append({"name": name, **own})
    after = _applied(text, edits)
    if not _says(after, file, expected):
        # Two entries that share an anchor, for example, or an entry with a merge key.
        raise UnreadableError(f"{file} is written so that this entry cannot be changed alone. {BY_HAND}")
    return mark + after, len(places) or 1


def _loaded(text: str, file: str) -> dict[str, Any]:
    loaded = load(text, file)
    if loaded.duplicates:
        raise UnreadableError(f"{file} has a key twice: {loaded.duplicates[0].path}. Keep one of the two.")
    return loaded.value if isinstance(loaded.value, dict) else {}


def _says(text: str, file: str, expected: Mapping[str, Any]) -> bool:
    """Whether the text means `expected`, apart from keys that describe a model that are null."""
    try:
        loaded = _loaded(text, file)
    except UnreadableError:
        return False
    return _without_nulls(loaded) == _without_nulls(expected)


def _without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without keys that describe a model that are null."""
    config = document["config"]
    models = [
        {key: value for key, value in model.items() if value is not None or key not in OWN_KEYS}
        for model in config[MODELS]
    ]
    return {**document, "config": {**config, MODELS: models}}


def _models_node(text: str) -> yaml.SequenceNode:
    """The list of models in the tree of nodes, which have positions."""
    node: Any = yaml.compose(text)
    for key in ("config", MODELS):
        node = next(value for its, value in node.value if its.value == key)
    assert isinstance(node, yaml.SequenceNode)
    return node


def _changed(text: str, node: yaml.MappingNode, own: Mapping[str, object], *, in_block: bool) -> Iterator[Edit]:
    """The changes after which an entry has these of the keys that describe a model, and no others."""
    present = {key.value: (key, value) for key, value in node.value}
    new = {key: value for key, value in own.items() if key not in present}
    if node.flow_style and in_block and "\n" not in _span(text, node):
        settings = {key: text[its.start_mark.index : value.end_mark.index] for key, (its, value) in present.items()}
        kept = [line for key, line in settings.items() if key not in OWN_KEYS]
        lines = [*kept, *(f"{key}: {as_yaml(value)}" for key, value in own.items())]
        yield node.start_mark.index, node.end_mark.index, _joined(text, node.start_mark.column, lines)
        return
    for key, (its, value) in present.items():
        if key in own:
            yield its.start_mark.index, value.end_mark.index, f"{key}: {as_yaml(own[key])}"
        elif key in OWN_KEYS:
            yield _without(text, its.start_mark.index, value.end_mark.index, key)
    if new and node.flow_style:
        end = node.end_mark.index - 1
        yield end, end, "".join(f", {key}: {as_yaml(value)}" for key, value in new.items())
    elif new:
        end = _line_end(text, max(value.end_mark.index for its, value in node.value))
        lines = ["", *(f"{key}: {as_yaml(value)}" for key, value in new.items())]
        yield end, end, _joined(text, node.start_mark.column, lines)


def _without(text: str, start: int, end: int, key: str) -> Edit:
    """The edit that removes a setting, with its line if nothing else is there."""
    begin, stop = text[:start].rfind("\n") + 1, text.find("\n", end) + 1
    has_line = begin and stop and not text[begin:start].strip() and re.match(r"[ \t]*(#.*)?\r?\n", text[end:stop])
    return (begin, stop, "") if has_line else (start, end, f"{key}: null")


def _added(text: str, node: yaml.SequenceNode, settings: Mapping[str, object]) -> Edit:
    """One more entry, at the end of the list."""
    lines = [f"{key}: {as_yaml(value)}" for key, value in settings.items()]
    if node.flow_style or not node.value:
        end = node.end_mark.index - 1
        separator = ", " if node.value else ""
        return end, end, f"{separator}{{{', '.join(lines)}}}"
    end = _line_end(text, _last(node))
    column = node.start_mark.column
    return end, end, _joined(text, column, ["", "- " + _joined(text, column + 2, lines)])


def _joined(text: str, column: int, lines: Sequence[str]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{newline}{' ' * column}".join(lines)


def _span(text: str, node: yaml.Node) -> str:
    return text[node.start_mark.index : node.end_mark.index]


def _last(node: yaml.Node) -> int:
    """Position after the last value in a node: libyaml puts the end of a block at the start of the next node."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return int(last[1].end_mark.index) if isinstance(last, tuple) else _last(last)
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    """The end of a line, before its line feed."""
    return index + len(text[index:].partition("\n")[0].removesuffix("\r"))


def _applied(text: str, edits: Sequence[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
