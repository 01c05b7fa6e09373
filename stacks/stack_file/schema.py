"""The JSON schema of stack files, for editors: completion, descriptions, and errors while you type."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from sharing.names import PROJECT
from sharing.section import NUMBER_IN_TEXT
from sharing.sections.config import StackConfig
from stacks.stack_file.yaml import FILE_KEYS

FILE = "stack.schema.json"
"""File name of the written schema."""
OTHER_NAMESPACES = rf"^(?!{PROJECT}:|aws:)[a-z][a-z0-9-]*:"
"""Keys of other programs and providers."""
BOUNDS = {"gt": "exclusiveMinimum", "le": "maximum"}
"""Bounds that pydantic does not translate if a number may also be text, with their names in JSON schema."""


class _WithoutTitles(GenerateJsonSchema):
    """Titles repeat the key, and editors show them above its description."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def stack_schema() -> dict[str, Any]:
    """The schema, as plain data."""
    config = StackConfig.model_json_schema(schema_generator=_WithoutTitles)
    models = config.pop("$defs")
    for model in models.values():
        del model["title"]
        if "mode" in model.get("properties", {}):
            # It decides which mode's keys apply, so a file cannot omit it.
            model["required"] = ["mode"]
    properties = {
        key if ":" in key else f"{PROJECT}:{key}": _or_json_text(setting)
        for key, setting in config["properties"].items()
    }
    required = [key if ":" in key else f"{PROJECT}:{key}" for key in config["required"]]
    settings = {
        "type": "object",
        "properties": properties,
        "patternProperties": {OTHER_NAMESPACES: {}},
        "additionalProperties": False,
        "required": required,
    }
    whole: dict[str, Any] = _or_number_in_text(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "description": "A stack file of `tandem`.",
            "type": "object",
            "properties": {**{key: {} for key in FILE_KEYS}, "config": settings},
            "additionalProperties": False,
            "required": ["config"],
            "$defs": models,
        }
    )
    return whole


def _or_json_text(setting: dict[str, Any]) -> dict[str, Any]:
    """A top-level key: `pulumi config set` without `--path` writes each of its values as text."""
    types = {each.get("type") for each in (setting, *setting.get("anyOf", ()))}
    if "string" in types:
        return setting
    if "boolean" in types:
        return {**setting, "type": ["boolean", "string"], "pattern": "^(true|false)$"}
    about: dict[str, Any] = {key: setting.pop(key) for key in ("description", "default") if key in setting}
    return {**about, "anyOf": [setting, {"type": "string", "pattern": r"^\s*[{\[]"}]}


def _or_number_in_text(schema: Any) -> Any:
    """The schema, in which each number may also be text: `pulumi config set --path` writes 0.5 as text."""
    if isinstance(schema, list):
        return [_or_number_in_text(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        bounds = {BOUNDS.get(key, key): value for key, value in schema.items()}
        return {**bounds, "type": ["number", "string"], "pattern": f"^{NUMBER_IN_TEXT}$"}
    return {key: _or_number_in_text(value) for key, value in schema.items()}
