"""Reads the metadata and the tensor table of a GGUF file, without trusting any count or length in it."""

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType
from gguf.gguf_reader import ReaderField

from sharing.models.metadata import MOST_BYTES, Tensor
from sharing.printable import printable
from tandem.deployed.ollama_replies import MOST_DIMENSIONS, MOST_TENSORS
from tandem.terminal import FAILED, CallError

MOST_HEADER = 256 * 2**20
"""Bytes before the tensors. The largest vocabularies of 2026 take 20 MiB."""
MOST_FIELDS = 4096
MOST_ITEMS = 8_388_608
"""Items of a list: a vocabulary has up to 262,144 tokens, and twice as many merges."""
MOST_TEXT = 4 * 2**20
"""Bytes of a text: a chat template."""
MAGIC = b"GGUF"
PREFIXES = (
    (b"version https://git-lfs", "It is a pointer of Git LFS. Run `git lfs pull` first."),
    (b"<", "It is a web page. For a file on Hugging Face, write the URL with `/resolve/` instead of `/blob/`."),
    (b"PK", "It is an archive. Unpack it, and choose the GGUF file."),
)
"""First bytes of files that users confuse with GGUF, and the fix."""
NEW_COPY = "Download it again."


class UnreadableModelError(CallError):
    """A file, a URL or a server without a description of a model; the text contains the fix."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a file before its tensors."""

    metadata: dict[str, object]
    """Without the tokenizer's."""
    tensors: tuple[Tensor, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)


def read(path: Path) -> Contents:
    """The content of the GGUF file at `path`; raises `UnreadableModelError`, or `CallError` if there is no file."""
    if os.path.isdir(path):  # unlike `Path.is_dir`, it takes a name that is too long
        raise CallError(f"{path} is a folder. Choose a file in it.")
    try:
        with path.open("rb") as file:
            start = file.read(32)
    except OSError as error:
        raise CallError(f"{path} cannot be read: {error.strerror}. Choose a GGUF file.") from None
    check_start(str(path), start)
    return read_mapped(str(path), path)


def check_start(name: str, start: bytes) -> None:
    """Raises `UnreadableModelError` unless a file starts like GGUF."""
    if start.startswith(MAGIC):
        return
    looks_like = [fix for prefix, fix in PREFIXES if start.lstrip().lower().startswith(prefix.lower())]
    fix = looks_like[0] if looks_like else "It does not start with `GGUF`. Download it again, or choose another file."
    raise UnreadableModelError(f"{name} is not a GGUF file. {fix}")


def read_mapped(name: str, path: Path, need: Callable[[int], None] = lambda end: None) -> Contents:
    """The content of the file at `path`; calls `need` before it reads bytes up to `end`.

    `name` is for messages. Raises `UnreadableModelError`.
    """
    try:
        reader = _BoundedReader(path, need)
        metadata = {
            key: field.contents()
            for key, field in reader.fields.items()
            if not key.startswith(("GGUF.", "tokenizer.")) and field.types
        }
    except _BrokenError as error:
        raise UnreadableModelError(f"{name} {error}") from None
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        # The library's message: an unknown type, version or alignment, or a duplicate key.
        said = printable(str(error.args[0] if isinstance(error, KeyError) else error))[:160].rstrip(".")
        raise UnreadableModelError(f"{name} cannot be read as GGUF ({said}). {NEW_COPY}") from None
    return Contents(metadata, tuple(reader.found))


class _BrokenError(Exception):
    """An error in a file, as text to follow its name."""


