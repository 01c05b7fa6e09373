"""Constructors of public classes that refuse a wrong value in one sentence, where pydantic prints several lines."""

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sharing.problems import did_you_mean

FIXES = {
    "greater_than_equal": "Pass {ge} or more.",
    "less_than_equal": "Pass {le} or less.",
    "greater_than": "Pass more than {gt}.",
}
"""By pydantic's type of error, with its context."""


class Constructed(BaseModel):
    """A class whose constructor raises `ValueError` for the first wrong value, with its fix.

    `model_validate`, which reads stack files, still raises pydantic's own error, which has all places.
    """

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(_explain(type(self), error.errors()[0])) from None

    # Otherwise pydantic would use this constructor for sections of a stack file, too, and lose the place of an error.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as pydantic marks its own (main.py)


def _explain(made: type[BaseModel], detail: ErrorDetails) -> str:
    name, wrong, known = str(detail["loc"][0]), detail["input"], list(made.model_fields)
    if detail["type"] == "extra_forbidden":
        return f"{made.__name__} has no argument {name!r}. {did_you_mean(name, known)}"
    if detail["type"] == "missing":
        return f"{made.__name__}.{name} is missing. Pass it."
    rule = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, must be ")
    fix = FIXES.get(detail["type"], f"Pass {rule}.").format(**detail.get("ctx", {}))
    return f"{made.__name__}.{name} must be {rule}, not {wrong!r}. {fix}"
