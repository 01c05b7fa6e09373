"""Reads a component's arguments, in each form that Pulumi's own components take, and checks them before it registers
any resource.
"""

import re
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import is_
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import pulumi

from sharing.arguments import name_arguments
from sharing.aws.tags import STACK, judge_tags
from sharing.models.catalogue import Model
from sharing.names import StackTags
from sharing.problems import did_you_mean, near
from sharing.section import Constructed, WrongFormError
from sharing.sections.existing import ClusterName

A = TypeVar("A")
Given: TypeAlias = A | Mapping[str, Any] | None
"""The second argument of a component: its arguments, or a dictionary of them; None if they are passed by name."""
Options: TypeAlias = pulumi.ResourceOptions | None
NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "text", NoneType: "None"}
_BY_NAME: set[type] = {Model}
"""The dataclasses whose constructor checks names: those that `check_arguments` has changed, and `Model`."""


def read_arguments(kind: type[A], given: Given[A], named: Mapping[str, Any]) -> A:
    """The arguments of a component, passed as an instance of `kind`, as a dictionary, or by name. Raises `ValueError`
    for anything else.
    """
    if given is None:
        return kind(**named)
    if not isinstance(given, kind | Mapping):
        fix = "Pass options as `opts`." if isinstance(given, pulumi.ResourceOptions) else f"Pass `{kind.__name__}(…)`."
        raise ValueError(f"{type(given).__name__} is neither {kind.__name__} nor a dictionary. {fix}")
    if named:
        raise ValueError(f"{kind.__name__} is passed, and {', '.join(named)} by name. Pass all arguments in one way.")
    return _build(kind, given) if isinstance(given, Mapping) else given


def check_arguments(kind: type[A]) -> type[A]:
    """Lets the constructor of a dataclass take a dictionary for each nested argument, and raise `ValueError` with one
    sentence for a wrong name or type.

    An `Output` is only known later, so Pulumi checks it.
    """
    hints = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]  # it is a dataclass
    _BY_NAME.add(kind)

    def read(name: str, value: Any) -> Any:
        place, hint = f"{kind.__name__}.{name}", hints[name]
        value = _convert(value, hint, place)
        _check_type(place, value, hint)
        if name == "cluster_name":
            check_form(place, value, ClusterName)
        return value

    return name_arguments(kind, read)


