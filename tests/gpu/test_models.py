"""The models with random weights: their size against published ones, and the file that is written."""

import struct
from collections.abc import Callable
from pathlib import Path
from statistics import pstdev

import pytest

from catalogue.tensors import BLOCKS, gets_more_bits
from sharing.models import models
from tests.gpu.gguf_file import BLOCK_MAKERS, header, pattern, write_model
from tests.gpu.shapes import SHAPES, shrunk

PUBLISHED = {
    "llama2:7b": 3826793677,
    "mistral:7b": 4372824384,
    "llama3.2:3b": 2019393189,
    "qwen3:8b": 5225388164,
    "gpt-oss:20b": 13793441244,
    "nomic-embed-text": 274302450,
    "gemma3:4b": 2489757856,
}
"""Bytes as Ollama's listings of its library give them (sharing/data/models.csv names each source). gemma3:4b is without
its projector: gemma-3-4b-it-Q4_K_M.gguf of ggml-org/gemma-3-4b-it-GGUF."""


@pytest.mark.parametrize(("name", "size"), PUBLISHED.items())
def test_a_model_has_the_size_of_the_real_one(name: str, size: int) -> None:
    # The rest of a file is its header: names, merges and scores of the tokens.
    assert size * 0.994 < SHAPES[name].size <= size


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_description_of_a_model_agrees_with_the_catalogue(name: str) -> None:
    described, listed = SHAPES[name].model, models().get(name) or models()[f"{name}:latest"]
    assert (described.layers, described.swa_layers, described.swa_window) == (
        listed.layers,
        listed.swa_layers,
        listed.swa_window,
    )
    assert described.max_context == listed.max_context
    if not described.encoder:
        assert (described.kv_heads, described.head_dim) == (listed.kv_heads, listed.head_dim)


def test_half_of_the_layers_get_six_bits_in_q4_k_m() -> None:
    # Of 32 layers: the first and the last four, and every third between them.
    assert [layer for layer in range(32) if gets_more_bits(layer, 32)] == [
        *(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31)
    ]


@pytest.mark.parametrize("name", SHAPES)
def test_the_file_has_all_tensors_and_nothing_else(name: str, tmp_path: Path) -> None:
    shape = shrunk(SHAPES[name])
    write_model(shape, tmp_path / "m.gguf")
    padded = sum(tensor.size + -tensor.size % 32 for tensor in shape.tensors)
    assert (tmp_path / "m.gguf").stat().st_size == len(header(shape)) + padded
    assert [file.name for file in tmp_path.iterdir()] == ["m.gguf"]


def test_the_header_says_version_and_counts() -> None:
    magic, version, tensors, keys = struct.unpack("<4sIQQ", header(SHAPES["llama2:7b"])[:24])
    # Nine tensors of each of 32 layers, and three besides.
    assert (magic, version, tensors) == (b"GGUF", 3, 32 * 9 + 3)
    assert keys > 10


def test_every_matrix_consists_of_whole_blocks() -> None:
    for shape in SHAPES.values():
        for tensor in (*shape.tensors, *shrunk(shape).tensors):
            assert tensor.shape[0] % BLOCKS[tensor.kind][0] == 0, tensor


def _q4_0(block: bytes) -> list[float]:
    [scale] = struct.unpack("<e", block[:2])
    return [scale * (nibble - 8) for byte in block[2:] for nibble in (byte & 15, byte >> 4)]


def _q8_0(block: bytes) -> list[float]:
    scale, *values = struct.unpack("<e32b", block)
    return [scale * value for value in values]


def _q6_k(block: bytes) -> list[float]:
    low, high, scales, [scale] = block[:128], block[128:192], block[192:208], struct.unpack("<e", block[208:])
    values = []
    for index in range(128):
        # One value of each half byte is enough: the spread is the same.
        six_bits = (low[index] & 15) | ((high[index % 64] & 3) << 4)
        values.append(scale * int.from_bytes(scales[index // 8 : index // 8 + 1], signed=True) * (six_bits - 32))
    return values


def _bf16(block: bytes) -> list[float]:
    return list(struct.unpack("<f", b"\0\0" + block))


@pytest.mark.parametrize(
    ("kind", "decode"),
    [("Q4_0", _q4_0), ("Q8_0", _q8_0), ("Q6_K", _q6_k), ("BF16", _bf16)],
    ids=["Q4_0", "Q8_0", "Q6_K", "BF16"],
)
def test_weights_are_as_large_as_trained_ones(kind: str, decode: Callable[[bytes], list[float]]) -> None:
    size = BLOCKS[kind][1]
    blocks = pattern(kind)[: 400 * size]
    values = [value for start in range(0, len(blocks), size) for value in decode(blocks[start : start + size])]
    assert 0.01 < pstdev(values) < 0.04


@pytest.mark.slow
def test_a_pattern_is_the_same_in_every_run_and_fits_its_block() -> None:
    for kind in BLOCK_MAKERS:
        size = BLOCKS[kind][1]
        assert pattern(kind) == pattern(kind)
        assert len(pattern(kind)) % size == 0


def test_no_token_is_written_as_a_byte_that_is_no_text() -> None:
    # Type 6 is a byte (llama.cpp include/llama.h, LLAMA_TOKEN_TYPE_BYTE). Text generated at random had such bytes, and
    # llama-server b10454 answered 500: "output that does not match the expected Content-only format".
    data = header(shrunk(SHAPES["llama2:7b"]))
    start = data.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type")
    _, kind, count = struct.unpack_from("<IIQ", data, start)
    types = struct.unpack_from(f"<{count}i", data, start + 16)
    assert (kind, count) == (5, 1024)
    assert set(types) == {1, 2, 3}
    assert b"<0x41>" in data
