"""Writes a GGUF of 250 kB that a real engine loads; all weights are zero, so it says nothing: `tiny_model.py OUT`."""

import struct
import sys
from collections.abc import Iterable
from pathlib import Path

LAYERS, WIDTH, FORWARD, HEADS = 2, 64, 128, 2


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def uint(value: int) -> bytes:
    return struct.pack("<II", 4, value)


def array(kind: int, items: Iterable[bytes]) -> bytes:
    items = list(items)
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


def gguf() -> bytes:
    """The file, GGUF version 3: head, fields, tensor table, tensors."""
    # Token types: 2 unknown, 3 control, 6 byte, 1 normal.
    vocab = [("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"<0x{byte:02X}>", 6) for byte in range(256)), ("▁a", 1)]
    string = struct.pack("<I", 8)
    fields = {
        "general.architecture": string + text("llama"),
        "general.file_type": uint(1),
        "llama.vocab_size": uint(len(vocab)),
        "llama.context_length": uint(32768),
        "llama.embedding_length": uint(WIDTH),
        "llama.block_count": uint(LAYERS),
        "llama.feed_forward_length": uint(FORWARD),
        "llama.rope.dimension_count": uint(WIDTH // HEADS),
        "llama.attention.head_count": uint(HEADS),
        "llama.attention.head_count_kv": uint(HEADS),
        "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", 6, 1e-5),
        "tokenizer.ggml.model": string + text("llama"),
        "tokenizer.ggml.tokens": array(8, (text(piece) for piece, _ in vocab)),
        "tokenizer.ggml.scores": array(6, (struct.pack("<f", -index) for index in range(len(vocab)))),
        "tokenizer.ggml.token_type": array(5, (struct.pack("<i", kind) for _, kind in vocab)),
        "tokenizer.ggml.bos_token_id": uint(1),
        "tokenizer.ggml.eos_token_id": uint(2),
    }
    shapes = {"token_embd": [WIDTH, len(vocab)], "output_norm": [WIDTH], "output": [WIDTH, len(vocab)]}
    for block in range(LAYERS):
        attention = {f"attn_{part}": [WIDTH, WIDTH] for part in ("q", "k", "v", "output")}
        forward = {"ffn_gate": [WIDTH, FORWARD], "ffn_up": [WIDTH, FORWARD], "ffn_down": [FORWARD, WIDTH]}
        norms = {"attn_norm": [WIDTH], "ffn_norm": [WIDTH]}
        shapes |= {f"blk.{block}.{name}": shape for name, shape in (attention | forward | norms).items()}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields))
    head += b"".join(text(key) + value for key, value in fields.items())
    size = 0
    for name, shape in shapes.items():
        # Type 0: F32, for the norms. Type 1: F16. All sizes are multiples of the alignment, 32.
        kind, width = (0, 4) if len(shape) == 1 else (1, 2)
        head += text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, size)
        count = 1
        for edge in shape:
            count *= edge
        size += count * width
    return head + bytes(-len(head) % 32) + bytes(size)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(gguf())
