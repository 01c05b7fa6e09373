"""Builds a component's arguments from the values that other languages send."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from plugin.arguments import NOTHING, Argument, Kind, read_arguments, read_kind, read_mode
from plugin.names import to_camel
from sharing.problems import did_you_mean

Values = Mapping[str, Any]


class WrongInputError(ValueError):
    """A value that no program can mean; the text names it and says what to pass."""


def build(made: type, values: Values, path: str) -> Any:
    """An instance of a public class from values with names in camelCase.

    Raises `WrongInputError` for an unknown, a missing or an unreadable value, and `ValueError` as the class does.
    """
    return _construct(made, _convert_all(read_arguments(made), values, path), path)


def _construct(made: type, given: Mapping[str, Any], path: str) -> Any:
    """An instance. The message of an error begins with its place, which the component's own arguments name."""
    try:
        return made(**given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}" if "." in path else str(error)) from None


def _convert_all(arguments: Sequence[Argument], values: Values, path: str) -> dict[str, Any]:
    kinds = {to_camel(argument.name): (argument, read_kind(argument.hint)) for argument in arguments}
    known = {name: each for name, each in kinds.items() if each[1] != NOTHING}
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if name not in known:
            raise WrongInputError(f"{path} has no argument {name!r}. {did_you_mean(name, known)}")
    for name, (argument, _) in known.items():
        if argument.is_required and name not in given:
            raise WrongInputError(f"{path}.{name} is missing. Pass it.")
    return {known[name][0].name: _convert(known[name][1], value, f"{path}.{name}") for name, value in given.items()}


def _convert(kind: Kind, value: Any, path: str) -> Any:
    """The value as the class takes it. A wrong one stays as it is, because the class says what is wrong with it."""
    if isinstance(value, pulumi.Output):
        if kind.is_input or kind.name == "any":
            return value
        raise WrongInputError(f"{path} depends on another resource, but decides what exists. Pass a plain value.")
    match kind.name, value:
        case "integer", float() if value.is_integer():
            # All numbers arrive as floats: google.protobuf.Struct has no others.
            return int(value)
        case "list", list():
            return [_convert(read_kind(kind.parts[0]), one, f"{path}[{at}]") for at, one in enumerate(value)]
        case "map", dict():
            return {key: _convert(read_kind(kind.parts[0]), one, f"{path}.{key}") for key, one in value.items()}
        case "object", dict():
            return build(kind.parts[0], value, path)
        case "mode", dict():
            return _choose_mode(kind.parts, value, path)
        case "either", _:
            return _convert(_choose([read_kind(part) for part in kind.parts], value), value, path)
    return value


def _choose_mode(members: Sequence[Any], value: Values, path: str) -> Any:
    by_mode = {member.model_fields["mode"].default: member for member in members}
    given = _convert_all(read_mode(members), value, path)
    if given["mode"] not in by_mode:
        fix = did_you_mean(str(given["mode"]), by_mode)
        raise WrongInputError(f"{path}.mode is {given['mode']!r}, which is no sharing mode. {fix}")
    return _construct(by_mode[given["mode"]], given, path)


def _choose(kinds: Sequence[Kind], value: Any) -> Kind:
    """The type that has all names of the value; the first, if none has."""
    return next((kind for kind in kinds if _fits(kind, value)), kinds[0])


def _fits(kind: Kind, value: Any) -> bool:
    if isinstance(value, dict):
        names = read_arguments(kind.parts[0]) if kind.name == "object" else []
        return value.keys() <= {to_camel(argument.name) for argument in names}
    return kind.name != "object" and isinstance(value, list) == (kind.name == "list")
