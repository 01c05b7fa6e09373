"""The models that the GPU tier writes: every tensor of a real model, with its real type and size, and no real value.

Types follow llama.cpp's quantization: `llama-quant.cpp` gives `attn_v` and `ffn_down` six bits in the layers of
`catalogue.quantizing.gets_more_bits`, and the output matrix everywhere. Shapes are the catalogue's.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

from catalogue.quantizing import gets_more_bits
from sharing.models.catalogue import Model, models
from sharing.models.tensor_types import BY_NAME


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file; the first dimension is contiguous in memory."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        _, values, size = BY_NAME[self.kind]
        return prod(self.shape) // values * size


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A model as the catalogue knows it, and the types of its tensors."""

    model: Model
    matrices: str
    """Type of the matrices: a type of `BY_NAME`, or `Q4_K_M`, which mixes two."""
    embedding: str
    """Type of `token_embd`."""
    output: str = ""
    """Type of `output`; empty where the model uses `token_embd` for it."""
    values: str = ""
    """Type of `attn_v` where `matrices` does not say it: Ollama's own files of qwen3 have F16 there."""

    @property
    def architecture(self) -> str:
        """As llama.cpp calls it. Ollama's library, the source of the catalogue's names, says `gptoss`."""
        return "gpt-oss" if self.model.architecture == "gptoss" else self.model.architecture

    @property
    def inner(self) -> int:
        """Width of the feed-forward layer, or of that of one expert: the catalogue has the sum of those in use."""
        return self.model.feed_forward // (self.model.experts_used or 1)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor of the file, in its order."""
        found = [Tensor("token_embd.weight", self.embedding, (self.model.width, self.model.vocabulary))]
        if self.model.encoder:
            found += [
                Tensor("token_types.weight", "F32", (self.model.width, 2)),
                *self._norm("token_embd_norm", bias=True),
            ]
        else:
            found += self._norm("output_norm")
        if self.output:
            found.append(Tensor("output.weight", self.output, (self.model.width, self.model.vocabulary)))
        for layer in range(self.model.layers):
            found += [replace(one, name=f"blk.{layer}.{one.name}") for one in self._block(layer)]
        return tuple(found)

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    def _block(self, layer: int) -> list[Tensor]:
        if self.model.encoder:
            return self._encoder_block()
        wide, kv = self.model.heads * self.model.head_dim, self.model.kv_heads * self.model.head_dim
        biased = self.architecture == "gpt-oss"
        found = [
            *self._norm("attn_norm"),
            *self._matrix("attn_q", (self.model.width, wide), layer, bias=biased),
            *self._matrix("attn_k", (self.model.width, kv), layer, bias=biased),
            *self._matrix("attn_v", (self.model.width, kv), layer, bias=biased),
            *self._matrix("attn_output", (wide, self.model.width), layer, bias=biased),
        ]
        if self.architecture in ("qwen3", "gemma3"):
            found += [*self._norm("attn_q_norm", self.model.head_dim), *self._norm("attn_k_norm", self.model.head_dim)]
        if self.model.experts:
            return found + self._experts()
        if self.architecture == "gemma3":
            found += [*self._norm("post_attention_norm"), *self._norm("post_ffw_norm")]
        return [
            *found,
            *self._norm("ffn_norm"),
            *self._matrix("ffn_gate", (self.model.width, self.inner), layer),
            *self._matrix("ffn_up", (self.model.width, self.inner), layer),
            *self._matrix("ffn_down", (self.inner, self.model.width), layer),
        ]

    def _experts(self) -> list[Tensor]:
        inward, outward = (self.model.width, self.inner), (self.inner, self.model.width)
        found = [
            *self._norm("post_attention_norm"),
            Tensor("attn_sinks.weight", "F32", (self.model.heads,)),
            Tensor("ffn_gate_inp.weight", "F32", (self.model.width, self.model.experts)),
            Tensor("ffn_gate_inp.bias", "F32", (self.model.experts,)),
        ]
        for name, shape in (("gate", inward), ("up", inward), ("down", outward)):
            found += [
                Tensor(f"ffn_{name}_exps.weight", "MXFP4", (*shape, self.model.experts)),
                Tensor(f"ffn_{name}_exps.bias", "F32", (shape[1], self.model.experts)),
            ]
        return found

    def _encoder_block(self) -> list[Tensor]:
        return [
            *self._matrix("attn_qkv", (self.model.width, 3 * self.model.width), 0),
            *self._matrix("attn_output", (self.model.width, self.model.width), 0),
            *self._norm("attn_output_norm", bias=True),
            *self._matrix("ffn_up", (self.model.width, self.inner), 0),
            *self._matrix("ffn_gate", (self.model.width, self.inner), 0),
            *self._matrix("ffn_down", (self.inner, self.model.width), 0),
            *self._norm("layer_output_norm", bias=True),
        ]

    def _norm(self, name: str, width: int = 0, *, bias: bool = False) -> list[Tensor]:
        parts = ("weight", "bias") if bias else ("weight",)
        return [Tensor(f"{name}.{part}", "F32", (width or self.model.width,)) for part in parts]

    def _matrix(self, name: str, shape: tuple[int, int], layer: int, *, bias: bool = False) -> list[Tensor]:
        kind = self.matrices
        if kind == "Q4_K_M":
            six_bits = name in ("attn_v", "ffn_down") and gets_more_bits(layer, self.model.layers)
            kind = "Q6_K" if six_bits else "Q4_K"
        if name == "attn_v" and self.values:
            kind = self.values
        found = [Tensor(f"{name}.weight", kind, shape)]
        return [*found, Tensor(f"{name}.bias", "F32", (shape[1],))] if bias else found


def shrunk(shape: Shape) -> Shape:
    """The same architecture, so small that a CPU runs it at once. For the dry run."""
    model = shape.model
    # One layer without a window after as many with one as the model has, or two.
    layers = max(2, model.layers // (model.layers - model.swa_layers))
    small = replace(
        model,
        layers=layers,
        width=256,
        heads=4,
        kv_heads=4 if model.encoder else 2,
        head_dim=64,
        feed_forward=512 if model.experts else 256,
        vocabulary=1024,
        max_context=min(model.max_context, 8192),
        swa_layers=model.swa_layers and layers - 1,
        swa_window=model.swa_window and 128,
        experts=model.experts and 4,
        experts_used=model.experts_used and 2,
    )
    return replace(shape, model=small)


def _read() -> Iterator[Shape]:
    """The rows of shapes.csv. A file has no projector, so neither has its model: the prediction must be of the file."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Shape(model=replace(models()[row.pop("name")], projector_bytes=0), **row)


SHAPES = {shape.model.name: shape for shape in _read()}
"""By tag."""
