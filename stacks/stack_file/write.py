"""Writes a stack file: its keys in the order of the schema, each below its description."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from sharing.names import PROJECT
from stacks.stack_file.form_errors import fields
from stacks.stack_file.yaml import as_yaml

WIDTH = 110
"""Columns of a comment, at most."""
NO_NOTES: Mapping[str, str] = {}


def stack_file(
    values: Mapping[str, Any],
    head: Sequence[str],
    *,
    every_key: bool = False,
    notes: Mapping[str, str] = NO_NOTES,
) -> str:
    """A stack file with these values of `config:`, by whole key, and `head` as its first comments.

    With `every_key`, keys without a value become comments with their defaults. `notes` replace descriptions of keys,
    by their path in the form of `fields`.
    """
    lines = _settings(values, "", "  ", every_key, notes)
    return "\n".join([*(f"# {line}" for line in head), "config:", *lines, ""])


def _settings(
    values: Mapping[str, Any], above: str, indent: str, every_key: bool, notes: Mapping[str, str]
) -> Iterator[str]:
    """The settings at one place of the file; `above` is its path up to the key, in the form of `fields`."""
    for path, field in fields().items():
        key = path.removeprefix(above)
        if not path.startswith(above) or "." in key or "[" in key:
            continue
        name = key if above or ":" in key else f"{PROJECT}:{key}"
        if name not in values and not every_key:
            continue
        if name.startswith(f"{PROJECT}:"):
            yield ""
        yield from _comment(indent, notes.get(path, field.description or ""))
        if name in values:
            yield from _setting(f"{indent}{name}:", path, values[name], indent, every_key, notes)
        else:
            default = None if field.is_required() else field.default
            plain = default.model_dump(by_alias=True) if isinstance(default, BaseModel) else default
            yield f"{indent}# {name}: {as_yaml(plain)}"


def _setting(key: str, path: str, value: Any, indent: str, every_key: bool, notes: Mapping[str, str]) -> Iterator[str]:
    """A key with its value: in one line, or with its own settings below it."""
    has_settings = any(each.startswith((f"{path}.", f"{path}[].")) for each in fields())
    if isinstance(value, dict) and value and has_settings:
        mode = f"{value['mode']}." if f"{path}.{value.get('mode')}.mode" in fields() else ""
        yield key
        yield from _settings(value, f"{path}.{mode}", f"{indent}  ", every_key, notes)
    elif isinstance(value, list) and value and has_settings:
        yield key
        yield from _items(value, f"{path}[].", f"{indent}  ", every_key, notes)
    else:
        yield f"{key} {as_yaml(value)}"


def _items(items: Sequence[Any], above: str, indent: str, every_key: bool, notes: Mapping[str, str]) -> Iterator[str]:
    """The items of a list: keys are described in the first."""
    first, *others = items
    dash = False
    for line in _settings(first, above, f"{indent}  ", every_key, notes):
        is_key = not dash and not line.lstrip().startswith("#")
        yield f"{indent}- {line.lstrip()}" if is_key else line if dash else line.removeprefix("  ")
        dash = dash or is_key
    yield from (f"{indent}- {as_yaml(item)}" for item in others)


def _comment(indent: str, text: str) -> Iterator[str]:
    lead = f"{indent}# "
    yield from textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=lead)
