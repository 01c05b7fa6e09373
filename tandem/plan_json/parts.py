"""What the parts of the report have in common: rounded numbers, and fields that are read from other objects."""

from typing import Annotated, Any

from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

Tenths = Annotated[float, AfterValidator(lambda value: round(value, 1))]
Cents = Annotated[float, AfterValidator(lambda value: round(value, 2))]
Price = Annotated[float, AfterValidator(lambda value: round(value, 4))]
Whole = Annotated[int, BeforeValidator(round)]


def at(path: str) -> Any:
    """A field whose value is at that path of attributes."""
    return Field(validation_alias=AliasPath(*path.split(".")))


class Report(BaseModel):
    """A part of the report."""

    model_config = ConfigDict(from_attributes=True, frozen=True, use_attribute_docstrings=True)
