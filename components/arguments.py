"""Checks a component's arguments before it registers any resource."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sharing.aws.tags import STACK, judge_tags
from sharing.names import StackTags
from sharing.problems import did_you_mean

NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "text", NoneType: "None"}


def check_arguments(args: Any, *, tagged: Collection[str] = ()) -> None:
    """Raises `ValueError` for a plain value that does not match its field's type, and for tags that AWS refuses.

    An `Output` is only known later, so Pulumi checks it. `tagged` are the keys that the resource with the most tags
    gets besides those of the field `tags`.
    """
    for field in fields(args):
        value, hint = getattr(args, field.name), field.type
        if not _fits(value, hint):
            wanted = _describe(hint)
            options = [str(option) for option in get_args(hint)] if get_origin(hint) is Literal else []
            fix = did_you_mean(value, options) if options and isinstance(value, str) else f"Pass {wanted}."
            raise ValueError(f"{type(args).__name__}.{field.name} must be {wanted}, not {value!r}. {fix}")
    tags: Mapping[str, str] = getattr(args, "tags", {})
    own = STACK if isinstance(tags, StackTags) else ()
    given = {key: value for key, value in tags.items() if key not in own}
    for problem in judge_tags({"tags": given}, {*own, *tagged}):
        raise ValueError(f"{type(args).__name__}.{problem.message}")


def check_least(args: Any, **least: int) -> None:
    """Raises `ValueError` for a number below its minimum, e.g. `check_least(args, zones=2)`."""
    for name, bound in least.items():
        if getattr(args, name) < bound:
            value = getattr(args, name)
            raise ValueError(
                f"{type(args).__name__}.{name} is {value}, but the minimum is {bound}. Pass {bound} or more."
            )


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin in (Union, UnionType):
        return any(_fits(value, item) for item in inner)
    if origin is Literal:
        return value in inner
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return is_list and all(_fits(item, inner[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and _fits(item, inner[1]) for key, item in value.items()
        )
    if hint in (int, float):
        return type(value) in (int, hint)  # bool is a subclass of int
    is_class = isinstance(hint, type) and origin is None and hint is not Any
    return isinstance(value, hint) if is_class else True


def _describe(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _describe(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(map(_describe, inner))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is Sequence:
        return f"a list of {_describe(inner[0])}"
    if origin is Mapping:
        return "a mapping of text to text" if inner == (str, str) else "a mapping"
    return NAMES.get(hint) or str(getattr(hint, "__name__", hint))
