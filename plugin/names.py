"""Names and texts in the form of other languages: camelCase, and JSON in place of Python's calls."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel

import components
from sharing.models import catalogue, share
from sharing.modes import layouts, modes
from sharing.modes.base import Mode

CODE = re.compile(r"`([^`]+)`")
WORDS = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
FENCE = re.compile(r"```.*?```", re.DOTALL)
OF_PYTHON = {", or a `Gpu`": "", "None:": "Without it:", ". None ": ". Nothing ", " None ": " nothing "}
"""Words that mean nothing in other languages."""
OF_RULES = {**vars(modes), **vars(layouts), "Share": share.Share, "KvType": catalogue.KvType}


@cache
def read_public() -> dict[str, Any]:
    """The public classes of the components by name. Importing all of them takes seconds."""
    public = {name: getattr(components, name) for names in components.PUBLIC.values() for name in names}
    return {name: made for name, made in public.items() if isinstance(made, type)}


def to_camel(name: str) -> str:
    """`node_subnet_ids` as `nodeSubnetIds`."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def to_pascal(value: str) -> str:
    """`per-zone` as `PerZone`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9_]+", value))


def to_plain(value: Any) -> Any:
    """A value as other languages write it, without what is the default anyway."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        mode = {"mode": value.mode} if isinstance(value, Mode) else {}
        given = {**mode, **value.model_dump(exclude_unset=True)}
        return {to_camel(name): to_plain(one) for name, one in given.items()}
    if is_dataclass(value):
        pairs = {field: getattr(value, field.name) for field in fields(value)}
        return {to_camel(field.name): to_plain(one) for field, one in pairs.items() if one != default_of(field)}
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str):
        return [to_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def default_of(field: Field[Any]) -> Any:
    """The default of a dataclass's field; `MISSING` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def translate(text: str, known: Collection[str]) -> str:
    """A docstring for readers who do not write Python: names of `known` in camelCase, and JSON for calls."""

    def rewrite(code: re.Match[str]) -> str:
        shown = code[1]
        if re.match(r"\[?[A-Z]\w+\(", shown):
            # Docstrings of this project, read while the schema is made.
            shown = json.dumps(to_plain(eval(shown, {**OF_RULES, **read_public()})))
        shown = re.sub(r"^([a-z_]+)=", r"\1: ", shown)
        return f"`{WORDS.sub(lambda word: to_camel(word[0]) if word[0] in known else word[0], shown)}`"

    text = text.partition("Raises `ValueError`")[0].replace("raises `pulumi.RunError`", "fails")
    paragraphs = [" ".join(part.split()) for part in FENCE.sub("", text).split("\n\n") if part.strip()]
    text = "\n\n".join(CODE.sub(rewrite, part) for part in paragraphs)
    for python, anywhere in OF_PYTHON.items():
        text = text.replace(python, anywhere)
    return text


def with_default(text: str, default: Any) -> str:
    """The meaning of an optional argument with its default, unless the text names one."""
    if default is None or re.search("[Dd]efault", text):
        return text
    return f"{text} Default: `{json.dumps(to_plain(default))}`."
