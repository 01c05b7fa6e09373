"""The models with random weights: their size against published ones, and the file that is written."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from tests.gpu.gguf_file import BLOCK_MAKERS, pattern, write_model
from tests.gpu.shapes import SHAPES, Shape, shrunk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_model_has_the_size_of_the_real_one(shape: Shape) -> None:
    # Of an encoder, the real file has the types of tokens in F16, and llama.cpp writes them in F32.
    types = 2 * 2 * shape.model.width if shape.model.encoder else 0
    assert shape.size - types == shape.model.weights_bytes


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_file_has_all_tensors_and_tokens_and_nothing_else(shape: Shape, tmp_path: Path) -> None:
    small = shrunk(shape)
    write_model(small, tmp_path / "m.gguf")
    found = GGUFReader(tmp_path / "m.gguf")
    tensors = [(tensor.name, tensor.tensor_type.name, tuple(tensor.shape), tensor.n_bytes) for tensor in found.tensors]
    assert tensors == [(tensor.name, tensor.kind, tensor.shape, tensor.size) for tensor in small.tensors]
    last = found.tensors[-1]
    assert (tmp_path / "m.gguf").stat().st_size == last.data_offset + last.n_bytes + -last.n_bytes % 32
    values = {key: field.contents() for key, field in found.fields.items()}
    assert values["general.architecture"] == small.architecture
    assert values[f"{small.architecture}.block_count"] == small.model.layers
    tokens, types = (values[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type"))
    assert len(tokens) == len(types) == 1024
    # Type 6 is a byte (llama.cpp include/llama.h, LLAMA_TOKEN_TYPE_BYTE). Text generated at random had such bytes, and
    # llama-server b10454 answered 500: "output that does not match the expected Content-only format".
    assert {*types} <= {1, 2, 3}
    assert ("<0x41>" in tokens) == (not small.model.encoder)
    assert [file.name for file in tmp_path.iterdir()] == ["m.gguf"]


@pytest.mark.parametrize("kind", BLOCK_MAKERS)
def test_weights_are_as_large_as_trained_ones(kind: str) -> None:
    blocks = np.frombuffer(pattern(kind), {"F32": np.float32, "F16": np.float16}.get(kind, np.uint8))
    assert 0.01 < dequantize(blocks, GGMLQuantizationType[kind]).std() < 0.04
