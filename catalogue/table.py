"""The table of models that `sharing` reads, made of the facts."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from catalogue.facts import Shape, Tag, registry, sources, tags
from catalogue.tensors import embedding_bytes, expert_bytes, text_bytes, vision_bytes
from sharing.models.metadata import STATE_BYTES, short_convolution_values, state_values, widest_feed_forward

TOKENIZER_BYTES = {
    "mistral3": 7_882_000,
    "qwen25vl": 5_951_000,
    "qwen3vl": 5_951_000,
    "gemma3": 15_785_000,
}
"""Headers of files that hold a picture encoder too: as in text-only files with the same tokenizer."""
DERIVED_PERCENT = 1
"""Possible error of derived weights. The largest difference of a file with a known size is 0.6 %."""
NO_STATE = "layers_without_state"


def table() -> str:
    """`sharing/data/models.csv`."""
    rows = [_row(tag) for tag in tags().values()]
    return as_csv(about("models"), list(rows[0]), (list(row.values()) for row in rows))


def names() -> str:
    """`sharing/data/model_names.csv`: every other name of the library that stands for a file of the table."""
    tag_of = {tag.digest: tag.name for tag in tags().values()}
    others = [(name, tag_of[digest]) for name, digest in registry().items() if name not in tags()]
    return as_csv(about("registry"), ["name", "model"], others)


def _row(tag: Tag) -> dict[str, Any]:
    shape = tag.shape
    weights, projector, known, spread = sizes(tag)
    return {
        "model": tag.name,
        "quant": tag.quantization,
        "architecture": shape.architecture,
        "weights_bytes": weights,
        "weights_known": known,
        "weights_spread": spread,
        "embedding_bytes": embedding_bytes(shape, tag.quantization, tag.exceptions),
        "expert_bytes": expert_bytes(shape, tag.quantization),
        "layers": shape.number("block_count"),
        "heads": shape.number("head_count"),
        "kv_heads": shape.number("head_count_kv"),
        "head_dim": shape.number("key_length"),
        "value_dim": shape.number("value_length", 0),
        "max_context": shape.number("context_length"),
        "swa_layers": shape.number("sliding_layers", 0),
        "swa_window": shape.number("sliding_window", 0) if shape.number("sliding_layers", 0) else 0,
        "swa_kv_heads": shape.number("sliding_head_count_kv", 0),
        "swa_head_dim": shape.number("sliding_key_length", 0),
        "shared_kv_layers": shape.number("shared_kv_layers", 0),
        "recurrent_layers": shape.number("recurrent_layers", 0) + shape.number(NO_STATE, 0),
        "recurrent_state_bytes": _state_bytes(shape),
        "mla_rank": shape.number("kv_lora_rank") + shape.number("rope_dimension_count") if "mla" in shape.facts else 0,
        "width": shape.number("embedding_length"),
        "feed_forward": _widest_feed_forward(shape),
        "vocabulary": shape.number("vocabulary"),
        "experts": shape.number("expert_count", 0),
        "experts_used": shape.number("expert_used_count", 0),
        "projector_bytes": projector,
        "encoder": "yes" if "encoder" in shape.facts else "no",
        "source": f"size: {tag.source}; shape: {shape.source}",
    }


def sizes(tag: Tag) -> tuple[int, int, str, int]:
    """Weights, projector, their kind of source, and the bytes by which the weights may be larger."""
    text = text_bytes(tag.shape, tag.quantization, tag.exceptions)
    pictures = vision_bytes(tag.shape)
    if tag.model_bytes is None:
        if text is None:
            return tag.listed_bytes - pictures, pictures, "rounded", tag.listed_spread
        return text, pictures, "derived", (text + pictures) * DERIVED_PERCENT // 100
    spread = tag.model_bytes * DERIVED_PERCENT // 100 if tag.known == "derived" else 0
    if text is None:
        return tag.model_bytes - pictures, pictures + tag.projector_bytes, tag.known, spread
    if pictures:
        header = TOKENIZER_BYTES.get(tag.shape.architecture, 0)
        return text, tag.model_bytes - text - header, tag.known, spread
    return text, tag.projector_bytes, tag.known, spread


def _state_bytes(shape: Shape) -> int:
    """State of all recurrent layers for one slot."""
    layers = shape.number("recurrent_layers", 0)
    if "shortconv_l_cache" in shape.facts:
        values = short_convolution_values(shape.number("embedding_length"), shape.number("shortconv_l_cache"))
    else:
        values = state_values(
            kernel=shape.number("ssm_conv_kernel", 1),
            inner=shape.number("ssm_inner_size", 0),
            groups=shape.number("ssm_group_count", 0),
            state=shape.number("ssm_state_size", 0),
        )
    return STATE_BYTES * layers * values


def _widest_feed_forward(shape: Shape) -> int:
    dense = shape.number("feed_forward_length")
    return widest_feed_forward(
        dense=dense,
        expert=shape.number("expert_feed_forward_length", dense),
        used=shape.number("expert_used_count", 0),
        always=shape.number("expert_shared_feed_forward_length", 0),
    )


def about(what: str) -> dict[str, str]:
    """Source and date of a table: `models`, made of all facts, or one that is made of the library's list of tags."""
    newest = max(source["date"] for source in sources().values())
    listed = sources()["registry"]
    if what == "models":
        made = "catalogue/facts, by `python -m catalogue`; what `source` names is in catalogue/facts/sources.json"
        return {"source": made, "date": newest}
    return {"source": f"catalogue/facts/{what}.csv, by `python -m catalogue`: {listed['what']}", "date": listed["date"]}


def as_csv(about: dict[str, str], columns: list[str], rows: Iterable[Iterable[object]]) -> str:
    """The text of a table of `sharing/data`."""
    text = io.StringIO()
    for key, value in about.items():
        text.write(f"# {key}: {value}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
