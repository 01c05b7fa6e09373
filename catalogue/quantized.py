"""Models of the catalogue in other quantizations: every such tag of Ollama's library, with its derived size.

A tag counts as the same model if the library has its name with the catalogue's quantization for the catalogue's file
(`llama3.1:8b-instruct-q4_K_M` is `llama3.1:8b`, so `llama3.1:8b-instruct-q8_0` is the same model). Beside those are
variants of the same size and context, as `llama3.1:8b-text`, whose listed sizes are those that the shape gives.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from catalogue.facts import Tag, rows, tags
from catalogue.table import DERIVED_PERCENT, about, as_csv, sizes
from catalogue.tensors import embedding_bytes, expert_bytes, text_bytes

FULL_SIZE = {"FP16": "F16"}
"""What tags call a type that files call otherwise."""
LONGEST_HEADER = 16 * 10**6
"""Bytes by which a file is larger than its tensors, if the header of the model's own file is not known."""
COLUMNS = [
    *("model", "quant", "weights_bytes", "weights_known", "weights_spread", "embedding_bytes", "expert_bytes", "names"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """One tag of the library."""

    name: str
    model: str
    """The tag of the same model in the catalogue."""
    tag: Tag
    """Shape, quantization and listed size."""
    weights: int
    spread: int
    known: str
    """`derived` from the shape; `rounded`, as the library lists it, where the two differ or the tensors are unknown."""


@cache
def quantized() -> list[Quantized]:
    """Every tag in another quantization whose model the catalogue has."""
    return [
        _judge(name, row["model"], ending, size) for row in rows("quantized.csv") for name, ending, size in _names(row)
    ]


def derived_bytes(model: Tag, quantization: str) -> int | None:
    """Bytes of the file of `model` in another quantization, with its header and projector; None if unknown."""
    text = text_bytes(model.shape, quantization, model.exceptions)
    weights, projector, *_ = sizes(model)
    if text is None:
        return None
    inline = projector - model.projector_bytes
    return text + projector + (max(0, model.model_bytes - weights - inline) if model.model_bytes else 0)


def table() -> str:
    """`sharing/data/quantizations.csv`: a row for all tags of a model with the same file size."""
    names: dict[tuple[str | int, ...], list[str]] = {}
    for each in quantized():
        shape, quantization = each.tag.shape, each.tag.quantization
        embedding = embedding_bytes(shape, quantization, each.tag.exceptions)
        sized = (each.weights, each.known, each.spread, embedding, expert_bytes(shape, quantization))
        row = (each.model, quantization, *sized)
        names.setdefault(row, []).append(each.name)
    return as_csv(about("quantized"), COLUMNS, ([*row, " ".join(same)] for row, same in names.items()))


def _names(row: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name, quantization and listed size of each tag, and the same of tags whose name lacks the quantization."""
    listed = dict(pair.split("=") for pair in row["listed"].split())
    for ending, size in listed.items():
        yield f"{row['stem']}{ending}", ending, size
    for name, ending in (pair.split("=") for pair in row["also"].split()):
        yield name, ending, listed[ending]


def _judge(name: str, model: str, ending: str, size: str) -> Quantized:
    own = tags()[model]
    quantization = FULL_SIZE.get(ending.upper(), ending.upper())
    tag = Tag(
        name=name,
        shape=own.shape,
        quantization=quantization,
        exceptions=own.exceptions,
        digest="",
        listed_size=size,
        model_bytes=None,
        projector_bytes=own.projector_bytes,
        known="",
        source="registry",
    )
    text, file = text_bytes(tag.shape, quantization, tag.exceptions), derived_bytes(own, quantization)
    header = 0 if own.model_bytes else LONGEST_HEADER
    if text and file and -tag.listed_spread <= tag.listed_bytes - file <= tag.listed_spread + header:
        weights, spread, known = text, text * DERIVED_PERCENT // 100, "derived"
    else:
        weights, spread, known = tag.listed_bytes - sizes(own)[1], tag.listed_spread, "rounded"
    return Quantized(name=name, model=model, tag=tag, weights=weights, spread=spread, known=known)
