"""The base of all sections of a stack file, and the types that several of them use."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from sharing.verdict.rules.cost_alerts import is_email
from stacks.stack_file.yaml import decode

NUMBER_IN_TEXT = r"[0-9]{1,6}(\.[0-9]{1,6})?"


def from_json(value: object) -> object:
    """The value, with each list or mapping that is written as JSON text, as `pulumi config set` writes it with and
    without `--path` (pulumi, resource/config/object.go)."""
    if isinstance(value, dict):
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    is_json = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return decode(value) if is_json else value


def kebab(name: str) -> str:
    """A key as the stack file writes it."""
    return name.replace("_", "-")


class Section(BaseModel):
    """A part of the stack file. kebab-case there, snake_case here; unknown keys and wrong types are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=kebab,
        validate_by_alias=True,
        validate_by_name=True,
        protected_namespaces=(),
    )


def _number_from_text(value: object) -> object:
    # `pulumi config set --path` stores whole numbers as numbers but 0.5 as text (pulumi, resource/config/object.go).
    if isinstance(value, str) and re.fullmatch(NUMBER_IN_TEXT, value):
        return float(value)
    return value


def _email(text: str) -> str:
    if not is_email(text):
        raise ValueError("must be an e-mail address")
    return text


Email = Annotated[str, AfterValidator(_email)]
Number = Annotated[float, BeforeValidator(_number_from_text)]
