"""Writes a stack file: its keys in the order of the schema, each below its description."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sharing.names import PROJECT
from stacks.stack_file.form_errors import fields
from stacks.stack_file.yaml import as_yaml

WIDTH = 110
"""Columns of a comment, at most."""
NO_NOTES: Mapping[str, str] = {}


def stack_file(values: Mapping[str, Any], head: Sequence[str], *, notes: Mapping[str, str] = NO_NOTES) -> str:
    """A stack file with these values of `config:`, by whole key, and `head` as its first comments.

    `notes` replace descriptions of keys, by their path in the form of `fields`.
    """
    lines = _settings(values, "", "  ", notes)
    return "\n".join([*(f"# {line}" for line in head), "config:", *lines, ""])


def _settings(values: Mapping[str, Any], above: str, indent: str, notes: Mapping[str, str]) -> Iterator[str]:
    """The settings at one place of the file; `above` is its path up to the key, in the form of `fields`."""
    for path, field in fields().items():
        key = path.removeprefix(above)
        name = key if above or ":" in key else f"{PROJECT}:{key}"
        if not path.startswith(above) or name not in values:
            continue
        if name.startswith(f"{PROJECT}:"):
            yield ""
        lead = f"{indent}# "
        about = notes.get(path, field.description or "")
        yield from textwrap.wrap(about, WIDTH, initial_indent=lead, subsequent_indent=lead)
        yield from _setting(f"{indent}{name}:", path, values[name], indent, notes)


def _setting(key: str, path: str, value: Any, indent: str, notes: Mapping[str, str]) -> Iterator[str]:
    """A key with its value: in one line, or with its own settings below it."""
    has_settings = any(each.startswith((f"{path}.", f"{path}[].")) for each in fields())
    if isinstance(value, dict) and value and has_settings:
        mode = f"{value['mode']}." if f"{path}.{value.get('mode')}.mode" in fields() else ""
        yield key
        yield from _settings(value, f"{path}.{mode}", f"{indent}  ", notes)
    elif isinstance(value, list) and value and has_settings:
        yield key
        yield from _items(value, f"{path}[].", f"{indent}  ", notes)
    else:
        yield f"{key} {as_yaml(value)}"


def _items(items: Sequence[Any], above: str, indent: str, notes: Mapping[str, str]) -> Iterator[str]:
    """The items of a list: keys are described in the first."""
    first, *others = items
    dash = False
    for line in _settings(first, above, f"{indent}  ", notes):
        is_key = not dash and not line.lstrip().startswith("#")
        yield f"{indent}- {line.lstrip()}" if is_key else line if dash else line.removeprefix("  ")
        dash = dash or is_key
    yield from (f"{indent}- {as_yaml(item)}" for item in others)
