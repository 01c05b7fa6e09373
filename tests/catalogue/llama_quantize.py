"""Asks llama.cpp's own `llama-quantize` for the bytes of models in other quantizations, without their weights.

`python -m tests.catalogue.llama_quantize PROGRAM` writes `llama_quantize.csv` again. It writes each model as a file of
its full size that has a header only (the rest is a hole, which takes no room) and runs the program with `--dry-run`.
"""

import csv
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from catalogue.facts import Shape, Tag, tags
from catalogue.quantizing import MIXTURES, Tensor
from catalogue.tensors import tensors

MODELS = (
    *("llama2:7b", "llama3.2:1b", "llama3.1:8b", "llama3.1:70b", "mistral:7b", "mixtral:8x7b"),
    *("qwen2.5:0.5b", "qwen2.5:7b", "qwen2.5:72b", "qwen3:0.6b", "qwen3:8b", "qwen3:30b"),
    *("gemma:7b", "gemma2:2b", "gemma3:4b", "gemma3:27b", "olmo2:7b", "granite3.1-moe:1b", "smollm2:135m"),
)
ABOUT = (
    "MiB of all tensors, as `llama-quantize --dry-run` of b10454 (llama-cpp-python 0.3.35) prints them for each shape"
)
QUANTIZATIONS = (*MIXTURES, "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16")
FIELDS = {
    "block_count": "block_count",
    "context_length": "context_length",
    "embedding_length": "embedding_length",
    "feed_forward_length": "feed_forward_length",
    "attention.head_count": "head_count",
    "attention.head_count_kv": "head_count_kv",
    "attention.key_length": "key_length",
    "attention.value_length": "key_length",
    "rope.dimension_count": "key_length",
    "vocab_size": "vocabulary",
    "expert_count": "expert_count",
    "expert_used_count": "expert_used_count",
    "expert_feed_forward_length": "expert_feed_forward_length",
    "attention.sliding_window": "sliding_window",
}
"""Keys of a GGUF header, and the facts that they have."""
SCALES = ("attention.scale", "embedding_scale", "logit_scale", "residual_scale")
NUMBER, REAL, TEXT = 4, 6, 8
"""Types of values in a header. Source: ggml/include/gguf.h, gguf_type."""
KINDS = {"F32": (0, 4), "F16": (1, 2)}
"""Types of tensors in a header, and the bytes of a value."""
ALIGNMENT = 32
SIZE = re.compile(rb"quant size += +([0-9.]+) MiB")


def main(program: str) -> None:
    with Path(__file__).with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {ABOUT}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", *QUANTIZATIONS])
        for name in MODELS:
            writer.writerow([name, *_sizes(program, tags()[name])])


def _sizes(program: str, tag: Tag) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        _write(path, tag.shape, list(tensors(tag.shape, "Q8_0", _tie(tag))))
        for quantization in QUANTIZATIONS:
            ended = subprocess.run([program, "--dry-run", path, quantization], check=True, capture_output=True)
            yield SIZE.findall(ended.stdout + ended.stderr)[-1].decode()


def _tie(tag: Tag) -> dict[str, str]:
    """Whether the file has an output of its own, without the tensors that Ollama's own quantizer leaves in F16."""
    return {key: value for key, value in tag.exceptions.items() if key == "tied"}


def _write(path: Path, shape: Shape, found: list[Tensor]) -> None:
    fields = [_text("general.architecture") + struct.pack("<I", TEXT) + _text(shape.architecture)]
    for key, fact in FIELDS.items():
        if fact in shape.facts:
            fields.append(_text(f"{shape.architecture}.{key}") + struct.pack("<II", NUMBER, shape.number(fact)))
    small = struct.pack("<If", REAL, 1e-5)
    fields += [_text(f"{shape.architecture}.{key}") + small for key in ("attention.layer_norm_rms_epsilon", *SCALES)]
    infos, offset = b"", 0
    for tensor in found:
        number, size = KINDS[tensor.kind or "F16"]
        edges = _edges(shape, tensor)
        infos += _text(f"{tensor.name}.weight") + struct.pack(f"<I{len(edges)}Q", len(edges), *edges)
        infos += struct.pack("<IQ", number, offset)
        offset += -(-tensor.row * tensor.rows * size // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(found), len(fields)) + b"".join(fields) + infos
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        file.truncate(file.tell() + offset)


def _edges(shape: Shape, tensor: Tensor) -> tuple[int, ...]:
    if tensor.name.endswith("_exps"):
        experts = shape.number("expert_count")
        return tensor.row, tensor.rows // experts, experts
    return (tensor.row, tensor.rows) if tensor.rows > 1 else (tensor.row,)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


if __name__ == "__main__":
    main(sys.argv[1])
