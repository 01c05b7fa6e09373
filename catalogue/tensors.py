"""The tensors of a model's file and their bytes, from the model's shape and the quantization of the file.

Besides its tensors a file has a header, mostly the tokenizer: a few MB, the same for all models with that tokenizer.
"""

from collections.abc import Iterable, Iterator, Mapping

from catalogue.facts import Shape
from catalogue.quantizing import UNCHANGED, Tensor, bytes_of

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
"""Architectures whose tensors `tensors` knows one by one."""
ENCODERS = {"bert", "nomic-bert"}
ONE_KIND_PER_LAYER = {"nemotron_h_moe"}
"""Architectures whose layers have either a state, or attention, or experts, which have no gate.
Source: llama.cpp src/models/nemotron-h.cpp."""


def text_bytes(shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> int | None:
    """All tensors of the language model; None for an architecture whose tensors are not known one by one."""
    if shape.architecture in ENCODERS:
        return _encoder_bytes(shape) if quantization in UNCHANGED else None
    if shape.architecture not in STANDARD:
        return None
    return _sum(tensors(shape, quantization, exceptions), shape, quantization, exceptions)


def tensors(shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> Iterator[Tensor]:
    """The tensors of a file of a `STANDARD` architecture; a layer's norms and biases count as one."""
    width = shape.number("embedding_length")
    yield _embedding(shape)
    yield Tensor("output_norm", width, kind="F32")
    if not _tied(shape, exceptions):
        yield Tensor("output", width, shape.number("vocabulary"))
    # Tensors for which a file differs from the rules. All have the type of the source where nothing is quantized.
    kinds = {} if quantization in UNCHANGED else exceptions
    for layer in range(shape.number("block_count")):
        for each in (*_attention(shape), *_feed_forward(shape, layer)):
            yield Tensor(f"blk.{layer}.{each.name}", each.row, each.rows, each.kind or kinds.get(each.name, ""))


def expert_bytes(shape: Shape, quantization: str) -> int:
    """Tensors of all experts, of which a token reads only those that it uses; without those that every token uses."""
    experts, layers = shape.number("expert_count", 0), shape.number("block_count")
    if not experts:
        return 0
    first = shape.number("leading_dense_block_count", 0)
    if shape.architecture in ONE_KIND_PER_LAYER:
        # Which layers have experts is unknown here, so none of them counts as one that gets more bits.
        plain = "Q4_K_S" if quantization == "Q4_K_M" else quantization
        middle = [Tensor(f"blk.{layers - 1}.{each.name}", each.row, each.rows) for each in _experts(shape)]
        return shape.number("layers_without_state") * _sum(middle, shape, plain, {})
    found = (
        Tensor(f"blk.{layer}.{each.name}", each.row, each.rows)
        for layer in range(first, layers)
        for each in _experts(shape)
    )
    return _sum(found, shape, quantization, {})


def embedding_bytes(shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> int:
    """Tensors that the engine leaves in the host's memory: the token embedding, unless it is also the output.

    It leaves the embeddings of each layer too (gemma3n, gemma4 e2b and e4b), which are F16.
    Source: llama.cpp llama-model.cpp, where `LLM_TENSOR_LAYER_INPUT` goes to the CPU.
    """
    width, vocabulary = shape.number("embedding_length"), shape.number("vocabulary")
    if shape.architecture in ENCODERS:
        return 2 * width * (vocabulary + shape.number("position_embeddings") + shape.number("token_types"))
    per_layer = vocabulary * shape.number("per_layer_input", 0) * shape.number("block_count") * 2
    tied = _tied(shape, exceptions)
    return per_layer + (0 if tied else _sum([_embedding(shape)], shape, quantization, exceptions))


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


def _sum(found: Iterable[Tensor], shape: Shape, quantization: str, exceptions: Mapping[str, str]) -> int:
    tied = _tied(shape, exceptions)
    return sum(bytes_of(tensor, shape, quantization, tied=tied) for tensor in found)


def _tied(shape: Shape, exceptions: Mapping[str, str]) -> bool:
    return bool(int(exceptions.get("tied", shape.number("tied", 0))))


def _embedding(shape: Shape) -> Tensor:
    return Tensor("token_embd", shape.number("embedding_length"), shape.number("vocabulary"))


def _attention(shape: Shape) -> Iterator[Tensor]:
    width, heads, kv_heads = (shape.number(key) for key in ("embedding_length", "head_count", "head_count_kv"))
    head = shape.number("key_length")
    value = shape.number("value_length", head)
    yield Tensor("attn_norms", _norm_values(shape), kind="F32")
    yield Tensor("attn_output", heads * value, width)
    if shape.architecture == "phi3":
        yield Tensor("attn_qkv", width, (heads + 2 * kv_heads) * head)
    elif "kv_lora_rank" in shape.facts:
        yield from _latent_attention(shape)
    else:
        yield Tensor("attn_q", width, heads * head)
        yield Tensor("attn_k", width, kv_heads * head)
        yield Tensor("attn_v", width, kv_heads * value)


def _norm_values(shape: Shape) -> int:
    """Norms of one layer, and the biases of its attention."""
    width, heads, kv_heads = (shape.number(key) for key in ("embedding_length", "head_count", "head_count_kv"))
    head, norms = shape.number("key_length"), shape.number("qk_norm", 0)
    values = width * shape.number("norms", 2)
    values += 2 * head if norms == 1 else norms // 2 * (heads + kv_heads) * head
    if "attention_bias" in shape.facts:
        values += (heads + 2 * kv_heads) * head
    return values + (width if "output_bias" in shape.facts else 0)


def _latent_attention(shape: Shape) -> Iterator[Tensor]:
    width, heads, head = (shape.number(key) for key in ("embedding_length", "head_count", "key_length"))
    rank, rope, query = (
        shape.number("kv_lora_rank"),
        shape.number("rope_dimension_count"),
        shape.number("q_lora_rank", 0),
    )
    if query:
        yield Tensor("attn_q_a_norm", query, kind="F32")
        yield Tensor("attn_q_a", width, query)
    yield Tensor("attn_q_b" if query else "attn_q", query or width, heads * head)
    yield Tensor("attn_kv_a_norm", rank, kind="F32")
    yield Tensor("attn_kv_a_mqa", width, rank + rope)
    yield Tensor("attn_kv_b", rank, heads * (head - rope + shape.number("value_length")))


def _feed_forward(shape: Shape, layer: int) -> Iterator[Tensor]:
    width, experts = shape.number("embedding_length"), shape.number("expert_count", 0)
    if not experts or layer < shape.number("leading_dense_block_count", 0):
        inner = shape.number("feed_forward_length")
        yield from _matrices("", width, inner, 1)
        return
    yield from _experts(shape)
    yield Tensor("ffn_gate_inp", width, experts, kind="F32")
    if shape.architecture == "gptoss":
        biases = experts * (2 * _expert_width(shape) + width + 1)
        yield Tensor("ffn_biases", biases + shape.number("head_count"), kind="F32")
    if shared := shape.number("expert_shared_feed_forward_length", 0):
        yield from _matrices("_shexp", width, shared, 1)


def _matrices(suffix: str, width: int, inner: int, count: int) -> Iterator[Tensor]:
    yield Tensor(f"ffn_gate{suffix}", width, inner * count)
    yield Tensor(f"ffn_up{suffix}", width, inner * count)
    yield Tensor(f"ffn_down{suffix}", inner, width * count)


def _experts(shape: Shape) -> Iterator[Tensor]:
    """The matrices of all experts of one layer."""
    found = _matrices("_exps", shape.number("embedding_length"), _expert_width(shape), shape.number("expert_count"))
    for each in found:
        if each.name != "ffn_gate_exps" or shape.architecture not in ONE_KIND_PER_LAYER:
            yield each


def _expert_width(shape: Shape) -> int:
    return shape.number("expert_feed_forward_length", shape.number("feed_forward_length"))


def _encoder_bytes(shape: Shape) -> int:
    width, inner, layers = (shape.number(key) for key in ("embedding_length", "feed_forward_length", "block_count"))
    matrices = 4 * width**2 + (3 if "gate" in shape.facts else 2) * width * inner
    vectors = 4 * (4 * width if "gate" in shape.facts else 9 * width + inner)
    return embedding_bytes(shape, "F16", {}) + layers * (2 * matrices + vectors) + 8 * width
