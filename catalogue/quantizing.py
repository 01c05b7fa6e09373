"""The type that each tensor of a file has, by the quantization in the file's name.

The rules are those of llama.cpp's `llama_tensor_get_type_impl` (src/llama-quant.cpp, b10488). Ollama's own quantizer
follows them for the types that it knows (ollama v0.32.15 `server/quantization.go`, getTensorNewType).
"""

from dataclasses import dataclass

from catalogue.facts import Shape
from sharing.models.tensor_types import BY_NAME

FALLBACKS = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""Types for a row that does not fill the blocks. Source: llama-quant.cpp tensor_type_fallback."""
UNCHANGED = {"F16", "BF16"}
"""Quantizations whose matrices all have that type."""
MIXTURES = ("Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K")
MOST = {mixture: mixture[:4] for mixture in MIXTURES} | {"MXFP4": "BF16"}
"""Type of most tensors of a file, if it is not the name of the quantization."""
ROUNDED_UP = ("Q4_K_M", "Q5_K_M")
"""Mixtures with six bits in some layers."""
OUTPUTS = {"Q2_K": "Q3_K", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K"}
"""`attn_output` of a model that is not a Mixtral."""
MIXTRAL_OUTPUTS = {"Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M"}
FUSED = {"Q3_K_M": "Q4_K", "Q3_K_L": "Q4_K", "Q4_K_M": "Q5_K", "Q5_K_M": "Q6_K"}
"""`attn_qkv`, as in the library's files of phi3. Since then, llama.cpp treats it and `attn_kv_b` like `attn_v`."""
MOST_HEADS_TOGETHER = 80
"""Layers of a 70B model: its `attn_v`, small beside `attn_q`, gets at least Q5_K."""
EXPERTS_OF_MIXTRAL = 8
"""Files with this number of experts get a better `attn_k`, `attn_v` and `attn_output`."""
GROUPED_HEADS = 4
"""Query heads for each KV head from which Q2_K gives `attn_v` more bits."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor; of experts, those of a layer together."""

    name: str
    """As in the file, without `.weight`, e.g. `blk.0.attn_v`."""
    row: int
    """Values of a row, which is quantized by itself."""
    rows: int = 1
    kind: str = ""
    """Its type, if the quantization of the file does not decide it."""

    @property
    def part(self) -> str:
        """Its name within the layer, e.g. `attn_v`."""
        return self.name.rpartition(".")[2]

    @property
    def layer(self) -> int:
        return int(self.name.split(".")[1]) if self.name.startswith("blk.") else 0


def bytes_of(tensor: Tensor, shape: Shape, quantization: str, *, tied: bool) -> int:
    """Bytes of the tensor in a file of that quantization; `tied` if the file has no `output.weight`."""
    kind = BY_NAME[kind_of(tensor, shape, quantization, tied=tied)]
    return tensor.row // kind.values * kind.bytes * tensor.rows


def kind_of(tensor: Tensor, shape: Shape, quantization: str, *, tied: bool) -> str:
    """The type of the tensor in a file of that quantization."""
    if tensor.kind or quantization in UNCHANGED:
        return tensor.kind or quantization
    kind = _wanted(tensor, shape, quantization, tied)
    if tensor.row % BY_NAME[kind].values:
        kind = FALLBACKS.get(kind, "F16")
    return "F16" if tensor.row % BY_NAME[kind].values else kind


def gets_more_bits(layer: int, layers: int) -> bool:
    """Whether Q4_K_M gives `attn_v` and `ffn_down` of that layer six bits. Source: llama-quant.cpp, `use_more_bits`."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _wanted(tensor: Tensor, shape: Shape, quantization: str, tied: bool) -> str:
    most, layers = MOST.get(quantization, quantization), shape.number("block_count")
    if tensor.name == "output" or (tied and tensor.name == "token_embd"):
        if most == "BF16":
            return most
        return "Q8_0" if most == "Q8_0" or tensor.row % BY_NAME[most].values else "Q6_K"
    if tensor.part == "attn_v":
        return _values(shape, quantization, most, tensor.layer)
    if tensor.part == "attn_k" and _is_mixtral(shape):
        return "Q8_0"
    if tensor.part == "attn_qkv":
        return FUSED.get(quantization, most)
    if tensor.part == "attn_output":
        if _is_mixtral(shape):
            return "Q5_K" if quantization in MIXTRAL_OUTPUTS else most
        return OUTPUTS.get(quantization, most)
    if tensor.part.startswith("ffn_down"):
        return _down(quantization, most, tensor.layer, layers)
    if quantization == "MXFP4" and tensor.part.endswith("_exps"):
        return quantization
    return most


def _values(shape: Shape, quantization: str, most: str, layer: int) -> str:
    """`attn_v`."""
    layers, kind = shape.number("block_count"), most
    grouped = shape.number("head_count") >= GROUPED_HEADS * shape.number("head_count_kv")
    if _is_mixtral(shape):
        return "Q8_0"
    if quantization in ROUNDED_UP and gets_more_bits(layer, layers):
        kind = "Q6_K"
    elif quantization == "Q2_K":
        kind = "Q4_K" if grouped else "Q3_K"
    elif quantization == "Q3_K_M":
        kind = "Q5_K" if layer < 2 else "Q4_K"
    elif quantization == "Q3_K_L" or (quantization == "Q4_K_S" and layer < 4):
        kind = "Q5_K"
    of_70b = shape.architecture in ("llama", "qwen2") and layers == MOST_HEADS_TOGETHER
    return "Q5_K" if of_70b and kind in ("Q3_K", "Q4_K") else kind


def _down(quantization: str, most: str, layer: int, layers: int) -> str:
    """`ffn_down`, also that of experts."""
    if quantization in ROUNDED_UP and gets_more_bits(layer, layers):
        return "Q6_K"
    if quantization == "Q2_K":
        return "Q3_K"
    if quantization == "Q3_K_M":
        return "Q5_K" if layer < layers // 16 else "Q4_K"
    if quantization == "Q3_K_L" or (quantization == "Q4_K_S" and layer < layers // 8):
        return "Q5_K"
    return quantization if quantization == "MXFP4" else most


def _is_mixtral(shape: Shape) -> bool:
    return shape.number("expert_count", 0) == EXPERTS_OF_MIXTRAL
