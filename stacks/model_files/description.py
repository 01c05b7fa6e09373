"""The description of a model as JSON: `tandem models inspect NAME --write FILE.json`, and what the cache keeps."""

from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from sharing.models.catalogue import Model, full_name, largest_vocabulary
from sharing.printable import without_secrets
from stacks.model_files.errors import UnreadableModelError

SCHEMA_VERSION = 1
MOST_JSON = 2**16
"""Bytes of a description. It has about 600."""
MOST_BYTES = 2**41
"""2,048 GiB."""
REQUIRED = ("weights_bytes", "layers", "kv_heads", "head_dim")
OF_FILE = ("name", "source")
"""Fields of `Model` that are beside the shape: the stack file has the name."""
TEXTS = {"architecture": r"^([a-z0-9][a-z0-9._-]{0,63})?$", "quant": r"^[A-Za-z0-9_.-]{0,32}$"}
MOST = {
    "layers": 1024,
    "heads": 1024,
    "kv_heads": 1024,
    "head_dim": 4096,
    "value_dim": 4096,
    "max_context": 2**31,
    "swa_layers": 1024,
    "swa_window": 2**31,
    "swa_kv_heads": 1024,
    "swa_head_dim": 4096,
    "shared_kv_layers": 1024,
    "recurrent_layers": 1024,
    "mla_rank": 65_536,
    "width": 1_048_576,
    "feed_forward": 16_777_216,
    "vocabulary": 4_194_304,
    "experts": 4096,
    "experts_used": 4096,
}
"""Limits of numbers, which bound the time of the rules; all others are bytes."""
BOTH_WAYS = (("swa_layers", "swa_window"), ("recurrent_layers", "recurrent_state_bytes"), ("experts", "experts_used"))
"""Pairs of numbers that need each other."""
NEEDS = (("swa_kv_heads", "swa_layers"), ("swa_head_dim", "swa_layers"))
"""Numbers that need another one."""
KINDS_OF_LAYERS = ("swa_layers", "shared_kv_layers", "recurrent_layers")
"""Layers of these kinds exclude each other; the rest keep keys and values of every token."""
AT_MOST = (
    ("kv_heads", "heads"),
    ("swa_kv_heads", "heads"),
    ("experts_used", "experts"),
    ("swa_window", "max_context"),
    ("embedding_bytes", "weights_bytes"),
    ("expert_bytes", "weights_bytes"),
)
"""Numbers that are not above another one, where that is known."""


def _field(name: str, default: Any) -> Any:
    if name in TEXTS:
        return str, Field(default="", pattern=TEXTS[name])
    if isinstance(default, bool):
        return bool, Field(default=default)
    most = MOST.get(name, MOST_BYTES)
    if name in REQUIRED:
        return int, Field(ge=1, le=most)
    return int, Field(default=0 if default is MISSING else default, ge=0, le=most)


Shape: Any = create_model(
    "Shape",
    __config__=ConfigDict(frozen=True, extra="forbid", strict=True),
    **{field.name: _field(field.name, field.default) for field in fields(Model) if field.name not in OF_FILE},
)
"""The fields of `Model`, with bounds: nobody trusts a file."""


class Description(BaseModel):
    """A model without its name, and where its numbers come from."""

    model_config = ConfigDict(frozen=True, strict=True)

    schema_version: int = Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    source: Annotated[str, AfterValidator(without_secrets)] = ""
    digest: str | None = Field(default=None, pattern=r"^sha256:[0-9a-f]{64}$")
    """Of the GGUF file, in a registry."""
    model: Shape

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for problem in find_contradictions(self.model.model_dump()):
            raise ValueError(problem)
        return self

    @classmethod
    def of(cls, model: Model, *, digest: str | None = None) -> Self:
        """The description of `model`. Raises `UnreadableModelError` if its numbers contradict each other."""
        shape = {key: value for key, value in asdict(model).items() if key not in OF_FILE}
        values = {"schema_version": SCHEMA_VERSION, "source": model.source, "digest": digest, "model": shape}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            what = f"{model.source} contradicts itself ({first_of(error)})"
            raise UnreadableModelError(what, "Download it again.") from None

    def named(self, name: str) -> Model:
        """The model under the name that its pods pull."""
        shape = self.model.model_dump()
        shape["vocabulary"] = shape["vocabulary"] or largest_vocabulary()
        return Model(name=full_name(name), source=self.source or "a description", **shape)

    def as_dict(self) -> dict[str, Any]:
        """What the file has: no numbers that are 0."""
        shape = {key: value for key, value in self.model.model_dump().items() if value}
        about = {"schema_version": self.schema_version, "source": self.source, "digest": self.digest}
        return {**{key: value for key, value in about.items() if value}, "model": shape}


def find_contradictions(shape: dict[str, Any]) -> Iterator[str]:
    """Finds numbers that are valid alone but conflict with each other."""
    for key, needed in (*NEEDS, *(turned for pair in BOTH_WAYS for turned in (pair, pair[::-1]))):
        if shape[key] and not shape[needed]:
            yield f"`{key}` {shape[key]} has no effect without `{needed}`"
    kinds = {key: shape[key] for key in KINDS_OF_LAYERS if shape[key]}
    if sum(kinds.values()) > shape["layers"]:
        parts = " and ".join(f"{count} `{key}`" for key, count in kinds.items())
        yield f"`layers` {shape['layers']} is less than the sum of {parts}"
    for smaller, larger in AT_MOST:
        if shape[larger] and shape[smaller] > shape[larger]:
            yield f"`{smaller}` {shape[smaller]} is more than `{larger}` {shape[larger]}"


def first_of(error: ValidationError) -> str:
    """The first error, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
