"""Bytes of a model's tensors, from its shape and the quantization of its file.

The rules of quantization are those of llama.cpp's `llama_tensor_get_type_impl` (src/llama-quant.cpp, b10488).
Besides its tensors a file has a header, mostly the tokenizer: a few MB, the same for all models with that tokenizer.
"""

from collections.abc import Mapping

from catalogue.facts import Shape

BLOCKS = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q8_0": (32, 34),
    "Q4_0": (32, 18),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "MXFP4": (32, 17),
}
"""Values of a block and the bytes that hold them. Source: ggml-common.h."""
FALLBACKS = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""Types for a row that does not fill the blocks. Source: llama-quant.cpp tensor_type_fallback."""
MOST = {"Q4_K_M": "Q4_K", "MXFP4": "BF16"}
"""Type of most tensors of a file, if the name of the quantization does not contain it."""
OUTPUT = {"Q4_K_M": "Q6_K", "Q4_0": "Q6_K", "MXFP4": "BF16"}
MOST_HEADS_TOGETHER = 80
"""Layers of a 70B model: its `attn_v`, small beside `attn_q`, gets at least Q5_K."""
EXPERTS_OF_MIXTRAL = 8
"""Files with this number of experts get a better `attn_k`, `attn_v` and `attn_output`."""
STANDARD = {
    *(
        "llama",
        "mistral3",
        "qwen2",
        "qwen25vl",
        "qwen3",
        "qwen3moe",
        "qwen3vl",
        "qwen3vlmoe",
        "gemma",
        "gemma2",
        "gemma3",
    ),
    *("phi3", "olmo2", "granite", "granitemoe", "gptoss", "deepseek2", "llama4"),
}
"""Architectures whose tensors `text_bytes` knows to the last byte."""
ENCODERS = {"bert", "nomic-bert"}
ONE_KIND_PER_LAYER = {"nemotron_h_moe"}
"""Architectures whose layers have either a state, or attention, or experts, which have no gate.
Source: llama.cpp src/models/nemotron-h.cpp."""


def text_bytes(shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> int | None:
    """All tensors of the language model; None for an architecture whose tensors are not known one by one."""
    if shape.architecture in ENCODERS:
        return _encoder_bytes(shape)
    if shape.architecture not in STANDARD:
        return None
    layers = shape.number("block_count")
    total = _embedding(shape, quantization, exceptions) + 4 * shape.number("embedding_length")
    if not _tied(shape, exceptions):
        total += _bytes(_output(quantization), shape.number("embedding_length"), shape.number("vocabulary"))
    for layer in range(layers):
        better = quantization == "Q4_K_M" and gets_more_bits(layer, layers)
        total += _attention(shape, quantization, exceptions, better) + _feed_forward(shape, quantization, layer, better)
    return total


def expert_bytes(shape: Shape, quantization: str) -> int:
    """Tensors of all experts, of which a token reads only those that it uses; without those that every token uses."""
    experts, layers = shape.number("expert_count", 0), shape.number("block_count")
    if not experts:
        return 0
    if shape.architecture in ONE_KIND_PER_LAYER:
        return shape.number("layers_without_state") * _experts(shape, quantization, better=False)
    return sum(
        _experts(shape, quantization, better=quantization == "Q4_K_M" and gets_more_bits(layer, layers))
        for layer in range(shape.number("leading_dense_block_count", 0), layers)
    )


def embedding_bytes(shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> int:
    """Tensors that the engine leaves in the host's memory: the token embedding, unless it is also the output.

    It leaves the embeddings of each layer too (gemma3n, gemma4 e2b and e4b), which are F16.
    Source: llama.cpp llama-model.cpp, where `LLM_TENSOR_LAYER_INPUT` goes to the CPU.
    """
    width, vocabulary = shape.number("embedding_length"), shape.number("vocabulary")
    if shape.architecture in ENCODERS:
        rows = vocabulary + shape.number("position_embeddings") + shape.number("token_types")
        return _bytes("F16", width, rows)
    per_layer = vocabulary * shape.number("per_layer_input", 0) * shape.number("block_count") * 2
    return per_layer + (0 if _tied(shape, exceptions) else _embedding(shape, quantization, exceptions))


def vision_bytes(shape: Shape) -> int:
    """Weights for pictures and sound in F16: layers, patches and the matrices that join them to the text."""
    layers = shape.number("vision_block_count", 0)
    if not layers:
        return 0
    width, inner = shape.number("vision_embedding_length"), shape.number("vision_feed_forward_length")
    each = 4 * width**2 + (3 if "vision_gated" in shape.facts else 2) * width * inner
    text = shape.number("embedding_length")
    joined = shape.number("vision_mergers", 1) * (4 * width) * (4 * width + text)
    sound = shape.number("audio_parameters", 0)
    return 2 * (layers * each + shape.number("vision_patch") * width + joined + sound)


def _bytes(kind: str, row: int, rows: int) -> int:
    if row % BLOCKS[kind][0]:
        kind = FALLBACKS.get(kind, "F16")
    values, size = BLOCKS[kind]
    return row // values * size * rows


def gets_more_bits(layer: int, layers: int) -> bool:
    """Whether Q4_K_M gives `attn_v` and `ffn_down` of that layer six bits. Source: llama-quant.cpp, `use_more_bits`."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _most(quantization: str) -> str:
    return MOST.get(quantization, quantization)