class _BoundedReader(GGUFReader):
    """The library's reader with limits: by default it trusts every count, and reads a list token by token.

    It overrides internal methods of gguf, hence the narrow range of versions in pyproject.toml.
    """

    def __init__(self, path: Path, need: Callable[[int], None]) -> None:
        self._need = need
        self.found: list[Tensor] = []
        super().__init__(path)

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> np.ndarray[Any, Any]:
        self._reach(offset + int(count) * np.dtype(dtype).itemsize)
        return super()._get(offset, dtype, count, override_order)

    def _reach(self, end: int) -> None:
        if end > self.data.size:
            raise _BrokenError(f"ends at byte {self.data.size:,}, in the middle of its metadata. {NEW_COPY}")
        if end > MOST_HEADER:
            raise _BrokenError(f"has more than {MOST_HEADER // 2**20} MiB of metadata, which no model has. {NEW_COPY}")
        self._need(end)

    def _get_str(self, offset: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        length = self._get(offset, np.uint64)
        _bound("a text of {:,} bytes", int(length[0]), MOST_TEXT)
        return length, self._get(offset + 8, np.uint8, length[0])

    def _build_fields(self, offs: int, count: int) -> int:
        _bound("{:,} keys", int(count), MOST_FIELDS)
        return super()._build_fields(offs, count)

    def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[ReaderField]]:
        _bound("{:,} tensors", int(count), MOST_TENSORS)
        return super()._build_tensor_info(offs, count)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[GGUFValueType]]:
        if _value_type(raw_type) is not GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        count, start = int(length[0]), orig_offs + 12
        _bound("a list of {:,} items", count, MOST_ITEMS)
        types = [GGUFValueType.ARRAY, _value_type(kind[0])]
        if number := self.gguf_scalar_to_np.get(types[1]):
            values = self._get(start, number, count)
            return 12 + values.nbytes, [kind, length, values], [2], types
        if types[1] is GGUFValueType.STRING:
            return 12 + self._texts_size(start, count), [kind, length], [], types
        raise _BrokenError(f"has a list of lists, which no model has. {NEW_COPY}")

    def _texts_size(self, start: int, count: int) -> int:
        """Bytes of a list of texts. They are tokens, which tandem does not read."""
        length = struct.Struct("<Q" if self.byte_order == "I" else ">Q")
        offset, view = start, self.data.data
        for _ in range(count):
            self._reach(offset + length.size)
            size = length.unpack_from(view, offset)[0]
            _bound("a text of {:,} bytes", size, MOST_TEXT)
            offset += length.size + size
        self._reach(offset)
        return offset - start

    def _build_tensors(self, start_offs: int, fields: list[ReaderField]) -> None:
        """Sizes and offsets, without reading a value."""
        needed = 0
        for field in fields:
            _, name, dimensions, shape, kind, offset = field.parts
            _bound("a tensor of {:,} dimensions", int(dimensions[0]), MOST_DIMENSIONS)
            text = str(bytes(name), encoding="utf-8")
            size = tensor_bytes(GGMLQuantizationType(int(kind[0])), shape.tolist())
            needed = max(needed, start_offs + int(offset[0]) + size)
            self.found.append(Tensor(text, tuple(shape.tolist()), size))
        if needed > self.data.size:
            raise _BrokenError(f"has {self.data.size:,} bytes, but its tensors need {needed:,}. {NEW_COPY}")
        names = {tensor.name for tensor in self.found}
        if len(names) < len(self.found):
            raise _BrokenError(f"has two tensors with the same name. {NEW_COPY}")


def tensor_bytes(kind: GGMLQuantizationType, shape: Sequence[int]) -> int:
    """Bytes of a tensor; raises `ValueError` for an impossible size."""
    block, size = GGML_QUANT_SIZES[kind]
    values = prod(shape)
    if not all(0 < edge <= MOST_BYTES for edge in shape) or values * size // block > MOST_BYTES:
        raise ValueError(f"a tensor of {' × '.join(map(str, shape))} values")
    return values // block * size


def _value_type(number: int) -> GGUFValueType:
    if int(number) not in list(GGUFValueType):
        raise _BrokenError(f"has a value of an unknown type, {int(number)}. {NEW_COPY}")
    return GGUFValueType(int(number))


def _bound(what: str, count: int, most: int) -> None:
    if count > most:
        raise _BrokenError(f"claims {what.format(count)}; no model has more than {most:,}. {NEW_COPY}")
