"""The models that the GPU tier writes: every tensor of a real model, with its real type and size, and no real value.

Types follow llama.cpp's quantisation: `llama-quant.cpp` gives `attn_v` and `ffn_down` six bits in the layers of
`catalogue.tensors.gets_more_bits`, and the output matrix everywhere. Shapes are those of the published configurations.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from catalogue.tensors import BLOCKS, gets_more_bits
from sharing.models import Model


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file; the first dimension is the one that lies together in memory."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        values, size = BLOCKS[self.kind]
        return prod(self.shape) // values * size


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What decides size and speed of one model."""

    name: str
    """Its tag in Ollama."""
    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    max_context: int
    matrices: str
    """Type of the matrices: a type of `BLOCKS`, or `Q4_K_M`, which mixes two."""
    embedding: str
    """Type of `token_embd`."""
    output: str = ""
    """Type of `output`; empty where the model uses `token_embd` for it."""
    values: str = ""
    """Type of `attn_v` where `matrices` does not say it: Ollama's own files of qwen3 have F16 there."""
    window: int = 0
    """Tokens of the sliding window of the layers that have one."""
    full_every: int = 0
    """Every such layer has no window."""
    experts: int = 0
    experts_used: int = 0

    @property
    def is_encoder(self) -> bool:
        """Whether it turns text into vectors instead of more text."""
        return self.architecture == "nomic-bert"

    @property
    def windowed_layers(self) -> int:
        """Layers with a sliding window."""
        return self.layers - self.layers // self.full_every if self.full_every else 0

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor of the file, in its order."""
        found = [Tensor("token_embd.weight", self.embedding, (self.width, self.vocabulary))]
        if self.is_encoder:
            found += [Tensor("token_types.weight", "F32", (self.width, 2)), *self._norm("token_embd_norm", bias=True)]
        else:
            found += self._norm("output_norm")
        if self.output:
            found.append(Tensor("output.weight", self.output, (self.width, self.vocabulary)))
        for layer in range(self.layers):
            found += [replace(one, name=f"blk.{layer}.{one.name}") for one in self._block(layer)]
        return tuple(found)

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def model(self) -> Model:
        """What the rules know of such a model."""
        return Model(
            name=self.name,
            architecture=self.architecture,
            weights_bytes=self.size,
            embedding_bytes=self.tensors[0].size if self.output else 0,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            max_context=self.max_context,
            swa_layers=self.windowed_layers,
            swa_window=self.window,
            width=self.width,
            feed_forward=self.feed_forward,
            vocabulary=self.vocabulary,
            experts=self.experts,
            experts_used=self.experts_used,
            encoder=self.is_encoder,
            source="tests/gpu/shapes.py",
        )

    def _block(self, layer: int) -> list[Tensor]:
        if self.is_encoder:
            return self._encoder_block()
        wide, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        biased = self.architecture == "gpt-oss"
        found = [
            *self._norm("attn_norm"),
            *self._matrix("attn_q", (self.width, wide), layer, bias=biased),
            *self._matrix("attn_k", (self.width, kv), layer, bias=biased),
            *self._matrix("attn_v", (self.width, kv), layer, bias=biased),
            *self._matrix("attn_output", (wide, self.width), layer, bias=biased),
        ]
        if self.architecture in ("qwen3", "gemma3"):
            found += [*self._norm("attn_q_norm", self.head_dim), *self._norm("attn_k_norm", self.head_dim)]
        if self.experts:
            return found + self._experts()
        if self.architecture == "gemma3":
            found += [*self._norm("post_attention_norm"), *self._norm("post_ffw_norm")]
        return [
            *found,
            *self._norm("ffn_norm"),
            *self._matrix("ffn_gate", (self.width, self.feed_forward), layer),
            *self._matrix("ffn_up", (self.width, self.feed_forward), layer),
            *self._matrix("ffn_down", (self.feed_forward, self.width), layer),
        ]

    def _experts(self) -> list[Tensor]:
        inward, outward = (self.width, self.feed_forward), (self.feed_forward, self.width)
        found = [
            *self._norm("post_attention_norm"),
            Tensor("attn_sinks.weight", "F32", (self.heads,)),
            Tensor("ffn_gate_inp.weight", "F32", (self.width, self.experts)),
            Tensor("ffn_gate_inp.bias", "F32", (self.experts,)),
        ]
        for name, shape in (("gate", inward), ("up", inward), ("down", outward)):
            found += [
                Tensor(f"ffn_{name}_exps.weight", "MXFP4", (*shape, self.experts)),
                Tensor(f"ffn_{name}_exps.bias", "F32", (shape[1], self.experts)),
            ]
        return found

    def _encoder_block(self) -> list[Tensor]:
        return [
            *self._matrix("attn_qkv", (self.width, 3 * self.width), 0),
            *self._matrix("attn_output", (self.width, self.width), 0),
            *self._norm("attn_output_norm", bias=True),
            *self._matrix("ffn_up", (self.width, self.feed_forward), 0),
            *self._matrix("ffn_gate", (self.width, self.feed_forward), 0),
            *self._matrix("ffn_down", (self.feed_forward, self.width), 0),
            *self._norm("layer_output_norm", bias=True),
        ]

    def _norm(self, name: str, width: int = 0, *, bias: bool = False) -> list[Tensor]:
        parts = ("weight", "bias") if bias else ("weight",)
        return [Tensor(f"{name}.{part}", "F32", (width or self.width,)) for part in parts]

    def _matrix(self, name: str, shape: tuple[int, int], layer: int, *, bias: bool = False) -> list[Tensor]:
        kind = self.matrices
        if kind == "Q4_K_M":
            six_bits = name in ("attn_v", "ffn_down") and gets_more_bits(layer, self.layers)
            kind = "Q6_K" if six_bits else "Q4_K"
        if name == "attn_v" and self.values:
            kind = self.values
        found = [Tensor(f"{name}.weight", kind, shape)]
        return [*found, Tensor(f"{name}.bias", "F32", (shape[1],))] if bias else found


def shrunk(shape: Shape) -> Shape:
    """The same architecture, so small that a CPU runs it at once. For the dry run."""
    return replace(
        shape,
        layers=shape.full_every or 2,
        width=256,
        heads=4,
        kv_heads=4 if shape.is_encoder else 2,
        head_dim=64,
        feed_forward=256,
        vocabulary=1024,
        max_context=min(shape.max_context, 8192),
        window=shape.window and 128,
        experts=shape.experts and 4,
        experts_used=shape.experts_used and 2,
    )


def _read() -> Iterator[Shape]:
    """The rows of shapes.csv; an empty cell has the default."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values: dict[str, Any] = {key: int(cell) if cell.isdecimal() else cell for key, cell in row.items() if cell}
            yield Shape(**values)


SHAPES = {shape.name: shape for shape in _read()}
"""By tag."""