def _output(quantization: str) -> str:
    return OUTPUT.get(quantization, quantization)


def _tied(shape: Shape, exceptions: Mapping[str, str]) -> bool:
    return bool(int(exceptions.get("tied", shape.number("tied", 0))))


def _embedding(shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> int:
    kind = _output(quantization) if _tied(shape, exceptions) else _most(quantization)
    return _bytes(kind, shape.number("embedding_length"), shape.number("vocabulary"))


def _attention(shape: Shape, quantization: str, exceptions: Mapping[str, str], better: bool) -> int:
    width, heads, kv_heads = (shape.number(key) for key in ("embedding_length", "head_count", "head_count_kv"))
    head = shape.number("key_length")
    value = shape.number("value_length", head)
    most = _most(quantization)
    output = "Q5_K" if quantization == "Q4_K_M" and _is_mixtral(shape) else most
    total = _bytes(output, heads * value, width) + 4 * width * shape.number("norms", 2)
    if "attention_bias" in shape.facts:
        total += 4 * (heads + 2 * kv_heads) * head
    if "output_bias" in shape.facts:
        total += 4 * width
    norms = shape.number("qk_norm", 0)
    total += 4 * (2 * head if norms == 1 else norms // 2 * (heads + kv_heads) * head)
    if shape.architecture == "phi3":
        kind = exceptions.get("attn_qkv", "Q5_K" if quantization == "Q4_K_M" else most)
        return total + _bytes(kind, width, (heads + 2 * kv_heads) * head)
    if "kv_lora_rank" in shape.facts:
        return total + _latent_attention(shape, most)
    key, values = ("Q8_0", "Q8_0") if _is_mixtral(shape) else (most, _value_kind(shape, quantization, better))
    values = exceptions.get("attn_v", values)
    return (
        total
        + _bytes(most, width, heads * head)
        + _bytes(key, width, kv_heads * head)
        + _bytes(values, width, kv_heads * value)
    )


def _value_kind(shape: Shape, quantization: str, better: bool) -> str:
    if better:
        return "Q6_K"
    of_70b = shape.architecture in ("llama", "qwen2") and shape.number("block_count") == MOST_HEADS_TOGETHER
    return "Q5_K" if quantization == "Q4_K_M" and of_70b else _most(quantization)


def _latent_attention(shape: Shape, kind: str) -> int:
    width, heads, head = (shape.number(key) for key in ("embedding_length", "head_count", "key_length"))
    rank, rope, query = (
        shape.number("kv_lora_rank"),
        shape.number("rope_dimension_count"),
        shape.number("q_lora_rank", 0),
    )
    queries = _bytes(kind, width, heads * head)
    if query:
        queries = _bytes(kind, width, query) + 4 * query + _bytes(kind, query, heads * head)
    both = heads * (head - rope + shape.number("value_length"))
    return queries + _bytes(kind, width, rank + rope) + 4 * rank + _bytes(kind, rank, both)


def _feed_forward(shape: Shape, quantization: str, layer: int, better: bool) -> int:
    width, experts = shape.number("embedding_length"), shape.number("expert_count", 0)
    most = _most(quantization)
    down = "Q6_K" if better else most
    if not experts or layer < shape.number("leading_dense_block_count", 0):
        inner = shape.number("feed_forward_length")
        return 2 * _bytes(most, width, inner) + _bytes(down, inner, width)
    inner, shared = _expert_width(shape), shape.number("expert_shared_feed_forward_length", 0)
    together = _experts(shape, quantization, better) + 4 * width * experts
    if quantization == "MXFP4":
        return together + 4 * experts * (2 * inner + width + 1) + 4 * shape.number("head_count")
    return together + 2 * _bytes(most, width, shared) + _bytes(down, shared, width)


def _expert_width(shape: Shape) -> int:
    return shape.number("expert_feed_forward_length", shape.number("feed_forward_length"))


def _experts(shape: Shape, quantization: str, better: bool) -> int:
    """The matrices of all experts of one layer."""
    width, inner = shape.number("embedding_length"), _expert_width(shape)
    most = "MXFP4" if quantization == "MXFP4" else _most(quantization)
    inputs = 1 if shape.architecture in ONE_KIND_PER_LAYER else 2
    each = inputs * _bytes(most, width, inner) + _bytes("Q6_K" if better else most, inner, width)
    return shape.number("expert_count") * each


def _is_mixtral(shape: Shape) -> bool:
    return shape.number("expert_count", 0) == EXPERTS_OF_MIXTRAL


def _encoder_bytes(shape: Shape) -> int:
    width, inner, layers = (shape.number(key) for key in ("embedding_length", "feed_forward_length", "block_count"))
    matrices = 4 * width**2 + (3 if "gate" in shape.facts else 2) * width * inner
    vectors = 4 * (4 * width if "gate" in shape.facts else 9 * width + inner)
    return embedding_bytes(shape, "F16", {}) + layers * (2 * matrices + vectors) + 8 * width
