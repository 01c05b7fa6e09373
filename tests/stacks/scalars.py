"""Every boolean and number of a stack file, found in its model, with a value that differs from the default."""

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from stacks.stack_file.form_errors import fields

OF_A_MODE = "sharing.timeslice."


def scalars() -> dict[str, bool | int | float]:
    """The values by their path for `pulumi config set --path`, for a stack with one pool in the mode timeslice."""
    found: dict[str, bool | int | float] = {}
    for path, field in fields().items():
        if path.startswith(("gpu-nodes[]", "aws:")) or (path.startswith("sharing.") and OF_A_MODE not in path):
            continue
        kinds = set(_kinds(field.annotation))
        if kinds & {bool, int, float} and "layout" not in path:
            at = path.replace(OF_A_MODE, "sharing.").replace("models[]", "models[0]")
            found[at] = _other(field, kinds)
    return found


def _kinds(annotation: Any) -> Iterator[type]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Annotated, typing.Union, types.UnionType):
        for each in typing.get_args(annotation):
            yield from _kinds(each)
    elif isinstance(annotation, type):
        yield annotation


def _other(field: FieldInfo, kinds: set[type]) -> bool | int | float:
    if bool in kinds:
        return field.default is not True
    if float in kinds:
        return 1.5
    least = next((bound.ge for bound in field.metadata if hasattr(bound, "ge")), 0)
    return int(least) + (2 if field.default == least + 1 else 1)


def at(values: Any, path: str) -> Any:
    """The value at such a path: an attribute of a model, or a key of plain values."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("["):
            values = values[int(part[1:-1])]
        elif isinstance(values, dict):
            values = values[part]
        elif part == "gpu-nodes":
            values = values.pools[0]  # the mapping is a list of one
        else:
            values = getattr(values, part.replace("-", "_"))
    return values
