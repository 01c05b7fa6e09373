"""Replies of servers: each is validated once, and made printable."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sharing.printable import one_line

Text = Annotated[str, AfterValidator(one_line)]
Number = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
"""As in Go: a larger one would not fit into a float, as which sizes are shown."""
Shape = TypeVar("Shape", bound=BaseModel)


class Reply(BaseModel):
    """A part of a reply. Undeclared fields are ignored; null counts as absent."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class MalformedError(Exception):
    """A reply of another shape; the text says where."""


def checked(shape: type[Shape], body: bytes) -> Shape:
    """The reply in its shape; raises `MalformedError`, which shows no value.

    pydantic's parser ends at 200 levels of nesting with an error, where Python's own ends with `RecursionError`.
    """
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = one_line(".".join(map(str, first["loc"])))
        raise MalformedError(f"{where}: {first['msg']}" if where else first["msg"]) from None
