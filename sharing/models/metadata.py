"""Derives a model from the metadata and the tensors of a GGUF file.

The rules are those of llama.cpp b10488, the engine of Ollama 0.32.15: `load_hparams` in src/llama-model.cpp,
`load_arch_hparams` of each architecture in src/models/, and `create_memory`, which decides what layers keep. Files from
Ollama's own converter use some other names. llama/compat/llama-ollama-compat.cpp of Ollama translates
them, and so does this module. Check both when `artifacts.csv` gets a newer Ollama.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.models.architectures import (
    ENCODERS,
    EXAONE4_WINDOWED_LAYERS,
    GEMMA3N_OWN_KV,
    INLINE_PROJECTOR,
    KNOWN,
    LATENT,
    RECURRENT_BY_INTERVAL,
    RECURRENT_WITHOUT_FORWARD,
    RECURRENT_WITHOUT_HEADS,
    SAME_AS,
    WINDOWS,
)
from sharing.models.catalogue import Model
from sharing.models.file_types import FILE_TYPES
from sharing.printable import visible

AGAIN = "Convert the model again, or download it again."
BLOCK = re.compile(r"blk\.([0-9]{1,6})\.")
EXPERTS = "_exps."
"""In the names of tensors that have all experts of a layer. Source: llama.cpp src/llama-arch.cpp, LLM_TENSOR_NAMES."""
FULL, WINDOWED, RECURRENT, SHARED = "full", "windowed", "recurrent", "shared"
"""Cache of a layer: all tokens, those of a window, a state of fixed size or none, or that of another layer."""
STATE_BYTES = 4
"""Recurrent states are f32. Source: `create_memory`, recurrent_type_r and recurrent_type_s."""
MOST_LAYERS = 512
"""LLAMA_MAX_LAYERS of llama.cpp."""
MOST = 2**31 - 1
"""The largest number that metadata may have."""
MOST_BYTES = 2**42
"""4 TiB, more than any model has."""

CPU_TENSORS = ("per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
"""Tensors of the input layer, which stay on the CPU. Source: LLM_TENSOR_INFOS in src/llama-arch.cpp."""
PROJECTOR_PREFIXES = ("v.", "mm.", "a.")
"""Tensors of a projector inside the model's own file. Source: Ollama llm/llama_server.go mmprojMemoryRequirement."""
UNUSED_PREFIXES = ("model.vision_tower.", "s.")
"""Tensors that Ollama hides from the engine."""


class UnclearModelError(ValueError):
    """The metadata do not describe a model that these rules support; the message has the fix."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file."""

    name: str
    shape: tuple[int, ...]
    """Values in each dimension, the innermost first, as GGUF has it."""
    bytes: int


def derive_model(
    metadata: Mapping[str, object],
    tensors: Iterable[Tensor],
    *,
    projector_bytes: int = 0,
    source: str,
) -> Model:
    """The model that a file describes, without a name; `projector_bytes` is the size of a projector in its own file.

    Raises `UnclearModelError` if the file lacks data, or if its architecture is unknown.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    facts = _Facts(metadata, by_name)
    kinds = _layer_kinds(facts)
    vocabulary = facts.vocabulary()
    weights, embedding, inline = _sizes(facts)
    kv_heads, swa_kv_heads = _kv_heads(facts, kinds)
    head_dim, value_dim = facts.head_dims()
    latent, heads = _latent_values(facts), facts.most("attention.head_count")
    swa = kinds.count(WINDOWED)
    swa_head_dim = facts.number("attention.key_length_swa", head_dim) if swa else 0
    with_state = sum(_recurrent(facts))
    experts = facts.number("expert_count", 0)
    return Model(
        name="",
        architecture=facts.architecture,
        quant=_quantization(metadata),
        weights_bytes=weights,
        embedding_bytes=embedding,
        expert_bytes=sum(tensor.bytes for tensor in by_name.values() if EXPERTS in tensor.name),
        layers=len(kinds),
        heads=heads,
        kv_heads=heads if latent else kv_heads,
        head_dim=head_dim,
        value_dim=0 if value_dim == head_dim else value_dim,
        max_context=facts.number("context_length"),
        swa_layers=swa,
        swa_window=_window_tokens(facts) if swa else 0,
        swa_kv_heads=0 if swa_kv_heads == kv_heads else swa_kv_heads,
        swa_head_dim=0 if swa_head_dim == head_dim else swa_head_dim,
        shared_kv_layers=kinds.count(SHARED),
        recurrent_layers=kinds.count(RECURRENT),
        recurrent_state_bytes=with_state * _state_values(facts) * STATE_BYTES if with_state else 0,
        mla_rank=latent,
        width=facts.number("embedding_length"),
        feed_forward=_feed_forward(facts, experts),
        vocabulary=vocabulary,
        experts=experts,
        experts_used=facts.most("expert_used_count") if experts else 0,
        projector_bytes=projector_bytes or inline,
        # To Ollama, every model with a kind of pooling is an embedding model: llm/llama_server.go.
        encoder=facts.architecture in ENCODERS or facts.has("pooling_type"),
        source=source,
    )


def _quantization(metadata: Mapping[str, object]) -> str:
    """The name of the file's quantization; empty if the file does not say."""
    number = metadata.get("general.file_type")
    return FILE_TYPES.get(number, "") if isinstance(number, int) else ""


