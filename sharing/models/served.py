"""The items of `models` in a stack file: how a model is served.

The rules read them as they are. `StackConfig` fills in what the file leaves open; `of` describes a model of no file.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from sharing.models.catalogue import KvType, Model, find
from sharing.models.engine import ModelInEngine
from sharing.models.importance import Importance
from sharing.models.share import Share
from sharing.names import model_id
from sharing.problems import Problem
from sharing.section import Fix, Section

Cache = Literal["node", "volume"]
PROMPT_CACHE_MIB = 0
"""Default RAM in which one server keeps earlier prompts: none, see decision 0152. The engine's own default is 8192."""
DEFAULT_CONTEXT = 4096
"""Ollama's own for a GPU of less than 24 GiB (ollama v0.32.15, docs/context-length.mdx). Every command has the same."""
MODEL_NAME = (
    r"^(([A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}/)?[A-Za-z0-9_][A-Za-z0-9_-]{0,79}/)?"
    r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,79})?$"
)
"""`host:port/namespace/model:tag`, of which only the model is required. Source: ollama v0.32.15 types/model/name.go."""


class ServedModel(Section, ModelInEngine):
    """One model and how it is served."""

    name: Annotated[str, Fix("Write a tag as in `ollama pull`, e.g. llama2:7b.")] = Field(
        pattern=MODEL_NAME, description="An Ollama tag, e.g. `llama2:7b`."
    )
    gguf: Annotated[
        str | None,
        Fix("Write a GGUF file, its URL, or the file that `tandem models inspect NAME --write FILE.json` writes."),
    ] = Field(
        default=None,
        pattern=r"^[^\x00-\x1f\x7f]{1,2048}$",
        examples=["my-model.json"],
        description="Describes a model that neither the catalogue nor a registry has: a GGUF file, its URL, or the "
        "JSON file of `tandem models inspect`. Relative to the stack file.",
    )
    given_id: Annotated[str | None, Fix("Use up to 40 lower-case letters, digits and dashes; begin with a letter.")] = (
        Field(
            alias="id",
            default=None,
            pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$",
            description="Name of its release and Service. Default: the tag with dashes (`llama2-7b`, `llama2-7b-2`).",
        )
    )
    context: int = Field(
        default=DEFAULT_CONTEXT,
        ge=256,
        le=1_048_576,
        description="Tokens per request. A model that supports less has its maximum as the default.",
    )
    slots: int = Field(default=1, ge=1, le=64, description="Concurrent requests; each has its own KV cache.")
    kv_type: Annotated[KvType, Field(strict=False)] = Field(
        default=KvType.F16,
        description="KV cache: `f16`, or with flash attention `q8_0` (half the size) or `q4_0` (a quarter).",
    )
    batch: int | None = Field(
        default=None,
        ge=32,
        le=8192,
        examples=[512],
        description="Tokens per step. Fewer tokens save memory but slow prompts down. Default: Ollama's choice.",
    )
    prompt_cache_mib: Annotated[
        int, Fix("Write `prompt-cache-mib: 0` for none; -1 (no limit) would end in an OOM kill.")
    ] = Field(
        default=PROMPT_CACHE_MIB,
        ge=0,
        le=1_048_576,
        description="RAM for conversations that have lost their slot, in MiB. It saves time only if two fit, and if "
        "two copies take less time than reading a prompt again.",
    )
    cache: Cache = Field(
        default="node",
        description="Location of the model files: the node's disk (`node`) or a separate EBS volume (`volume`).",
    )
    given_pool: str | None = Field(
        alias="pool", default=None, description="Name of the pool that it runs on, if `gpu-nodes` is a list."
    )
    importance: Importance | None = Field(
        default=None,
        description="Who keeps running when shares are short: a waiting model takes the share of a less important one. "
        "Default: `normal` if another model has an importance.",
    )
    spill: Annotated[list[str], Field(max_length=9), Fix("Write the names of other pools: `spill: [rest]`.")] = Field(
        default=[],
        description="Names of other pools that it may run on while its own has no free share, the first choice first. "
        "The models that it meets there must fit beside it.",
    )
    share: Annotated[Share | None, Fix("Remove it, or write its keys `memory-gib` and `compute-percent`.")] = Field(
        default=None,
        examples=[{"memory-gib": 9, "compute-percent": 60}],
        description="With `sharing.limits: per-model`: what it may use of its GPU, e.g. `{memory-gib: 9, "
        "compute-percent: 60}`. Default: the plan sets a limit of memory.",
    )

    _id: str = ""
    _pool: str = ""
    _index: int = 0
    _model: Model | None = None

    @classmethod
    def of(cls, model: Model, *, id: str = "", **settings: Any) -> Self:
        """`model` with these settings, which nobody judges here; the others have the defaults of a stack file."""
        served = cls.model_construct(name=model.name, given_id=id or None, **settings)
        served._id, served._model = id or model_id(model.name), model
        return served

    def placed(self, index: int, id: str, pool: str) -> Self:
        """The model at that place of its stack file, with its id and pool, and the context that it supports."""
        model = self.find_model()
        placed = self._with(index=index, id=id, pool=pool, model=model)
        if model and "context" not in self.model_fields_set:
            return placed.changed(context=placed.effective_context)
        return placed

    def with_model(self, model: Model) -> Self:
        """The same settings for a model of another size or shape."""
        return self._with(model=model)

    def __hash__(self) -> int:
        # Pydantic's own needs every value to have one, and a list has none.
        return hash((self.name, self.context, self.slots, self.kv_type, self.batch, self.prompt_cache_mib))

    @cached_property
    def id(self) -> str:
        """Name of its release and Service, e.g. `llama2-7b`."""
        return self._id

    @cached_property
    def pool(self) -> str:
        """Name of the pool that it runs on; empty if the file does not say which of several."""
        return self._pool

    @cached_property
    def index(self) -> int:
        """Its place in the stack file, from 0."""
        return self._index

    @cached_property
    def path(self) -> str:
        """Its path in the stack file, e.g. `models[0]`."""
        return f"models[{self.index}]"

    @cached_property
    def model(self) -> Model:
        """Its size and shape."""
        assert self._model, f"{self.name} is unknown"
        return self._model

    @property
    def volume_gib(self) -> int:
        """Size of its own EBS volume; 0 if its files are on the node."""
        return 0 if self.cache == "node" else self.model.volume_gib

    @property
    def given_limit_mib(self) -> int | None:
        """The memory limit that the file gives it; None if it gives none."""
        return self.share.memory_mib if self.share else None

    def find_model(self) -> Model | None:
        """The model with its shape; None if it was not looked up, and the catalogue does not answer for it."""
        return self._model or (None if self.gguf else find(self.name))


def judge_context(served: ServedModel, path: str) -> Iterator[Problem]:
    """Finds a context that is longer than the model's maximum; `path` is that of the model."""
    if served.effective_context < served.context:
        rule = f"is more than the {served.effective_context:,} tokens that {served.model.name} supports"
        yield Problem(f"{path}.context", str(served.context), rule, f"Write `context: {served.effective_context}`.")
