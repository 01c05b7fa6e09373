"""The arguments and outputs of the public classes, read from the classes: name, type, default and meaning."""

import ast
import inspect
import textwrap
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pulumi
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import is_protocol

from components.ollama_pair.placement import JudgedPools
from plugin.names import default_of, with_default
from sharing.hardware.gpus import Gpu
from sharing.modes.base import UNUSED


@dataclass(frozen=True)
class Argument:
    """One argument of a class, or an output of a component."""

    name: str
    hint: Any
    """Its type, as the class has it."""
    meaning: str
    is_required: bool = False
    default: Any = None
    """Of an argument that is not required."""


@dataclass(frozen=True)
class Kind:
    """What a type means outside Python."""

    name: Literal[
        "text", "integer", "number", "truth", "choice", "list", "map", "object", "mode", "either", "any", "none"
    ]
    parts: tuple[Any, ...] = ()
    """The type of the items, the class, the values of a choice, or the types of which one is right."""
    is_input: bool = False
    """Whether it can be an output of another resource."""


SCALARS = {str: Kind("text"), bool: Kind("truth"), int: Kind("integer"), float: Kind("number")}
NOTHING = Kind("none")
"""A resource, or an object with methods: it exists only in the program that made it. For resources, other languages
have the option `dependsOn`.
"""
OF_PYTHON = (pulumi.Resource, Gpu, JudgedPools)
"""Classes that other languages cannot make. They name rows of the catalogue, and only a stack has pools that are
judged already.
"""


def read_kind(hint: Any) -> Kind:
    """What a type hint means outside Python; raises `TypeError` for one that no other language knows."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return read_kind(parts[0])
    if origin is pulumi.Output:
        return read_kind(parts[0])
    if origin in (Union, UnionType):
        return _read_union([part for part in parts if part is not NoneType])
    if origin is Literal:
        return Kind("choice", parts)
    if origin in (Sequence, list, tuple):
        items = read_kind(parts[0])
        return NOTHING if items == NOTHING else Kind("list", parts[:1])
    if origin in (Mapping, dict):
        return Kind("map", parts[1:])
    if hint in SCALARS:
        return SCALARS[hint]
    if hint in (Any, object):
        return Kind("any")
    if isinstance(hint, type) and (issubclass(hint, OF_PYTHON) or is_protocol(hint)):
        return NOTHING
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Kind("choice", tuple(member.value for member in hint))
    if is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        return Kind("object", (hint,))
    raise TypeError(f"{hint} has no equivalent in other languages. Add it to `read_kind`.")


def _read_union(parts: list[Any]) -> Kind:
    # `pulumi.Input[T]` is `T | Awaitable[T] | Output[T]`.
    for part in parts:
        if get_origin(part) is Awaitable:
            return replace(read_kind(get_args(part)[0]), is_input=True)
    kinds = {part: read_kind(part) for part in parts}
    if all(isinstance(part, type) and issubclass(part, BaseModel) for part in parts) and len(parts) > 1:
        return Kind("mode", tuple(parts))
    # Where a class accepts a dictionary in its place, both are the same outside Python.
    has_objects = any(kind.name in ("object", "mode") for kind in kinds.values())
    known = [part for part, kind in kinds.items() if kind != NOTHING and not (has_objects and kind.name == "map")]
    choices = [part for part in known if kinds[part].name == "choice"]
    if len(choices) == len(known) > 1:
        return kinds[choices[0]]
    return kinds[known[0]] if len(known) == 1 else Kind("either", tuple(known)) if known else NOTHING


def read_arguments(made: type) -> list[Argument]:
    """The arguments of a class, in its order."""
    texts = _read_docstrings(made)
    if issubclass(made, BaseModel):
        return [_of_model(name, field) for name, field in made.model_fields.items()]
    found = []
    for field in fields(made):  # type: ignore[arg-type]  # a dataclass, since it is no model
        default = default_of(field)
        found.append(Argument(field.name, field.type, texts.get(field.name, ""), default is MISSING, default))
    return found


def read_mode(members: Sequence[type[BaseModel]]) -> list[Argument]:
    """The arguments of all sharing modes as those of one class, since few languages have unions of types."""
    found: dict[str, list[tuple[str, Argument]]] = {}
    for member in members:
        mode = member.model_fields["mode"].default
        for argument in read_arguments(member):
            if argument.meaning != UNUSED:
                found.setdefault(argument.name, []).append((mode, argument))
    values = tuple(member.model_fields["mode"].default for member in members)
    kind = Argument("mode", Literal[values], "The sharing mode.", is_required=True)
    return [kind, *(_merge(name, several) for name, several in found.items() if name != "mode")]


def _merge(name: str, several: list[tuple[str, Argument]]) -> Argument:
    modes_by_text: dict[str, list[str]] = {}
    for mode, argument in several:
        modes_by_text.setdefault(with_default(argument.meaning, argument.default), []).append(mode)
    texts = [
        f"{', '.join(f'`{mode}`' for mode in modes)}: {text}" if len(modes_by_text) > 1 else text
        for text, modes in modes_by_text.items()
    ]
    # An optional type is wider than the same without None.
    hint = max((argument.hint for _, argument in several), key=lambda hint: NoneType in get_args(hint))
    return Argument(name, hint, " ".join(texts))


def _of_model(name: str, field: FieldInfo) -> Argument:
    default = None if field.is_required() else field.default
    return Argument(name, field.annotation, field.description or "", field.is_required(), default)


def read_outputs(component: type) -> list[Argument]:
    """The outputs of a component that other languages can have: those that are no resources."""
    texts = _read_docstrings(component)
    hints = {name: hint for base in reversed(component.__mro__) for name, hint in inspect.get_annotations(base).items()}
    known = {name: hint for name, hint in hints.items() if get_origin(hint) is pulumi.Output and name in texts}
    return [Argument(name, hint, texts[name], is_required=True) for name, hint in known.items()]


def _read_docstrings(made: type) -> dict[str, str]:
    """The docstrings under the attributes of a class: Python does not keep them."""
    found: dict[str, str] = {}
    for base in reversed(made.__mro__):
        if not base.__module__.startswith(("components", "sharing", "tandem.")):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        found |= dict(_below_attributes(tree.body))
    return found


def _below_attributes(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for one, following in pairwise(body):
        match one, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
