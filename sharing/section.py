"""The base of all sections of a stack file, and the types that several of them use."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from sharing.problems import did_you_mean

# RFC 5321, 4.5.3.1: at most 64 characters before the @, and 254 in total. Quoted local parts and addresses without a
# domain exist, but no mail provider issues them.
_EMAIL = re.compile(
    r"(?=.{3,254}$)[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}"
)
NUMBER_IN_TEXT = r"[0-9]{1,6}(\.[0-9]{1,6})?"
FIXES_IN_PYTHON = {
    "greater_than_equal": "Pass {ge} or more.",
    "less_than_equal": "Pass {le} or less.",
    "greater_than": "Pass more than {gt}.",
}
"""Fixes of a wrong argument, by pydantic's type of error, with its context."""
RULES_IN_PYTHON = {"a valid integer": "a whole number", "a valid number": "a number", "a valid string": "text"}
"""Our words for those of pydantic."""


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

    def __init__(self, rule: str, fix: str = "") -> None:
        super().__init__(rule)
        self.fix = fix
        """What to write in place of this value; empty if the field's own fix is as good."""


class Section(BaseModel):
    """A part of the stack file. kebab-case there, snake_case here; unknown keys and wrong types are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=kebab,
        validate_by_name=True,
    )

    def changed(self, **values: Any) -> Self:
        """A copy with other values, which nobody judges here: to try what a change would bring.

        Not `model_copy(update=…)`: that keeps what was computed from the old values, and marks the new ones as written
        in the file. Advice needs this mark on the modes that it proposes: `sharing.sections.changes` names them.
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


class Constructed(BaseModel):
    """A part of a stack file that programs construct, too, e.g. `Mps(replicas=2)`.

    The constructor raises `ValueError` with one sentence and its fix, where pydantic prints several lines.
    """

    def __init__(self, /, *unnamed: Any, **values: Any) -> None:
        if unnamed:
            example = next(name for name, field in type(self).model_fields.items() if name != "mode")
            raise ValueError(f"{type(self).__name__} takes arguments by name only. Pass `{example}=…`, for example.")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(_explain(type(self), error.errors()[0])) from None

    # Otherwise pydantic would also call it when it reads a stack file, and lose the place of an error there.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as pydantic marks its own (main.py)


def _explain(made: type[BaseModel], detail: ErrorDetails) -> str:
    """The sentence for a wrong argument of a constructor."""
    name, wrong, known = str(detail["loc"][0]), detail["input"], list(made.model_fields)
    if detail["type"] == "extra_forbidden":
        return f"{made.__name__} has no argument {name!r}. {did_you_mean(name, known)}"
    if detail["type"] == "missing":
        return f"{made.__name__}.{name} is missing. Pass it."
    rule = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, must be ")
    rule = RULES_IN_PYTHON.get(rule, rule)
    fix = FIXES_IN_PYTHON.get(detail["type"], f"Pass {rule}.").format(**detail.get("ctx", {}))
    return f"{made.__name__}.{name} must be {rule}, not {wrong!r}. {fix}"


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
