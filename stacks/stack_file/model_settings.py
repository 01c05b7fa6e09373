"""What the stack file says about one model: how it is served and, where the catalogue lacks it, what it is."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from sharing.models import PROMPT_CACHE_MIB, KvType, Model, find, largest_vocabulary
from sharing.problems import Problem
from sharing.setup import Cache
from stacks.stack_file.section import Number, Section, kebab

GIB = 2**30
DECIMALS = 10
"""Of a number of GiB that is exact to the byte."""
MOST_BYTES = 2**41
"""2,048 GiB, as for `weights-gib`."""
OWN_NUMBERS = ("weights-gib", "layers", "kv-heads", "head-dim")
"""What a description of an own model needs; the other own-model keys have a default."""
MODEL_NAME = (
    r"^(([A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}/)?[A-Za-z0-9_][A-Za-z0-9_-]{0,79}/)?"
    r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,79})?$"
)
"""`host:port/namespace/model:tag`, of which only the model is required. Source: ollama v0.32.15 types/model/name.go."""


class ModelSettings(Section):
    """One model and how it is served."""

    name: str = Field(pattern=MODEL_NAME, description="An Ollama tag, e.g. `llama2:7b`.")
    id: str | None = Field(
        default=None,
        pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$",
        description="Name of its release and Service; the tag with dashes when absent (`llama2-7b`, `llama2-7b-2`).",
    )
    context: int = Field(default=4096, ge=256, le=1_048_576, description="Tokens per request.")
    slots: int = Field(default=1, ge=1, le=64, description="Requests at a time; each has its own KV cache.")
    kv_type: Annotated[KvType, Field(strict=False)] = Field(
        default=KvType.F16, description="KV cache: `f16`, or `q8_0` (half), `q4_0` (a quarter), with flash attention."
    )
    batch: int | None = Field(
        default=None,
        ge=32,
        le=8192,
        description="Tokens per step: fewer save memory and slow prompts down; Ollama's choice when absent.",
    )
    prompt_cache_mib: int = Field(
        default=PROMPT_CACHE_MIB,
        ge=0,
        le=1_048_576,
        description="RAM for earlier prompts, so that an interrupted conversation goes on faster; 0 = none (MiB).",
    )
    cache: Cache = Field(
        default="node",
        description="Model files: on the node's disk (`node`), or on an EBS volume of its own (`volume`).",
    )
    pool: str | None = Field(
        default=None, description="Where `gpu-nodes` is a list: the name of the pool that it runs on."
    )
    weights_gib: Number | None = Field(
        default=None, gt=0, le=2048, allow_inf_nan=False, description="Own model: size of its language model (GiB)."
    )
    layers: int | None = Field(default=None, ge=1, le=1024, description="Own model: layers.")
    kv_heads: int | None = Field(default=None, ge=1, le=1024, description="Own model: KV heads.")
    head_dim: int | None = Field(default=None, ge=1, le=4096, description="Own model: values per head.")
    vocabulary: int | None = Field(
        default=None, ge=1, le=4_194_304, description="Own model: tokens it knows; the catalogue's largest when absent."
    )
    architecture: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$",
        description="Own model: its `general.architecture`, e.g. `gemma3`.",
    )
    max_context: int | None = Field(
        default=None, ge=1, le=2**31, description="Own model: tokens that it was made for; unknown when absent."
    )
    heads: int | None = Field(default=None, ge=1, le=1024, description="Own model: query heads; estimated when absent.")
    value_dim: int | None = Field(
        default=None, ge=1, le=4096, description="Own model: values per head of V; as `head-dim` when absent."
    )
    swa_layers: int | None = Field(
        default=None,
        ge=0,
        le=1024,
        description="Own model: layers with a sliding window, without those in `shared-kv-layers`.",
    )
    swa_window: int | None = Field(default=None, ge=0, le=2**31, description="Own model: tokens of that window.")
    swa_kv_heads: int | None = Field(
        default=None, ge=0, le=1024, description="Own model: KV heads of these layers; as `kv-heads` when absent."
    )
    swa_head_dim: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="Own model: values per head of these layers; as `head-dim` when absent.",
    )
    shared_kv_layers: int | None = Field(
        default=None,
        ge=0,
        le=1024,
        description="Own model: layers without a KV cache of their own, with or without a window (gemma3n, gemma4).",
    )
    recurrent_layers: int | None = Field(
        default=None, ge=0, le=1024, description="Own model: layers with a state of fixed size instead of a KV cache."
    )
    recurrent_state_bytes: int | None = Field(
        default=None, ge=0, le=MOST_BYTES, description="Own model: the states of these layers together, for one slot."
    )
    mla_rank: int | None = Field(
        default=None,
        ge=0,
        le=65_536,
        description="Own model: values per token and layer of multi-head latent attention (`kv_lora_rank` + RoPE).",
    )
    width: int | None = Field(
        default=None, ge=1, le=1_048_576, description="Own model: `embedding_length`; estimated when absent."
    )
    feed_forward: int | None = Field(
        default=None,
        ge=1,
        le=16_777_216,
        description="Own model: widest feed-forward layer, of the experts that a token uses; estimated when absent.",
    )
    experts: int | None = Field(default=None, ge=0, le=4096, description="Own model: experts of a layer.")
    experts_used: int | None = Field(default=None, ge=0, le=4096, description="Own model: experts that a token uses.")
    embedding_bytes: int | None = Field(
        default=None,
        ge=0,
        le=MOST_BYTES,
        description="Own model: its embedding where `output.weight` is separate: it stays on the CPU. 0 where tied.",
    )
    projector_bytes: int | None = Field(
        default=None,
        ge=0,
        le=MOST_BYTES,
        description="Own model: weights for pictures and sound, besides `weights-gib`.",
    )
    encoder: bool | None = Field(
        default=None, description="Own model: whether it makes embeddings and keeps no KV cache."
    )

    @property
    def own_numbers(self) -> dict[str, Any]:
        """What the file says about an own model, by key, absent keys left out."""
        return {key: value for key in OWN_KEYS if (value := getattr(self, key.replace("-", "_"))) is not None}

    def model(self) -> Model | None:
        """The model with its shape; None when neither the catalogue nor the file describes it."""
        own = {key.replace("-", "_"): value for key, value in self.own_numbers.items()}
        if not own:
            return find(self.name)
        if not set(OWN_NUMBERS) <= set(self.own_numbers):
            return None
        weights = round(own.pop("weights_gib") * GIB)
        defaults = {"max_context": 0, "vocabulary": largest_vocabulary()}
        return Model(**{**defaults, **own}, name=self.name, weights_bytes=weights, source="the stack file")

    def contradictions(self, path: str) -> Iterator[Problem]:
        """Keys that are fine alone and wrong together; `path` is where the model is in the file."""
        own = self.own_numbers
        model = self.model()
        if model and model.encoder and self.batch and self.batch < min(self.context, model.max_context or self.context):
            rule = f"an embedding model reads a text in one step, and {self.context} tokens may come"
            yield Problem(f"{path}.batch", str(self.batch), rule, "Remove `batch`.")
        if own and (missing := [key for key in OWN_NUMBERS if key not in own]):
            rule = "a model of your own is described by " + ", ".join(OWN_NUMBERS)
            yield Problem(path, ", ".join(own), rule, f"Add {', '.join(missing)}.")
            return
        for key, needed in (*NEEDS, *(turned for pair in BOTH_WAYS for turned in (pair, pair[::-1]))):
            if own.get(key) and not own.get(needed):
                yield Problem(f"{path}.{key}", str(own[key]), f"has no meaning without `{needed}`", f"Add `{needed}`.")
        kinds = {key: own[key] for key in KINDS_OF_LAYERS if own.get(key)}
        if sum(kinds.values()) > own.get("layers", 0):
            rule = (
                f"{' and '.join(f'{count} {key}' for key, count in kinds.items())} are more than {own['layers']} layers"
            )
            yield Problem(f"{path}.layers", str(own["layers"]), rule, "Count every layer once.")
        for smaller, larger in AT_MOST:
            if own.get(smaller) and own.get(larger) and own[smaller] > own[larger]:
                rule = f"must be at most `{larger}`, {own[larger]}"
                yield Problem(f"{path}.{smaller}", str(own[smaller]), rule, f"Write {own[larger]}, or less.")
        yield from self._embedding_contradictions(path, own)

    def _embedding_contradictions(self, path: str, own: dict[str, Any]) -> Iterator[Problem]:
        embedding = own.get("embedding-bytes", 0)
        most = round(own["weights-gib"] * GIB) if own else 0
        if embedding > most:
            rule = f"is more than the {most:,} bytes of `weights-gib`"
            yield Problem(f"{path}.embedding-bytes", f"{embedding:,}", rule, "Correct whichever is wrong.")


OWN_KEYS = tuple(
    kebab(name) for name in list(ModelSettings.model_fields)[list(ModelSettings.model_fields).index("weights_gib") :]
)
"""Every key that describes an own model."""
BOTH_WAYS = (("swa-layers", "swa-window"), ("recurrent-layers", "recurrent-state-bytes"), ("experts", "experts-used"))
"""Keys that mean something only together."""
NEEDS = (("swa-kv-heads", "swa-layers"), ("swa-head-dim", "swa-layers"))
"""Keys that mean something only with another."""
KINDS_OF_LAYERS = ("swa-layers", "shared-kv-layers", "recurrent-layers")
"""Layers of these kinds exclude each other; the rest keep keys and values of every token."""
AT_MOST = (("kv-heads", "heads"), ("swa-kv-heads", "heads"), ("experts-used", "experts"), ("swa-window", "max-context"))


def own_keys(model: Model) -> dict[str, object]:
    """The own-model keys that describe `model`; raises `ValueError` where they cannot."""
    known = {kebab(name): value for name, value in asdict(model).items() if value}
    own: dict[str, object] = {key: known[key] for key in OWN_KEYS if key in known}
    own = {"weights-gib": round(model.weights_bytes / GIB, DECIMALS), **own}
    settings = ModelSettings.model_validate({"name": model.name, **own})
    for problem in settings.contradictions("the model"):
        raise ValueError(str(problem))
    return own