def _convert(value: Any, hint: Any, place: str) -> Any:
    """The value with an instance for each dictionary whose type has a class for it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Sequence and isinstance(value, list | tuple):
        items = [_convert(item, inner[0], f"{place}[{index}]") for index, item in enumerate(value)]
        return value if all(map(is_, items, value)) else items
    if origin is Mapping and isinstance(value, Mapping):
        named = {key: _convert(item, inner[1], f"{place}[{key!r}]") for key, item in value.items()}
        return value if all(map(is_, named.values(), value.values())) else named
    options = [*_options(hint)]
    if isinstance(value, Mapping):
        kinds = [kind for kind in options if kind in _BY_NAME or _is_constructed(kind)]
        return _build(_choose(kinds, value, place), value, f"{place}: ") if kinds else value
    lists = [option for option in options if get_origin(option) is Sequence and option is not hint]
    return _convert(value, lists[0], place) if len(lists) == 1 else value


def check_tags(args: Any, own: Collection[str] = ()) -> None:
    """Raises `ValueError` for tags that AWS refuses. `own` are the keys that the resource with the most tags gets
    besides them.
    """
    of_stack = STACK if isinstance(args.tags, StackTags) else ()
    given = {key: value for key, value in args.tags.items() if key not in of_stack}
    for problem in judge_tags({"tags": given}, {*of_stack, *own}):
        raise ValueError(f"{type(args).__name__}.{problem.message}")


def check_least(args: Any, **least: int) -> None:
    """Raises `ValueError` for a number below its minimum, e.g. `check_least(args, zones=2)`. None is no number."""
    for name, bound in least.items():
        value = getattr(args, name)
        if value is not None and value < bound:
            raise ValueError(
                f"{type(args).__name__}.{name} is {value}, but the minimum is {bound}. Pass {bound} or more."
            )


def check_filled(args: Any, name: str) -> None:
    """Raises `ValueError` for an empty list. The length of an `Output` is only known later."""
    value = getattr(args, name)
    if isinstance(value, Sequence) and not value:
        raise ValueError(f"{type(args).__name__}.{name} is empty. Pass at least one.")


def check_form(place: str, value: Any, form: Any) -> None:
    """Raises `ValueError` for plain text that a stack file refuses."""
    _, validator, fix = get_args(form)
    try:
        validator.func(value) if isinstance(value, str) else None
    except WrongFormError as error:
        raise ValueError(f"{place} {error}, not {value!r}. {fix.text.replace('Write', 'Pass')}") from None


def _check_type(place: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        place, value, hint = _locate(place, value, hint)
        found = re.sub(r"<(?:\w+\.)*(\w+) object at 0x\w+>", r"\1", repr(value))
        raise ValueError(f"{place} must be {_describe(hint)}, not {found}. {_fix(value, hint)}")


def _locate(place: str, value: Any, hint: Any) -> tuple[str, Any, Any]:
    """The first wrong item of a list, with its place and type; the value itself if it is no list."""
    for option in _options(hint):
        if get_origin(option) is Sequence and isinstance(value, list | tuple):
            [kind] = get_args(option)
            index = next(index for index, item in enumerate(value) if not _fits(item, kind))
            return _locate(f"{place}[{index}]", value[index], kind)
    return place, value, hint


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if _is_output(hint):
        return isinstance(value, pulumi.Output | Awaitable)
    if origin in (Annotated, Union, UnionType):
        return any(_fits(value, option) for option in _options(hint))
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
        return next((text for text in inner[1:] if isinstance(text, str)), "") or _describe(inner[0])
    if origin in (Union, UnionType):
        named = [_describe(item) for item in inner if not _is_output(item)]
        return " or ".join(named) + (", or an output" if len(named) < len(inner) else "")
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is Sequence:
        return f"a list of {_describe(inner[0]).removesuffix(', or an output')}"
    if origin is Mapping:
        return "a mapping of text to text" if inner == (str, str) else "a mapping"
    return NAMES.get(hint) or str(getattr(hint, "__name__", hint))


def _is_output(hint: Any) -> bool:
    """Whether it is a part of `pulumi.Input[T]`, which is `T | Awaitable[T] | "Output[T]"`."""
    return isinstance(hint, ForwardRef) or get_origin(hint) is Awaitable


def _fix(value: Any, hint: Any) -> str:
    """What to pass in place of a wrong value."""
    if isinstance(value, str):
        options = [*_options(hint)]
        if get_origin(hint) is Literal:
            return did_you_mean(value, map(str, get_args(hint)))
        if any(get_origin(option) is Sequence and _fits([value], option) for option in options):
            return f'Pass ["{value}"].'
        if modes := _modes(options):
            return f'Pass {{"mode": "{[*near(value, modes), *modes][0]}"}}.'
        for kind in options:
            if kind in _BY_NAME and _fits(value, (first := fields(kind)[0]).type):
                return f'Pass {{"{first.name}": "{value}"}}.'
    return f"Pass {_describe(hint)}."


def _options(hint: Any) -> Iterator[Any]:
    """The types that a value may have."""
    if get_origin(hint) is Annotated:
        yield from _options(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from _options(each)
    else:
        yield hint


def _is_constructed(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Constructed)


def _build(kind: type[A], given: Mapping[Any, Any], place: str = "") -> A:
    """An instance from a dictionary. The message of an error begins with the place of the dictionary."""
    try:
        return kind(**{str(key): value for key, value in given.items()})
    except ValueError as error:
        raise ValueError(f"{place}{error}") from None


def _choose(kinds: Sequence[Any], given: Mapping[Any, Any], place: str) -> Any:
    """The class that a dictionary means: the only one, that of its `mode`, or the one that has most of its keys."""
    if len(kinds) == 1:
        return kinds[0]
    if modes := _modes(kinds):
        mode = given.get("mode")
        if mode not in modes:
            wrong = f"{place}.mode is missing" if mode is None else f"{place}.mode is {mode!r}, which is unknown"
            raise ValueError(f"{wrong}. {did_you_mean(str(mode or ''), modes)}")
        return modes[str(mode)]
    return max(kinds, key=lambda kind: len({*given} & {field.name for field in fields(kind)}))


def _modes(kinds: Sequence[Any]) -> dict[str, Any]:
    """The sharing modes among these types, by name."""
    return {kind.model_fields["mode"].default: kind for kind in kinds if "mode" in getattr(kind, "model_fields", {})}
