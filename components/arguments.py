"""Checks of what callers pass to a component, before it registers anything."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sharing.problems import did_you_mean

NAMES = {bool: "True or False", int: "a whole number", str: "text", NoneType: "None"}


def check_arguments(args: Any) -> None:
    """Raises `ValueError` where a plain value is none that its field takes.

    What may be an `Output` is known later, and is left to Pulumi.
    """
    for field in fields(args):
        value, hint = getattr(args, field.name), field.type
        if not _fits(value, hint):
            wanted = _describe(hint)
            options = [str(option) for option in get_args(hint)] if get_origin(hint) is Literal else []
            fix = did_you_mean(value, options) if options and isinstance(value, str) else f"Pass {wanted}."
            raise ValueError(f"{type(args).__name__}.{field.name} must be {wanted} (got {value!r}). {fix}")


def check_least(args: Any, **least: int) -> None:
    """Raises `ValueError` where a number is less than that."""
    for name, bound in least.items():
        if getattr(args, name) < bound:
            found = getattr(args, name)
            raise ValueError(f"{type(args).__name__}.{name} must be at least {bound} (got {found}). Pass {bound}.")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return is_list and all(_fits(one, inner[0]) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(one, inner[1]) for one in value.values())
    if hint is int:
        return type(value) is int  # a bool is an int, too
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
        return "a mapping"
    return NAMES.get(hint) or str(getattr(hint, "__name__", hint))
