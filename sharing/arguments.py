"""Names of the arguments of a dataclass that programs construct: one sentence for a wrong one.

Python raises `TypeError` there, which names neither the class nor the nearest name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar

from sharing.problems import counted, did_you_mean

A = TypeVar("A")


def refuse_wrong_names(kind: type[A]) -> type[A]:
    """Lets the constructor of a dataclass raise `ValueError` for an unknown, missing or repeated argument."""
    changed: Any = kind
    construct = changed.__init__

    @wraps(construct)
    def read(self: A, /, *given: Any, **named: Any) -> None:
        construct(self, **name_arguments(kind, given, named))

    changed.__init__ = read
    return kind


def name_arguments(kind: type[Any], given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name, those without a name (`given`), too. Raises `ValueError` for a wrong name."""
    known = {field.name: field for field in fields(kind)}
    unnamed = [name for name, field in known.items() if not field.kw_only]
    if len(given) > len(unnamed):
        found = f"{counted(len(unnamed), 'argument')} without a name, not {len(given)}"
        raise ValueError(f"{kind.__name__} takes {found}. Pass the rest by name, e.g. `{[*known][len(unnamed)]}=…`.")
    values = dict(zip(unnamed, given, strict=False))
    if wrong := next(_wrong_names(known, values, named), ""):
        raise ValueError(f"{kind.__name__}{wrong}")
    return {**values, **named}


def _wrong_names(known: Mapping[str, Any], given: Mapping[str, Any], named: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the names, each after the name of the class."""
    for name in named:
        if name not in known:
            yield f" has no argument {name!r}. {did_you_mean(name, known)}"
        if name in given:
            yield f".{name} is passed twice. Pass it once."
    for name, field in known.items():
        if name not in {*given, *named} and field.default is MISSING and field.default_factory is MISSING:
            yield f".{name} is missing. Pass it."
