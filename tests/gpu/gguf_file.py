"""Writes a model of `shapes` as a GGUF file with random weights.

Memory does not depend on the values. Speed hardly does, but zeros run measurably faster on a GPU, and values that
overflow end in NaN, so every type gets random blocks of about the spread that trained weights have. One megabyte of
them is made for each type and written again and again: 14 GB in seconds.
"""

import random
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from sharing.models.tensor_types import BY_NAME
from tests.gpu.shapes import Shape, Tensor

ALIGNMENT = 32
KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30, "MXFP4": 39}
"""Numbers of the types in a file. Source: ggml.h, `ggml_type`."""
FILE_KINDS = {"F16": 1, "Q4_0": 2, "Q4_K_M": 15, "BF16": 38}
"""`general.file_type` by the type of the matrices; 38 is a mixture of experts in MXFP4. Source: llama.h."""
PATTERN_BYTES = 2**20
CHUNK = 2**24

GEMMA_ROPE_BASE, GPT_OSS_ROPE_BASE = 1_000_000.0, 150_000.0

Value = int | float | str | bool


def write_model(shape: Shape, path: Path) -> None:
    """Writes the file under another name first, so that the file at `path` is always complete."""
    partial = path.with_suffix(".partial")
    patterns = {kind: pattern(kind) for kind in {tensor.kind for tensor in shape.tensors}}
    with partial.open("wb") as file:
        file.write(header(shape))
        for tensor in shape.tensors:
            for part in content(tensor, patterns[tensor.kind]):
                file.write(part)
            file.write(bytes(-tensor.size % ALIGNMENT))
    partial.rename(path)


def header(shape: Shape) -> bytes:
    """Everything before the weights: keys, tokens and the offset of each tensor."""
    fields = {**_keys(shape), **_tokenizer(shape)}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shape.tensors), len(fields))
    head += b"".join(_text(key) + value for key, value in fields.items())
    offset, table = 0, []
    for tensor in shape.tensors:
        dimensions = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        table.append(_text(tensor.name) + dimensions + struct.pack("<IQ", KINDS[tensor.kind], offset))
        offset += tensor.size + -tensor.size % ALIGNMENT
    head += b"".join(table)
    return head + bytes(-len(head) % ALIGNMENT)


def content(tensor: Tensor, blocks: bytes) -> Iterable[bytes]:
    """The bytes of a tensor. Norms are ones and biases zeros, so that values neither vanish nor explode."""
    if tensor.kind == "F32" and len(tensor.shape) == 1:
        one = struct.pack("<f", 1.0 if tensor.name.endswith("norm.weight") else 0.0)
        yield one * tensor.shape[0]
        return
    many = blocks * (CHUNK // len(blocks))
    for start in range(0, tensor.size, len(many)):
        yield many[: tensor.size - start]


def pattern(kind: str) -> bytes:
    """Random blocks of one type, about `PATTERN_BYTES` of them, the same in every run."""
    source = random.Random(kind)
    make, size = BLOCK_MAKERS[kind], BY_NAME[kind].bytes
    return b"".join(make(source) for _ in range(PATTERN_BYTES // size))


def _half(value: float) -> bytes:
    return struct.pack("<e", value)


def _q4_k(source: random.Random) -> bytes:
    # value = d * scale * q - dmin * min: with dmin = 7.5 d, scales and minima of the same spread cancel on average.
    return _half(1.4e-4) + _half(7.5 * 1.4e-4) + source.randbytes(12 + 128)


BLOCK_MAKERS: dict[str, Callable[[random.Random], bytes]] = {
    "F32": lambda source: struct.pack("<f", source.uniform(-0.03, 0.03)),
    "F16": lambda source: _half(source.uniform(-0.03, 0.03)),
    "BF16": lambda source: struct.pack("<f", source.uniform(-0.03, 0.03))[2:],
    "Q4_0": lambda source: _half(0.0043) + source.randbytes(16),
    "Q8_0": lambda source: _half(2.7e-4) + source.randbytes(32),
    "Q4_K": _q4_k,
    "Q6_K": lambda source: source.randbytes(208) + _half(1.5e-5),
    # An exponent of 2^-7, then sixteen bytes with two values of up to 6 each.
    "MXFP4": lambda source: bytes([120]) + source.randbytes(16),
}
"""One random block of each type, for a standard deviation of about 0.02. Layouts: ggml-common.h."""


def _keys(shape: Shape) -> dict[str, bytes]:
    values: dict[str, Value] = {
        "block_count": shape.model.layers,
        "context_length": shape.model.max_context,
        "embedding_length": shape.model.width,
        "feed_forward_length": shape.inner,
        "vocab_size": shape.model.vocabulary,
        "attention.head_count": shape.model.heads,
        "attention.head_count_kv": shape.model.kv_heads,
        "attention.key_length": shape.model.head_dim,
        "attention.value_length": shape.model.head_dim,
        "rope.dimension_count": shape.model.head_dim,
    }
    if shape.model.encoder:
        values |= {"attention.layer_norm_epsilon": 1e-12, "attention.causal": False, "pooling_type": 1}
    else:
        values["attention.layer_norm_rms_epsilon"] = 1e-5
    if shape.model.swa_window:
        values["attention.sliding_window"] = shape.model.swa_window
    if shape.architecture == "gemma3":
        values["rope.freq_base"] = GEMMA_ROPE_BASE
    if shape.model.experts:
        values |= {
            "expert_count": shape.model.experts,
            "expert_used_count": shape.model.experts_used,
            "expert_feed_forward_length": shape.inner,
            "rope.freq_base": GPT_OSS_ROPE_BASE,
        }
    return {
        "general.architecture": _field(shape.architecture),
        "general.name": _field(f"{shape.model.name} with random weights"),
        "general.file_type": _field(FILE_KINDS[shape.matrices]),
    } | {f"{shape.architecture}.{key}": _field(value) for key, value in values.items()}


def _tokenizer(shape: Shape) -> dict[str, bytes]:
    """As many tokens as the model has; all after the first few hundred are words that no text contains."""
    # Types: 1 normal, 2 unknown, 3 control.
    if shape.model.encoder:
        kind, special = "bert", [(name, 3) for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
        numbers = {"padding": 0, "unknown": 1, "cls": 2, "bos": 2, "eos": 3, "seperator": 3, "mask": 4}
        # Word pieces are letters here: `a` is in each of them.
        special += [("▁a", 1)]
    else:
        kind, special = (
            "llama",
            # Tokens of bytes are found by their names (llama-vocab.cpp, byte_to_token). As normal tokens they are
            # written as such: random bytes are no UTF-8, for which llama-server refuses an answer (common/chat.cpp).
            [("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"<0x{byte:02X}>", 1) for byte in range(256))],
        )
        numbers = {"unknown": 0, "bos": 1, "eos": 2}
    tokens = [*special, *((f"▁w{number}", 1) for number in range(len(special), shape.model.vocabulary))]
    fields = {
        "model": _field(kind),
        "tokens": _array(8, (_text(piece) for piece, _ in tokens)),
        "scores": _array(6, (struct.pack("<f", -float(index)) for index in range(len(tokens)))),
        "token_type": _array(5, (struct.pack("<i", one) for _, one in tokens)),
        **{f"{name}_token_id": _field(number) for name, number in numbers.items()},
    }
    if shape.model.encoder:
        fields["token_type_count"] = _field(2)
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items()}


def _field(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<I", 8) + _text(value)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _array(kind: int, items: Iterable[bytes]) -> bytes:
    listed = list(items)
    return struct.pack("<IIQ", 9, kind, len(listed)) + b"".join(listed)
