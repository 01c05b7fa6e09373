"""The base of all sections of a stack file, and the types that several of them use."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from sharing.cost_alerts import is_email
from sharing.names import CONTROLLERS_TAGS

NUMBER_IN_TEXT = r"[0-9]{1,6}(\.[0-9]{1,6})?"


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


def _tag_key(key: str) -> str:
    if key.lower().startswith("aws:"):
        raise ValueError("has the prefix aws:, which AWS reserves")
    if key.startswith(CONTROLLERS_TAGS):
        raise ValueError("is reserved for EKS and Karpenter")
    if not re.fullmatch(r"[\w .:/=+@-]{1,128}", key):
        raise ValueError("must be 1 to 128 letters, digits, spaces or .:/=+@-_")
    return key


def _tag_value(text: str) -> str:
    if not re.fullmatch(r"[\w .:/=+@-]{0,256}", text):
        raise ValueError("must be at most 256 letters, digits, spaces or .:/=+@-_")
    return text


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
TagKey = Annotated[str, AfterValidator(_tag_key)]
TagValue = Annotated[str, AfterValidator(_tag_value)]
