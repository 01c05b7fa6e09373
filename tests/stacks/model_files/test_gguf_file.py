"""Reading an untrusted GGUF file."""

import contextlib
import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharing.models.metadata import Tensor
from sharing.models.tensor_types import BY_NAME, TYPES
from stacks.model_files import gguf_file
from stacks.model_files.errors import MissingFileError, UnreadableModelError
from stacks.model_files.gguf_file import read, tensor_bytes
from tests.stacks.model_files.gguf_files import (
    BLOCK,
    EMBEDDING,
    LAYERS,
    VOCABULARY,
    WIDTH,
    head,
    number,
    tensor,
    text,
    write,
)

ARRAY, STRING, UINT8, UINT32 = 9, 8, 0, 4
HUGE = 2**63


def test_a_file_has_its_metadata_and_the_sizes_of_its_tensors(tmp_path: Path) -> None:
    contents = read(write(tmp_path / "m.gguf", attention__head_count_kv=2, rope__dimension_sections=[1, 2, 3]))
    assert contents.metadata["general.architecture"] == "llama"
    assert contents.metadata["llama.block_count"] == LAYERS
    assert contents.metadata["llama.rope.dimension_sections"] == [1, 2, 3]
    assert contents.tensors[0] == Tensor("token_embd.weight", (WIDTH, VOCABULARY), EMBEDDING)
    assert contents.bytes == EMBEDDING + LAYERS * BLOCK


def test_tokens_and_templates_are_not_kept(tmp_path: Path) -> None:
    assert not [key for key in read(write(tmp_path / "m.gguf")).metadata if key.startswith("tokenizer.")]


def test_lists_for_each_layer_are_kept_and_longer_ones_are_not(tmp_path: Path) -> None:
    """The format's authors allow 512 layers: LLAMA_MAX_LAYERS of llama.cpp src/llama-hparams.h."""
    contents = read(write(tmp_path / "m.gguf", a=[7] * 1024, b=[7] * 1025, c=1))
    assert [contents.metadata[f"llama.{key}"] for key in "abc"] == [[7] * 1024, [], 1]
    path = tmp_path / "t.gguf"
    path.write_bytes(head(keys=1) + text("a") + struct.pack("<I", STRING) + text("x" * 1023 + "é"))
    assert read(path).metadata == {"a": "x" * 1023 + "\ufffd"}, "1,024 bytes, of which the last is half of a letter"


