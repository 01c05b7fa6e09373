"""The base of all sections of a stack file, and the types that several of them use."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

# RFC 5321, 4.5.3.1: at most 64 characters before the @, and 254 in total. Quoted local parts and addresses without a
# domain exist, but no mail provider issues them.
_EMAIL = re.compile(
    r"(?=.{3,254}$)[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}"
)
NUMBER_IN_TEXT = r"[0-9]{1,6}(\.[0-9]{1,6})?"


@dataclass(frozen=True, slots=True)
class Fix:
    """How to mend a wrong value of a field, in its type; for fields whose `examples` do not say enough."""

    text: str
    """A sentence or several."""


def kebab(name: str) -> str:
    """A key as the stack file writes it."""
    return name.replace("_", "-")


class WrongFormError(ValueError):
    """The message says what a value must be. That of another `ValueError` has the value as its subject."""


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

    def changed(self, **values: Any) -> Self:
        """A copy with other values, which nobody judges here: to try what a change would bring.

        Not `model_copy(update=…)`: that keeps what was computed from the old values, and marks the new ones as written
        in the file.
        """
        other = self.model_copy()
        vars(other).update(values)
        for name in vars(other).keys() - self.__pydantic_fields__.keys():
            if f"_{name}" not in self.__private_attributes__:
                del vars(other)[name]
        return other

    def _with(self, **values: Any) -> Self:
        """A copy with other values that are in no file, such as its path there. `path` is that of `_path`, but is read
        ten times as fast: pydantic looks up private attributes in Python.
        """
        other = self.changed()
        for name, value in values.items():
            setattr(other, f"_{name}", value)
            vars(other).pop(name, None)
        return other


def _number_from_text(value: object) -> object:
    # `pulumi config set --path` stores whole numbers as numbers but 0.5 as text (pulumi, resource/config/object.go).
    if isinstance(value, str) and re.fullmatch(NUMBER_IN_TEXT, value):
        return float(value)
    return value


def is_email(text: str) -> bool:
    """Whether AWS can send e-mail to this address, as far as its form shows."""
    return _EMAIL.fullmatch(text) is not None


def _email(text: str) -> str:
    if not is_email(text):
        raise WrongFormError("must be an e-mail address")
    return text


Email = Annotated[str, AfterValidator(_email)]
Number = Annotated[float, BeforeValidator(_number_from_text)]
