"""Language models as Ollama serves them, and the catalogue of them in `data/models.csv`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property

from sharing import tables
from sharing.arguments import name_arguments
from sharing.models.attention import FORCED_OFF, LATENT_ROPE, QUANTIZED_BLOCK, has_kernel
from sharing.problems import ask_for, did_you_mean

MIB = 2**20
LIBRARY_HOST, LIBRARY, DEFAULT_TAG = "registry.ollama.ai", "library", "latest"
"""Defaults for a name without a host, a namespace or a tag. Source: ollama v0.32.15 `types/model/name.go`."""


VOLUME_HEADROOM_GIB = 4
"""Room on a model's own volume beside its weights: for creating the tag again, and for the file system."""


class KvType(StrEnum):
    """How Ollama stores the KV cache (`OLLAMA_KV_CACHE_TYPE`); the quantized ones need flash attention."""

    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"

    @property
    def bytes_per_value(self) -> float:
        """f16 has two bytes; q8_0 puts 32 values into 34 bytes, q4_0 into 18."""
        return {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}[self.value]


@name_arguments
@dataclass(frozen=True, kw_only=True)
class Model:
    """Size and shape of one model tag. The names follow the keys of a GGUF file; 0 means none or unknown."""

    name: str
    """The model's tag in Ollama, e.g. `llama2:7b`."""
    architecture: str = ""
    """`general.architecture`, which decides how the engine builds it; empty when unknown."""
    quant: str = ""
    """Quantization of the file, e.g. `Q4_K_M`; empty when unknown."""
    weights_bytes: int
    """All tensors of the language model's file, in bytes."""
    embedding_bytes: int = 0
    """Bytes of the tensors that stay on the CPU: `token_embd.weight` where the file also has `output.weight`, and
    `per_layer_token_embd.weight`. Source: llama.cpp `llama-arch.cpp`, LLM_TENSOR_LAYER_INPUT."""
    expert_bytes: int = 0
    """Bytes of all experts' tensors; a token reads those of `experts_used` of `experts`."""
    layers: int
    """Number of layers (`block_count`)."""
    heads: int = 0
    """Query heads (`attention.head_count`)."""
    kv_heads: int
    """Heads with keys and values (`attention.head_count_kv`)."""
    head_dim: int
    """Values of a key for each head (`key_length`)."""
    value_dim: int = 0
    """Values of a value for each head (`value_length`), if it differs from `head_dim`."""
    max_context: int
    """Maximum context of the model in tokens; 0 if unknown (a custom model)."""
    swa_layers: int = 0
    """Layers that look back over a sliding window only, without those in `shared_kv_layers`."""
    swa_window: int = 0
    """Tokens of that window."""
    swa_kv_heads: int = 0
    """KV heads of those layers, if they differ from `kv_heads`."""
    swa_head_dim: int = 0
    """Values per head of those layers, if they differ from `head_dim`."""
    shared_kv_layers: int = 0
    """Layers that read another layer's cache (gemma3n, gemma4), with or without a window."""
    recurrent_layers: int = 0
    """Layers with a state of fixed size instead of a cache that grows."""
    recurrent_state_bytes: int = 0
    """That state, of all recurrent layers, for one slot (f32)."""
    mla_rank: int = 0
    """Values that multi-head latent attention keeps per token: `kv_lora_rank` and the rope dimensions."""
    width: int = 0
    """Values per token between two layers (`embedding_length`)."""
    feed_forward: int = 0
    """Widest feed-forward layer that one token passes through; of the experts that it uses, their sum."""
    vocabulary: int
    """Number of different tokens (`vocab_size`)."""
    experts: int = 0
    """Number of experts in a layer (`expert_count`)."""
    experts_used: int = 0
    """Number of experts that a token passes through (`expert_used_count`)."""
    projector_bytes: int = 0
    """Bytes of the weights that turn images or audio into tokens, in the same file or a separate one."""
    weights_spread: int = 0
    """Bytes by which the weights may be larger; 0 if they are exact."""
    encoder: bool = False
    """An embedding model: no KV cache that grows, one request at a time."""
    source: str
    """Where these figures come from."""

    @property
    def short_name(self) -> str:
        """Its name as users write it: without the tag that Ollama adds."""
        return self.name.removesuffix(f":{DEFAULT_TAG}")

    @property
    def file_bytes(self) -> int:
        """Size of its files on a disk, without headers of a few MB."""
        return self.weights_bytes + self.projector_bytes

    @property
    def volume_gib(self) -> int:
        """Size of an EBS volume of its own."""
        return -(-self.file_bytes // 2**30) + VOLUME_HEADROOM_GIB

    @cached_property
    def has_flash_attention(self) -> bool:
        """Whether the engine has CUDA kernels for all its layers; heads of unknown number count as not grouped."""
        if self.architecture in FORCED_OFF:
            return False
        return all(has_kernel(key, value, self.heads, kv_heads) for key, value, kv_heads in self._attention())

    @cached_property
    def can_quantize_kv(self) -> bool:
        """Whether the engine accepts a quantized KV cache: with flash attention, and heads of whole blocks."""
        sizes = [size for key, value, _ in self._attention() for size in (key, value)]
        return self.has_flash_attention and not any(size % QUANTIZED_BLOCK for size in sizes)

    def _attention(self) -> Iterator[tuple[int, int, int]]:
        """Values of a key, values of a value, and KV heads: of the full layers, and of those with a window."""
        if self.mla_rank:
            yield self.mla_rank, self.mla_rank - LATENT_ROPE, 1
        else:
            yield self.head_dim, self.value_dim or self.head_dim, self.kv_heads
        if self.swa_layers:
            size = self.swa_head_dim or self.head_dim
            yield size, size, self.swa_kv_heads or self.kv_heads


@cache
def models() -> dict[str, Model]:
    """Every model of the catalogue by its Ollama tag. `catalogue/` builds the table."""
    return {
        row["model"]: Model(name=row["model"], encoder=row["encoder"] == "yes", **tables.cells_of(row, Model))
        for row in tables.read("models").rows
    }


@cache
def _names() -> dict[str, str]:
    """Other tags of the library that stand for a file of the catalogue, e.g. `llama3.2:latest` for `llama3.2:3b`."""
    return {row["name"]: row["model"] for row in tables.read("model_names").rows}


def full_name(name: str) -> str:
    """`name` as Ollama lists it: with its tag, without the library's host and namespace.

    Source: ollama v0.32.15 `types/model/name.go` DisplayShortest.
    """
    place, _, model = name.rpartition("/")
    place = f"{place}/".removeprefix("/").removeprefix(f"{LIBRARY_HOST}/").removeprefix(f"{LIBRARY}/")
    return f"{place}{model}" if ":" in model else f"{place}{model}:{DEFAULT_TAG}"


@cache
def quantized() -> dict[str, Model]:
    """The catalogue's models in other quantizations, by every such tag of Ollama's library.

    Their sizes follow from the shape, by the rules of llama.cpp's quantization. `catalogue/` builds the table.
    """
    found: dict[str, Model] = {}
    for row in tables.read("quantizations").rows:
        own = models()[row["model"]]
        size = "derived" if row["weights_known"] == "derived" else "rounded, from Ollama's library"
        model = replace(own, **tables.cells_of(row, Model), source=f"size: {size}; shape: that of {own.name}")
        found |= dict.fromkeys(row["names"].split(), model)
    return found


def find(name: str) -> Model | None:
    """The model that Ollama serves for `name`, with `name` as its name; None if the catalogue lacks the file."""
    full = full_name(name)
    model = models().get(_names().get(full, full)) or quantized().get(full)
    return model and replace(model, name=full)


def require_model(model: Model | str) -> Model:
    """The model itself, or the one that Ollama serves for that name. Raises `ValueError` with the nearest names."""
    in_catalogue = find(model) if isinstance(model, str) else model
    if in_catalogue is None:
        raise ValueError(f"unknown model '{model}'. {nearest_names(str(model))} Or pass a `Model`.")
    return in_catalogue


def nearest_names(name: str) -> str:
    """A sentence with names that an unknown one may have meant: other quantizations of that model, or similar names."""
    full = full_name(name)
    if alike := ":" in name and _with_the_parts_of(full):
        return ask_for(alike)
    stem, _, ending = full.rpartition("-")
    siblings = [each for each in (*_names(), *quantized()) if each.rpartition("-")[0] == stem]
    if ":" not in stem or not siblings:
        return did_you_mean(name, models())
    if ending.lower() not in _quantization_endings():
        return did_you_mean(full, siblings)
    *others, last = sorted(each.removeprefix(f"{stem}-") for each in siblings)
    return f"Ollama's library has {stem} in {', '.join(others)}{' and ' if others else ''}{last}."


def _with_the_parts_of(name: str) -> list[str]:
    """Tags of that model with every part of this one, e.g. `7b-instruct-q8_0` for `7b-Q8-0`; the nearest first."""
    family, parts = name.partition(":")[0].lower(), _parts(name)
    every = {**models(), **{other: models()[own] for other, own in _names().items()}, **quantized()}
    found = [each for each in every if each.partition(":")[0] == family and parts <= _parts(each)]

    def distance(each: str) -> tuple[int, bool, int]:
        # Of two variants, that of the catalogue's own file comes first: `instruct` before `base`.
        return len(_parts(each)), each.rpartition("-")[0] not in _names(), every[each].weights_bytes

    found.sort(key=distance)
    return [each for each in found if _parts(each) == parts] or found[:3]


def _parts(name: str) -> set[str]:
    return set(name.lower().partition(":")[2].replace("_", "-").split("-"))


@cache
def quantized_stems() -> dict[str, list[str]]:
    """By each model of the catalogue, its tags without their quantization; first the stem of the catalogue's own file.

    E.g. `qwen2.5-coder:7b-instruct` and `qwen2.5-coder:7b-base` for `qwen2.5-coder:7b`.
    """
    found: dict[str, set[str]] = {}
    for name, model in quantized().items():
        stem, _, ending = name.rpartition("-")
        if ":" in stem and ending.lower() in _quantization_endings():
            found.setdefault(model.name, set()).add(stem)
    own = {name.rpartition("-")[0] for name in _names()}
    return {model: sorted(stems, key=lambda stem: (stem not in own, stem)) for model, stems in found.items()}


@cache
def _quantization_endings() -> set[str]:
    """How tags end that name a quantization, e.g. `q8_0` or `fp16`."""
    endings = ((name.rpartition("-")[2], model.quant) for name, model in quantized().items())
    return {ending.lower() for ending, quant in endings if ending.upper() in (quant, "FP16")}


def largest_vocabulary() -> int:
    """Default vocabulary size of a custom model: the largest in the catalogue."""
    return max(model.vocabulary for model in models().values())
