"""GGUF files of a few kilobytes, with random weights: gguf's own writer makes the good ones, `struct` the bad ones."""

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np

LAYERS, WIDTH, VOCABULARY = 4, 64, 300
BLOCK = WIDTH * 128 * 4
"""Bytes of the one tensor of a layer, f32."""
EMBEDDING = WIDTH * VOCABULARY * 2
"""Bytes of the embedding, f16."""


def write(
    path: Path, architecture: str = "llama", *, layers: int = LAYERS, tensors: tuple[str, ...] = (), **values: Any
) -> Path:
    """Writes a file of that architecture; `values` are further metadata, with `__` for a dot in their names."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_token_list([f"token {index}" for index in range(VOCABULARY)])
    writer.add_token_scores([0.5] * VOCABULARY)
    writer.add_chat_template("{{ messages }}")
    for name, value in values.items():
        key = f"{architecture}.{name.replace('__', '.')}"
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)
    random = np.random.default_rng(7)
    writer.add_tensor("token_embd.weight", random.standard_normal((VOCABULARY, WIDTH)).astype(np.float16))
    for index in range(layers):
        writer.add_tensor(f"blk.{index}.ffn_up.weight", random.standard_normal((128, WIDTH)).astype(np.float32))
    for name in tensors:
        writer.add_tensor(name, random.standard_normal((2, 32)).astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def head(tensors: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