def test_the_library_reads_the_same(tmp_path: Path) -> None:
    """gguf, of llama.cpp's authors: decision 0171."""
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    numbers = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "uint64", "int64", "float64")
    for value, name in enumerate(numbers, start=1):
        getattr(writer, f"add_{name}")(f"llama.{name}", value)
    writer.add_bool("llama.yes", True)
    writer.add_string("llama.text", "é")
    writer.add_array("llama.list", [0.5, -1.5])
    writer.add_array("tokenizer.ggml.tokens", ["a", "bcd"])
    writer.add_custom_alignment(64)
    for name, shape in (("a", (2, 32)), ("b", (2, 3, 5, 32))):
        writer.add_tensor(name, np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    library, contents = gguf.GGUFReader(path), read(path)
    assert contents.metadata == {
        key: field.contents() for key, field in library.fields.items() if not key.startswith(("GGUF.", "tokenizer."))
    }
    assert [(each.name, list(each.shape), each.bytes) for each in contents.tensors] == [
        (each.name, each.shape.tolist(), each.n_bytes) for each in library.tensors
    ]


def test_a_file_of_the_other_byte_order_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.BIG)
    writer.add_block_count(7)
    writer.add_token_list(["a", "bcd"])
    writer.add_tensor("token_embd.weight", np.zeros((2, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    contents = read(path)
    assert (contents.metadata["llama.block_count"], contents.bytes) == (7, 256)


def test_the_library_has_the_same_types_of_tensors() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    # ggml-common.h: block_q2_0 has 64 values in 18 bytes. The package gets it with a later version.
    assert {number: tuple(kind) for number, kind in TYPES.items()} == {**theirs, 42: ("Q2_0", 64, 18)}


@pytest.mark.parametrize(("name", "shape", "size"), [("Q4_K", (512, 3), 864), ("MXFP4", (32, 2, 5), 170)])
def test_a_tensor_has_the_size_of_its_blocks(name: str, shape: tuple[int, ...], size: int) -> None:
    """ggml-common.h: block_q4_K has 144 bytes for 256 values, block_mxfp4 17 for 32."""
    assert tensor_bytes(BY_NAME[name], shape) == size


def list_of(kind: int, count: int) -> bytes:
    return text("a") + struct.pack("<IIQ", ARRAY, kind, count)


TOKENS = list_of(STRING, 2) + text("") + text("abc")
AFTER_TOKENS = -(-(24 + 9 + 16 + 8 + 11 + 9 + 4 + 8 + 4 + 8) // 32) * 32
"""The start of the tensors after a head, `TOKENS` and one tensor of one dimension: docs/gguf.md of ggml."""


@pytest.mark.parametrize(
    ("content", "metadata"),
    [
        # Version 3 differs from version 2 in that a file may have the other byte order.
        (head(version=2), {}),
        (head(keys=1) + number("general.alignment", 1), {"general.alignment": 1}),
        (head(keys=1) + list_of(STRING, 2) + text("abc") + text(""), {"a": []}),
        (head(keys=1) + list_of(STRING, 0), {"a": []}),
        (head(keys=1, tensors=1) + TOKENS + tensor("b", (1,)) + bytes(32 + 4), {"a": []}),
    ],
)
def test_a_file_may_end_where_its_content_ends(content: bytes, metadata: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    assert read(tmp_path / "m.gguf").metadata == metadata


BROKEN: dict[str, tuple[bytes, str]] = {
    "an empty file": (
        b"",
        "is not a GGUF file. It does not start with `GGUF`. Download it again, or choose another file.",
    ),
    "another file": (
        b"\x7fELF" + bytes(100),
        "is not a GGUF file. It does not start with `GGUF`. Download it again, or choose another file.",
    ),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", "Run `git lfs pull` first."),
    "a web page": (b"\n<!DOCTYPE html><html>", "write the URL with `/resolve/` instead of `/blob/`."),
    "an archive": (b"PK\x03\x04" + bytes(100), "It is an archive. Unpack it, and choose the GGUF file."),
    "nothing after its name": (b"GGUF", "ends at byte 4, in the middle of its metadata. Download it again."),
    "no counts": (b"GGUF" + struct.pack("<I", 3), "ends at byte 8, in the middle"),
    "an old version": (head(version=1) + bytes(8), "cannot be read as GGUF (version 1). Download it again."),
    "too many keys": (head(keys=HUGE), "claims 9,223,372,036,854,775,808 keys; no model has more than 4,096"),
    "too many tensors": (head(tensors=HUGE), "claims 9,223,372,036,854,775,808 tensors; no model has more than 65,536"),
    "a text without an end": (
        head(keys=1) + struct.pack("<Q", HUGE),
        "in the middle of its metadata",
    ),
    "a text beyond the end": (head(keys=1) + struct.pack("<Q", 1000), "in the middle of its metadata"),
    "a list without an end": (head(keys=1) + list_of(UINT32, HUGE), "in the middle of its metadata"),
    "tokens without an end": (head(keys=1) + list_of(STRING, HUGE) + text("a"), "in the middle of its metadata"),
    "a list beyond the end": (head(keys=1) + list_of(UINT8, 8_000_000), "in the middle of its metadata"),
    "tokens beyond the end": (head(keys=1) + list_of(STRING, 8_000_000), "in the middle of its metadata"),
    "an empty token beyond the end": (head(keys=1) + list_of(STRING, 2) + text(""), "in the middle of its metadata"),
    "a token beyond the end": (
        head(keys=1) + list_of(STRING, 1) + struct.pack("<Q", 4) + b"abc",
        "in the middle of its metadata",
    ),
    "a tensor beyond the end, after tokens": (
        head(keys=1, tensors=1) + TOKENS + tensor("b", (1024,)),
        f"bytes, but its tensors need {AFTER_TOKENS + 4096:,}. Download it again.",
    ),
    "a token without an end": (
        head(keys=1) + list_of(STRING, 2) + struct.pack("<Q", HUGE) + bytes(64),
        "in the middle of its metadata",
    ),
    "a list of lists": (head(keys=1) + list_of(ARRAY, 1) + bytes(64), "has a list of lists"),
    "an unknown type": (
        head(keys=1) + text("a") + struct.pack("<I", 77) + bytes(64),
        "has a value of an unknown type, 77. Download it again.",
    ),
    "a list of an unknown type": (
        head(keys=1) + list_of(77, 1) + bytes(64),
        "has a value of an unknown type, 77. Download it again.",
    ),
    "a key twice": (
        head(keys=2) + number("a", 1) * 2 + bytes(64),
        "(two values of a)",
    ),
    "a key that is no text": (
        head(keys=1) + struct.pack("<Q", 1) + b"\xff" + struct.pack("<II", 4, 1),
        "cannot be read as GGUF ('utf-8' codec",
    ),
    "an alignment of zero": (
        head(keys=1) + number("general.alignment", 0) + bytes(64),
        "(an alignment of 0)",
    ),
    "too many dimensions": (head(tensors=1) + tensor("a", (1,) * 5) + bytes(64), "claims a tensor of 5 dimensions"),
    "dimensions without an end": (
        head(tensors=1) + text("a") + struct.pack("<I", 2**32 - 1) + bytes(64),
        "claims a tensor of 4,294,967,295 dimensions; no model has more than 4",
    ),
    "more values than a number holds": (
        head(tensors=1) + tensor("a", (2**32, 2**32, 2**32)) + bytes(64),
        "cannot be read as GGUF (a tensor of 4294967296 × 4294967296 × 4294967296 values)",
    ),
    "an edge of zero": (head(tensors=1) + tensor("a", (0, 4)) + bytes(64), "(a tensor of 0 × 4 values)"),
    "an unknown kind of tensor": (
        head(tensors=1) + tensor("a", (4,), kind=99) + bytes(64),
        "tensor of an unknown type, 99",
    ),
    "a tensor beyond the end": (
        head(tensors=1) + tensor("a", (1024,)) + bytes(64),
        "bytes, but its tensors need 4,160. Download it again.",
    ),
    "several tensors beyond the end": (
        head(tensors=2) + tensor("a", (1024,)) + tensor("b", (1024,), offset=4096) + bytes(64),
        "bytes, but its tensors need 8,288. Download it again.",
    ),
    "an offset beyond the end": (
        head(tensors=1) + tensor("a", (1,), offset=HUGE) + bytes(64),
        "its tensors need 9,223,372,036,854,775,876",
    ),
    "two tensors of one name": (
        head(tensors=2) + tensor("a", (1,)) * 2 + bytes(64),
        "has two tensors with the same name",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_a_fix(case: str, tmp_path: Path) -> None:
    content, shown = BROKEN[case]
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(UnreadableModelError) as refusal:
        read(path)
    assert str(refusal.value).startswith(f"{path} ")
    assert shown in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_metadata_of_more_than_any_model_has_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(head(keys=1, tensors=1) + TOKENS + tensor("b", (1,)) + bytes(32 + 4))
    end = 24 + len(TOKENS) + len(tensor("b", (1,)))
    monkeypatch.setattr(gguf_file, "MOST_HEADER", end)
    assert read(path).tensors
    for most in (end - 1, 24 + len(TOKENS) - 1):
        monkeypatch.setattr(gguf_file, "MOST_HEADER", most)
        with pytest.raises(UnreadableModelError, match="has more than 0 MiB of metadata, which no model has"):
            read(path)


@pytest.mark.parametrize("name", ["", "none.gguf", "pipe"])
def test_a_path_without_a_file_is_another_error(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MissingFileError, match=r"(is a folder|No such file or directory|is a device or a pipe)"):
        read(tmp_path / name)


@given(data=st.data())
def test_no_damage_causes_a_traceback_or_an_endless_loop(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    if not (folder / "good.gguf").exists():
        write(folder / "good.gguf")
    content = bytearray((folder / "good.gguf").read_bytes())
    place = data.draw(st.integers(0, 1500))
    content[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=16))
    (folder / "bad.gguf").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(UnreadableModelError):
        assert read(folder / "bad.gguf").bytes <= len(content)
