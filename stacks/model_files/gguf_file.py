"""Reads the metadata and the tensor table of a GGUF file, without trusting any count or length in it.

The format is docs/gguf.md of ggml. Decision 0171 says why this is not the package gguf.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from sharing.models.metadata import MOST_BYTES, Tensor
from sharing.models.tensor_types import TYPES, TensorType
from sharing.printable import address, quoted
from stacks.model_files.errors import ContentError, MissingFileError

MOST_HEADER = 256 * 2**20
"""Bytes before the tensors. The largest header that we met, of gemma 4, has 15.8 MB."""
MOST_FIELDS = 4096
MOST_TENSORS = 65_536
MOST_DIMENSIONS = 4
"""GGML_MAX_DIMS of ggml.h."""
MOST_KEPT = 1024
"""Items of a list of numbers, and bytes of a text, that are kept: a list for each layer is the longest one needed."""
MAGIC = b"GGUF"
VERSIONS = (2, 3)
OF_OTHER_ORDER = tuple(int.from_bytes(version.to_bytes(4, "little")) for version in VERSIONS)
"""The same in a file of the other byte order, as they are read."""
ALIGNMENT = 32
"""Bytes to a multiple of which the tensors begin, without `general.alignment`."""
TEXT, LIST = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of values, and how `struct` names them."""
PREFIXES = (
    (b"version https://git-lfs", "It is a pointer of Git LFS. Run `git lfs pull` first."),
    (b"<", "It is a web page. For a file on Hugging Face, write the URL with `/resolve/` instead of `/blob/`."),
    (b"PK", "It is an archive. Unpack it, and choose the GGUF file."),
)
"""First bytes of files that users confuse with GGUF, and the fix."""
NEW_COPY = "Download it again."


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
    """The content of the GGUF file at `path`; raises `UnreadableModelError`."""
    refuse_special(path, name := label(str(path)))
    try:
        with path.open("rb") as file:
            return read_header(name, file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise MissingFileError(f"{name} cannot be read ({error.strerror})", "Choose a GGUF file.") from None


def label(place: str) -> str:
    """A path in a message. It may be a misspelled address with a password."""
    return address(place) if ":" in place else place


def refuse_special(path: Path, name: str) -> None:
    """Raises `MissingFileError` for a folder, and for a pipe, whose reader may wait for ever."""
    if os.path.isdir(path):  # unlike `Path.is_dir`, it takes a name that is too long
        raise MissingFileError(f"{name} is a folder", "Choose a file in it.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise MissingFileError(f"{name} is a device or a pipe", "Choose a file.")


def read_header(name: str, file: BinaryIO, size: int) -> Contents:
    """The content of a file of `size` bytes, read once from its start; `name` is for messages.

    Raises `UnreadableModelError`.
    """
    start = file.read(len(MAGIC))
    if start != MAGIC:
        raise ContentError(f"{name} is not a GGUF file", _other_kind(start + file.read(32)))
    try:
        return _Header(file, size).contents()
    except _BrokenError as error:
        raise ContentError(f"{name} {error}", NEW_COPY) from None
    except ValueError as error:
        raise ContentError(f"{name} cannot be read as GGUF ({quoted(error)})", NEW_COPY) from None


def _other_kind(start: bytes) -> str:
    """What a file that starts so may be, and the fix."""
    for prefix, fix in PREFIXES:
        if start.lstrip().lower().startswith(prefix.lower()):
            return fix
    return "It does not start with `GGUF`. Download it again, or choose another file."


class _BrokenError(Exception):
    """An error in a file, as text to follow its name."""


class _Header:
    """The part of a file before its tensors, after `MAGIC`."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._at, self._order = file, size, len(MAGIC), "<"

    def contents(self) -> Contents:
        self._check_version()
        tensor_count, key_count = self._numbers("QQ")
        _bound("{:,} keys", key_count, MOST_FIELDS)
        _bound("{:,} tensors", tensor_count, MOST_TENSORS)
        metadata = self._metadata(key_count)
        tensors, ends = [], []
        for tensor, offset in self._tensors(tensor_count):
            tensors.append(tensor)
            ends.append(offset + tensor.bytes)
        start = self._start_of_tensors(metadata.get("general.alignment", ALIGNMENT))
        if ends and start + max(ends) > self._size:
            raise _BrokenError(f"has {self._size:,} bytes, but its tensors need {start + max(ends):,}")
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise _BrokenError("has two tensors with the same name")
        kept = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.")}
        return Contents(kept, tuple(tensors))

    def _check_version(self) -> None:
        [version] = self._numbers("I")
        if version in OF_OTHER_ORDER:
            self._order = ">"
        elif version not in VERSIONS:
            raise ValueError(f"version {version}")

    def _metadata(self, count: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(count):
            key = self._text().decode()
            if key in metadata:
                raise ValueError(f"two values of {key}")
            metadata[key] = self._value(*self._numbers("I"))
        return metadata

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()[:MOST_KEPT].decode(errors="replace")
        return self._list() if kind == LIST else self._numbers(_layout(kind))[0]

    def _list(self) -> list[Any]:
        kind, count = self._numbers("IQ")
        if kind == LIST:
            raise _BrokenError("has a list of lists, which no model has")
        if kind == TEXT:
            self._skip_texts(count)
        elif count > MOST_KEPT:
            self._bytes(count * struct.calcsize(f"<{_layout(kind)}"))
        else:
            return list(self._numbers(f"{count}{_layout(kind)}"))
        return []  # of tokens, which tandem does not need

    def _skip_texts(self, count: int) -> None:
        """As `_text` for each, in a sixth of the time: a large vocabulary has a million tokens and merges."""
        read, unpack = self._file.read, struct.Struct(f"{self._order}Q").unpack
        at, most = self._at, min(self._size, MOST_HEADER)
        for _ in range(count):
            at += 8
            if at > most:
                break
            [length] = unpack(read(8))
            at += length
            if at > most:
                break
            read(length)
        self._reach(at)

    def _tensors(self, count: int) -> Iterator[tuple[Tensor, int]]:
        """Each tensor, and the number of bytes between the start of all tensors and its own."""
        for _ in range(count):
            name = self._text().decode()
            [dimensions] = self._numbers("I")
            _bound("a tensor of {:,} dimensions", dimensions, MOST_DIMENSIONS)
            *shape, kind, offset = self._numbers(f"{dimensions}QIQ")
            if kind not in TYPES:
                raise _BrokenError(f"has a tensor of an unknown type, {kind}")
            yield Tensor(name, tuple(shape), tensor_bytes(TYPES[kind], shape)), offset

    def _start_of_tensors(self, alignment: object) -> int:
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"an alignment of {alignment}")
        return -(-self._at // alignment) * alignment

    def _text(self) -> bytes:
        [length] = self._numbers("Q")
        return self._bytes(length)

    def _numbers(self, layout: str) -> tuple[Any, ...]:
        ordered = self._order + layout
        return struct.unpack(ordered, self._bytes(struct.calcsize(ordered)))

    def _bytes(self, count: int) -> bytes:
        self._reach(self._at + count)
        return self._file.read(count)

    def _reach(self, at: int) -> None:
        self._at = at
        if self._at > self._size:
            raise _BrokenError(f"ends at byte {self._size:,}, in the middle of its metadata")
        if self._at > MOST_HEADER:
            raise _BrokenError(f"has more than {MOST_HEADER // 2**20} MiB of metadata, which no model has")


def tensor_bytes(kind: TensorType, shape: Sequence[int]) -> int:
    """Bytes of a tensor; raises `ValueError` for an impossible size."""
    size = prod(shape) // kind.values * kind.bytes
    if not size or size > MOST_BYTES:
        raise ValueError(f"a tensor of {' × '.join(map(str, shape))} values")
    return size


def _layout(kind: int) -> str:
    if kind not in NUMBERS:
        raise _BrokenError(f"has a value of an unknown type, {kind}")
    return NUMBERS[kind]


def _bound(what: str, count: int, most: int) -> None:
    if count > most:
        raise _BrokenError(f"claims {what.format(count)}; no model has more than {most:,}")
