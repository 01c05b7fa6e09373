"""The schema of the package, from which Pulumi writes an SDK for each language.

python -m plugin.schema            writes plugin/schema.json
"""

import json
import sys
import tomllib
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import pulumi

import components
from plugin.arguments import NOTHING, Argument, Kind, read_arguments, read_kind, read_mode, read_outputs
from plugin.names import read_public, to_camel, to_pascal, translate, with_default
from sharing.names import PROJECT, TOKEN

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "plugin" / "schema.json"
NAMESPACE = "tandem-gpu"
"""Of the SDKs: npm's `@tandem-gpu/tandem`. Without it they would be named after Pulumi."""
TYPES = {"text": "string", "integer": "integer", "number": "number", "truth": "boolean"}
SHARING = "Sharing"
"""The one type of all sharing modes."""
LANGUAGES = ("nodejs", "python", "csharp", "java", "go")


def served() -> list[type[pulumi.ComponentResource]]:
    """Every public component."""
    return [kind for kind in read_public().values() if issubclass(kind, pulumi.ComponentResource)]


def arguments_of(component: type) -> type:
    """The class of a component's arguments."""
    found: type = getattr(components, f"{component.__name__}Args")
    return found


class Owner(NamedTuple):
    """The class with an argument or an output, and its name in other languages."""

    name: str
    made: type


class Schema:
    """Collects the types while it describes the components."""

    def __init__(self) -> None:
        self.types: dict[str, Any] = {}
        self._owners: dict[str, Owner] = {}
        given = [kind for kind in read_public().values() if kind not in served()]
        self._names = {one.name for kind in given for one in read_arguments(kind)}
        self._names |= {one.name for kind in served() for one in read_outputs(kind)}

    def package(self) -> dict[str, Any]:
        """The whole schema. Its form: https://www.pulumi.com/docs/iac/guides/building-extending/packages/schema/"""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        resources = {TOKEN.format(component.__name__): self._component(component) for component in served()}
        return {
            "name": PROJECT,
            "version": project["version"],
            "namespace": NAMESPACE,
            "description": project["description"],
            "license": project["license"],
            "language": {language: {"respectSchemaVersion": True} for language in LANGUAGES},
            "resources": resources,
            "types": dict(sorted(self.types.items())),
        }

    def _component(self, component: type) -> dict[str, Any]:
        given = arguments_of(component)
        inputs, required = self._properties(read_arguments(given), Owner(given.__name__, given))
        outputs, _ = self._properties(read_outputs(component), Owner(component.__name__, component), are_outputs=True)
        optional = [
            to_camel(one.name) for one in read_outputs(component) if type(None) in get_args(get_args(one.hint)[0])
        ]
        return {
            "isComponent": True,
            "description": translate(component.__doc__ or "", self._names),
            "inputProperties": inputs,
            "requiredInputs": required,
            "properties": outputs,
            "required": [name for name in outputs if name not in optional],
        }

    def _properties(
        self, arguments: Sequence[Argument], owner: Owner, *, are_outputs: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """The properties of one class, and the names of those that are required."""
        found, required = {}, []
        for argument in arguments:
            kind = read_kind(argument.hint)
            if kind == NOTHING:
                continue
            name = to_camel(argument.name)
            described = self._describe(kind, argument, owner, plain=not are_outputs)
            found[name] = {**described, "description": self._meaning(argument)}
            if argument.is_required:
                required.append(name)
        return found, required

    def _meaning(self, argument: Argument) -> str:
        text = argument.meaning if argument.is_required else with_default(argument.meaning, argument.default)
        return translate(text, self._names)

    def _describe(self, kind: Kind, argument: Argument, owner: Owner, *, plain: bool) -> dict[str, Any]:
        plain = plain and not kind.is_input
        described = self._shape(kind, argument, owner, plain=plain)
        return {**described, "plain": True} if plain else described

    def _shape(self, kind: Kind, argument: Argument, owner: Owner, *, plain: bool) -> dict[str, Any]:
        def describe(hint: Any) -> dict[str, Any]:
            part = read_kind(hint)
            # If objects in lists were plain, too, the SDK for Go would use types that it lacks (pulumi 3.260).
            in_list = kind.name in ("list", "map") and part.name == "object"
            return self._describe(part, argument, owner, plain=plain and not in_list)

        match kind.name:
            case "list":
                return {"type": "array", "items": describe(kind.parts[0])}
            case "map":
                return {"type": "object", "additionalProperties": describe(kind.parts[0])}
            case "either":
                return {"oneOf": [describe(part) for part in kind.parts]}
            case "any":
                return {"$ref": "pulumi.json#/Any"}
            case "choice":
                return self._choice(kind.parts, argument, owner)
            case "mode":
                return self._object(Owner(SHARING, kind.parts[0]), "How pods share a GPU.", read_mode(kind.parts))
            case "object":
                [other] = kind.parts
                return self._object(Owner(other.__name__, other), other.__doc__ or "", read_arguments(other))
        return {"type": TYPES[kind.name]}

    def _object(self, owner: Owner, text: str, arguments: Sequence[Argument]) -> dict[str, Any]:
        token = TOKEN.format(owner.name)
        if self._owners.setdefault(owner.name, owner) != owner:
            raise ValueError(f"{owner.name} is the name of two types. Rename one of them.")
        if token not in self.types:
            self._names |= {argument.name for argument in arguments}
            self.types[token] = {"type": "object", "description": translate(text, self._names)}
            properties, required = self._properties(arguments, owner)
            self.types[token] |= {"properties": properties, "required": required}
        return {"$ref": f"#/types/{token}"}

    def _choice(self, values: Sequence[str], argument: Argument, owner: Owner) -> dict[str, Any]:
        name = _alias(values, owner.made) or owner.name.removesuffix("Args") + to_pascal(to_camel(argument.name))
        described = {
            "type": "string",
            "enum": [{"name": to_pascal(value), "value": value} for value in values],
        }
        if self.types.setdefault(TOKEN.format(name), described) != described:
            raise ValueError(f"{name} is the name of two types. Rename one of them.")
        return {"$ref": f"#/types/{TOKEN.format(name)}"}


def _alias(values: Sequence[str], made: type) -> str:
    """The name that the modules of a class give to these values, e.g. `Nat`; empty if they have none."""
    for base in made.__mro__:
        for name, value in vars(sys.modules[base.__module__]).items():
            is_literal = get_origin(value) is Literal and get_args(value) == tuple(values)
            if is_literal or (_values(value) == list(values)):
                return name
    return ""


def _values(value: object) -> list[str]:
    return [member.value for member in value] if isinstance(value, type) and issubclass(value, Enum) else []


def text() -> str:
    """The schema as the file has it."""
    return json.dumps(Schema().package(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
