"""Replies of an Ollama server: the fields that tandem reads. Source: ollama v0.32.15, api/types.go."""

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sharing.printable import one_line

Text = Annotated[str, AfterValidator(one_line)]
Number = Annotated[int, Field(strict=True, ge=0)]
Shape = TypeVar("Shape", bound=BaseModel)

LONGEST_REASON = 300
"""Characters shown of a server's message."""


class Reply(BaseModel):
    """A part of a reply. Undeclared fields are ignored; null counts as absent."""

    model_config = ConfigDict(frozen=True)


class MalformedError(Exception):
    """A reply of another shape; the text says where."""


class _EngineError(Reply):
    message: Text


class Failure(Reply):
    """An error, alone or in a stream: Ollama's text, or an object of the engine below it."""

    error: Text | _EngineError | None = None

    @property
    def reason(self) -> str:
        """The server's reason; empty if it is not a failure."""
        said = self.error.message if isinstance(self.error, _EngineError) else self.error
        return (said or "")[:LONGEST_REASON]


class Version(Reply):
    """`/api/version`."""

    version: Text


class Details(Reply):
    """The kind of a model."""

    format: Text | None = None
    family: Text | None = None
    parameter_size: Text | None = None
    quantization_level: Text | None = None


class Model(Reply):
    """A model of the server."""

    name: Text
    digest: Text | None = None
    size: Number | None = None
    """Bytes."""
    details: Details | None = None


class Tags(Reply):
    """`/api/tags`."""

    models: list[Model] | None = None


class Loaded(Reply):
    """A model in the server's memory."""

    name: Text
    size: Number = 0
    """Its bytes, on GPU or CPU."""
    size_vram: Number = 0
    """Bytes of them on the GPU."""
    context_length: Number = 0
    """Tokens."""
    expires_at: Text = ""
    """When it is unloaded, as ISO 8601; a far future means never."""


class Ps(Reply):
    """`/api/ps`."""

    models: list[Loaded] | None = None


class Tensor(Reply):
    """A tensor of a model."""

    name: Text
    type: Text
    shape: list[Number]


class Shown(Reply):
    """`/api/show`, verbose."""

    details: Details | None = None
    model_info: dict[str, Any] | None = None
    tensors: list[Tensor] | None = None
    projector_info: dict[str, Any] | None = None
    remote_host: Text | None = None


class Generated(Failure):
    """A line of `/api/generate`, or all of it. The last has the figures, times in nanoseconds."""

    response: str | None = None
    thinking: str | None = None
    done: bool = False
    done_reason: Text | None = None
    prompt_eval_count: Number | None = None
    eval_count: Number | None = None
    total_duration: Number | None = None
    load_duration: Number | None = None
    prompt_eval_duration: Number | None = None
    eval_duration: Number | None = None


class _Message(Reply):
    content: str | None = None
    thinking: str | None = None


class Chatted(Failure):
    """A line of `/api/chat`. The last has the tokens of the answer, and the nanoseconds that they took."""

    message: _Message | None = None
    done: bool = False
    done_reason: Text | None = None
    eval_count: Number | None = None
    eval_duration: Number | None = None


class Embedded(Reply):
    """`/api/embed`."""

    embeddings: list[list[Any]] | None = None
    load_duration: Number | None = None


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


def refusal(status: int, body: bytes) -> str:
    """A server's refusal, e.g. `503: server busy`."""
    try:
        said = checked(Failure, body).reason
    except MalformedError:
        said = one_line(body[:LONGEST_REASON])
    return f"{status}: {said}" if said else str(status)
