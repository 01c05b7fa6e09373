"""Arguments of a dataclass that programs construct: one sentence for a wrong name, where Python raises `TypeError`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar

from sharing.printable import counted
from sharing.problems import did_you_mean

A = TypeVar("A")
IN_LANGUAGE: ContextVar[Callable[[str], str]] = ContextVar("IN_LANGUAGE", default=str)
"""Puts a message in the words of the program's language. The plugin sets it."""


def name_arguments(kind: type[A], read: Callable[[str, Any], Any] = lambda _, value: value) -> type[A]:
    """Lets the constructor of a dataclass raise `ValueError` for a wrong name, and `read` the argument of each name."""
    changed: Any = kind
    construct, known = changed.__init__, {field.name: field for field in fields(changed)}
    needed = {name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING}

    @wraps(construct)
    def named(self: A, /, *unnamed: Any, **named: Any) -> None:
        # The tables have thousands of models, so right names take no more than this.
        is_right = not unnamed and needed <= named.keys() <= known.keys()
        if wrong := "" if is_right else next(_wrong_names(known, needed, unnamed, named), ""):
            raise ValueError(f"{kind.__name__}{wrong}")
        values = {**dict(zip(known, unnamed, strict=False)), **named}
        construct(self, **{name: read(name, value) for name, value in values.items()})

    changed.__init__ = named
    return kind


def _wrong_names(
    known: Mapping[str, Any], needed: set[str], unnamed: Sequence[Any], named: Mapping[str, Any]
) -> Iterator[str]:
    """What is wrong with the names, each after the name of the class."""
    most = sum(not field.kw_only for field in known.values())
    if len(unnamed) > most:
        rest = f"Pass the rest by name, e.g. `{[*known][most]}=…`."
        yield f" takes {counted(most, 'argument')} without a name, not {len(unnamed)}. {rest}"
    given = [*known][: len(unnamed)]
    for name in named:
        if name not in known:
            yield f" has no argument {name!r}. {did_you_mean(name, known)}"
        if name in given:
            yield f".{name} is passed twice. Pass it once."
    for name in known:
        if name in needed.difference(given, named):
            yield f".{name} is missing. Pass it."