class _Facts:
    """The metadata of one architecture, by keys without its name; every number is bounded."""

    def __init__(self, metadata: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self._values = metadata
        self._prefix = self._architecture()
        self.architecture = SAME_AS.get(self._prefix, self._prefix)
        # embeddinggemma, as Ollama's converter writes it: handle_embeddinggemma.
        if self.architecture == "gemma3" and "dense.0.weight" in tensors:
            self.architecture = "gemma-embedding"
        self.layers = self.number("block_count") - self.number("nextn_predict_layers", 0)
        if not 1 <= self.layers <= MOST_LAYERS:
            raise UnclearModelError(f"It has {self.layers} layers, outside of 1 to {MOST_LAYERS}. {AGAIN}")
        missing = {*range(self.layers)} - {int(match[1]) for each in tensors if (match := BLOCK.match(each))}
        # Also the first part of a split model may have no tensors: `--no-tensor-first-split` of llama.cpp's
        # tools/gguf-split/gguf-split.cpp.
        if len(missing) == self.layers:
            raise UnclearModelError(
                "It has no layers: it is a vocabulary, or the first part of a split model. Download the model itself, "
                "or merge the parts with `llama-gguf-split --merge` first."
            )
        if missing:
            raise UnclearModelError(
                f"It lacks the tensors of {len(missing)} of its {self.layers} layers: it is a part of a model. "
                "Merge the parts with `llama-gguf-split --merge` first."
            )

    def _architecture(self) -> str:
        name = self._values.get("general.architecture")
        if not isinstance(name, str) or not name:
            raise UnclearModelError(f"Its metadata name no architecture (`general.architecture`). {AGAIN}")
        if name == "clip":
            raise UnclearModelError("It is a projector, not a language model. Pass it with `--projector` instead.")
        if self._values.get("general.type", "model") == "adapter":
            raise UnclearModelError("It is an adapter, not a language model. Pass the file of the model.")
        if name not in KNOWN:
            raise UnclearModelError(
                f"Its architecture `{visible(name[:40])}` is unknown. Describe it by hand, and write `gguf: FILE.json`."
            )
        return name

    def _value(self, key: str) -> Any:
        return self._values.get(f"{self._prefix}.{key}")

    def has(self, key: str) -> bool:
        return self._value(key) is not None

    def is_listed(self, key: str) -> bool:
        """Whether there is a list with a value for each layer."""
        value = self._value(key)
        return isinstance(value, Sequence) and not isinstance(value, str)

    def number(self, key: str, default: int | None = None) -> int:
        """A number that is the same for all layers."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        return self._bounded(key, value)

    def each(self, key: str) -> list[int]:
        """A number for each layer, from a list or from one for all."""
        if not self.is_listed(key):
            return [self.number(key)] * self.layers
        value = self._value(key)
        if len(value) < self.layers:
            raise UnclearModelError(
                f"Its metadata have `{self._prefix}.{key}` for {len(value)} of its {self.layers} layers. {AGAIN}"
            )
        return [self._bounded(key, each) for each in value[: self.layers]]

    def most(self, key: str) -> int:
        """The largest of a number for each layer."""
        return max(self.each(key))

    def _bounded(self, key: str, value: object) -> int:
        if not isinstance(value, int) or not 0 <= value <= MOST:
            shown = "missing" if value is None else f"{str(value)[:40]!r}"
            raise UnclearModelError(
                f"Its metadata have no usable number `{self._prefix}.{key}` ({shown}; 0 to {MOST:,}). {AGAIN}"
            )
        return int(value)

    def head_dims(self) -> tuple[int, int]:
        """Values of a key and of a value for each head."""
        heads = self.most("attention.head_count")
        default = self.number("embedding_length") // heads if heads else 0
        key, value = (self.number(f"attention.{part}_length", default) for part in ("key", "value"))
        # With latent attention, these are the lengths of what is cached.
        return self.number("attention.key_length_mla", key), self.number("attention.value_length_mla", value)

    def vocabulary(self) -> int:
        """Rows of the embedding: some tokenizers list more tokens than the model knows."""
        for name in ("per_layer_token_embd.weight", "token_embd.weight"):
            tensor = self.tensors.get(name)
            if tensor and len(tensor.shape) == 2:
                return tensor.shape[1]
        raise UnclearModelError(
            "It has no tensor `token_embd.weight`, so it is incomplete. Pass the first file of the model."
        )


def _layer_kinds(facts: _Facts) -> list[str]:
    """Cache of each layer."""
    recurrent, windowed, shared = _recurrent(facts), _windowed(facts), _shared(facts)
    if facts.architecture in RECURRENT_WITHOUT_FORWARD:
        # A layer with only a feed-forward network keeps nothing, like a state of size 0.
        widths = facts.each("feed_forward_length")
        recurrent = [has_state or width > 0 for has_state, width in zip(recurrent, widths, strict=True)]
    return [
        RECURRENT if is_recurrent else SHARED if is_shared else WINDOWED if is_windowed else FULL
        for is_recurrent, is_windowed, is_shared in zip(recurrent, windowed, shared, strict=True)
    ]


def _recurrent(facts: _Facts) -> list[bool]:
    if facts.architecture in RECURRENT_BY_INTERVAL:
        if facts.has("attention.recurrent_layers"):
            return [bool(each) for each in facts.each("attention.recurrent_layers")]
        interval = facts.number("full_attention_interval", 4) or 1
        return [(layer + 1) % interval != 0 for layer in range(facts.layers)]
    if facts.architecture in RECURRENT_WITHOUT_HEADS:
        return [heads == 0 for heads in facts.each("attention.head_count_kv")]
    if facts.architecture in RECURRENT_WITHOUT_FORWARD:
        heads, forward = facts.each("attention.head_count_kv"), facts.each("feed_forward_length")
        return [not each and not width for each, width in zip(heads, forward, strict=True)]
    return [False] * facts.layers


def _shared(facts: _Facts) -> list[bool]:
    """Layers that read the cache of another."""
    own = facts.layers
    if facts.architecture == "gemma3n":
        own = GEMMA3N_OWN_KV
    elif facts.architecture == "gemma4":
        own -= facts.number("attention.shared_kv_layers", 0)
    return [layer >= own for layer in range(facts.layers)]


def _windowed(facts: _Facts) -> list[bool]:
    window = WINDOWS.get(facts.architecture)
    if window is None or not _window_tokens(facts):
        return [False] * facts.layers
    key = "attention.sliding_window_pattern"
    every = 0 if facts.is_listed(key) else facts.number(key, window.every)
    if not every:
        return [bool(each) for each in facts.each(key)]
    full = 0 if window.first else every - 1
    return [layer % every != full for layer in range(facts.layers)]


def _window_tokens(facts: _Facts) -> int:
    """Tokens of the window; 0 if the model has none."""
    window = WINDOWS[facts.architecture]
    if facts.architecture == "exaone4" and facts.layers != EXAONE4_WINDOWED_LAYERS:
        return 0
    tokens = facts.number("attention.sliding_window", window.tokens if window.tokens or window.optional else None)
    # llama4 has chunks of a size that no file changes: src/models/llama4.cpp.
    return window.tokens if tokens and facts.architecture == "llama4" else tokens


def _kv_heads(facts: _Facts, kinds: Sequence[str]) -> tuple[int, int]:
    """KV heads of full layers and of windowed ones, 0 if there are none."""
    key = "attention.head_count_kv" if facts.has("attention.head_count_kv") else "attention.head_count"
    heads = facts.each(key)
    by_kind = {kind: {each for each, its in zip(heads, kinds, strict=True) if its == kind} for kind in (FULL, WINDOWED)}
    # qwen3next and qwen35 of Ollama's converter have 0 for recurrent layers, which are ignored here.
    if any(len(different) > 1 for different in by_kind.values()) or not any(by_kind.values()):
        raise UnclearModelError(
            f"Its layers have different numbers of KV heads ({', '.join(map(str, sorted(set(heads))))}), which no "
            "rule covers. Describe it by hand with the largest one, and write `gguf: FILE.json`."
        )
    full, windowed = (different.pop() if different else 0 for different in by_kind.values())
    return full or windowed, windowed


def _latent_values(facts: _Facts) -> int:
    """Values that latent attention keeps per token; 0 if the model has none."""
    is_latent = facts.architecture == "glm4moelite" or facts.has("attention.key_length_mla")
    if facts.architecture not in LATENT or not is_latent:
        return 0
    return facts.number("attention.kv_lora_rank") + facts.number("rope.dimension_count")


def _state_values(facts: _Facts) -> int:
    """Values of one recurrent layer's state. Source: `n_embd_r` and `n_embd_s` in src/llama-hparams.cpp."""
    if cells := facts.number("shortconv.l_cache", 0):
        return short_convolution_values(facts.number("embedding_length"), cells)
    if head := facts.number("kda.head_dim", 0):
        heads = facts.most("attention.head_count")
        return 3 * (facts.number("ssm.conv_kernel") - 1) * heads * head + head * head * heads
    return state_values(
        kernel=facts.number("ssm.conv_kernel"),
        inner=facts.number("ssm.inner_size"),
        groups=facts.number("ssm.group_count", 0),
        state=facts.number("ssm.state_size"),
    )


def short_convolution_values(width: int, cells: int) -> int:
    """Values of one layer's state in lfm2."""
    return width * (cells - 1)


def state_values(*, kernel: int, inner: int, groups: int, state: int) -> int:
    """Values of one layer's state: its convolution and its state space (`ssm.*`)."""
    return (kernel - 1) * (inner + 2 * groups * state) + state * inner


def _feed_forward(facts: _Facts, experts: int) -> int:
    """The widest feed-forward layer that one token passes through; for experts, their sum."""
    dense = facts.most("feed_forward_length") if facts.has("feed_forward_length") else 0
    gate = facts.tensors.get("blk.0.ffn_gate.weight")
    if facts.architecture == "lfm2" and gate and len(gate.shape) == 2:
        dense = gate.shape[1]  # files of Ollama's converter may claim another: handle_lfm2
    if not experts:
        return dense
    of_expert = facts.most("expert_feed_forward_length") if facts.has("expert_feed_forward_length") else dense
    always = facts.number("expert_shared_feed_forward_length", of_expert * facts.number("expert_shared_count", 0))
    used = facts.most("expert_used_count")
    return widest_feed_forward(dense=dense, expert=of_expert, used=used, always=always)


def widest_feed_forward(*, dense: int, expert: int, used: int, always: int) -> int:
    """The widest feed-forward layer; for experts, the sum of those that a token uses. `always` are shared ones.

    A file without dense layers may still have their width. In no known model is it more than that sum.
    """
    return max(expert * used + always, dense)


def _sizes(facts: _Facts) -> tuple[int, int, int]:
    """Bytes of the language model, of its part that stays on the CPU, and of a projector in the same file."""
    tensors = facts.tensors.values()
    inline = sum(each.bytes for each in tensors if each.name.startswith(PROJECTOR_PREFIXES))
    unused = UNUSED_PREFIXES if facts.architecture not in RECURRENT_WITHOUT_FORWARD else (*UNUSED_PREFIXES, "mtp.")
    weights = sum(each.bytes for each in tensors if not each.name.startswith((*PROJECTOR_PREFIXES, *unused)))
    if not weights or weights > MOST_BYTES:
        raise UnclearModelError(f"Its tensors have {weights:,} bytes, outside of 1 to {MOST_BYTES:,}. {AGAIN}")
    # A tied embedding is loaded twice, so the GPU has it as well. An encoder without output loads it once.
    is_untied = "output.weight" in facts.tensors or (
        facts.architecture in ENCODERS and facts.architecture != "gemma-embedding"
    )
    on_cpu = (*CPU_TENSORS, "token_embd.weight") if is_untied else CPU_TENSORS
    embedding = sum(facts.tensors[name].bytes for name in on_cpu if name in facts.tensors)
    return weights, embedding, inline if facts.architecture in INLINE_PROJECTOR else 0
