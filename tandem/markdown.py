"""Text from outside in Markdown: it stays text, and one line, wherever it stands.

CommonMark 0.31.2, 2.4: a backslash before ASCII punctuation makes it literal. GitHub's dialect adds tables, `~`, `$`,
and links for bare addresses (`www.`, `https://`, `name@host`).
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from sharing.printable import one_line

Some = TypeVar("Some")
MARKS = re.compile(
    r"[\\`*\[\]<>|~#$&@]"
    r"|(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9])"
    r"|^[-+=]"
    r"|(?<=:)/(?=/)|(?<=www)\.",
    re.IGNORECASE,
)
NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""The start of a numbered list."""


def in_markdown(text: str) -> str:
    """The text in one line, with everything escaped that Markdown would obey."""
    return NUMBER.sub(r"\1\\\2", MARKS.sub(r"\\\g<0>", one_line(text)))


def as_code(text: str) -> str:
    """The text as a code span, in which Markdown obeys nothing but the backtick."""
    return f"`{one_line(text).replace('`', chr(39))}`"


def change_text(value: Some, change: Callable[[str], str]) -> Some:
    """A copy of `value` in which every text is changed: in dataclasses, lists, tuples and mappings, keys too."""
    changed: Some = _changed(value, change)
    return changed


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _changed(getattr(value, one.name), change) for one in fields(value)})
    if isinstance(value, dict):
        return {_changed(key, change): _changed(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_changed(each, change) for each in value)
    return value
