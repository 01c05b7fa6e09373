"""The table of models: made of the facts, true to the sizes of the files, and right where it was looked up by hand."""

from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from catalogue import quantized, speed_errors
from catalogue.facts import registry, shapes, sources, tags
from catalogue.table import names, table
from catalogue.tensors import text_bytes, vision_bytes
from sharing.models.catalogue import Model, models
from tests.rows import read_rows

DATA = Path(__file__).resolve().parents[2] / "sharing" / "data"
MB = 10**6
TOKENIZERS = {
    "llama": ("Llama-3", "Llama-3.1", "Llama-3.2", "Llama-3.3"),
    "qwen": ("Qwen2.5", "Qwen3", "QwQ"),
    "gemma": ("gemma-2", "gemma-7b", "codegemma"),
    "tekken": ("Mistral-Nemo", "Mistral-Small-24B", "Magistral", "Devstral-Small"),
    "gpt-oss": ("gpt-oss",),
}


@cache
def left_over() -> dict[str, int]:
    """Bytes of each file of text alone besides its tensors, by its tag."""
    exact = [tag for tag in tags().values() if tag.known == "exact" and not vision_bytes(tag.shape)]
    tensors = [(tag, text_bytes(tag.shape, tag.quantization, tag.exceptions)) for tag in exact]
    return {tag.name: tag.model_bytes - size for tag, size in tensors if tag.model_bytes and size}


def test_the_committed_tables_are_those_of_the_facts() -> None:
    assert (DATA / "models.csv").read_text(encoding="utf-8") == table(), "run `python -m catalogue`"
    assert (DATA / "model_names.csv").read_text(encoding="utf-8") == names(), "run `python -m catalogue`"
    assert (DATA / "gpu_speed.csv").read_text(encoding="utf-8") == speed_errors.table(), "run `python -m catalogue`"


@pytest.mark.slow
def test_the_committed_quantizations_are_those_of_the_facts() -> None:
    assert (DATA / "quantizations.csv").read_text(encoding="utf-8") == quantized.table(), "run `python -m catalogue`"


def test_every_fact_names_its_source_and_every_source_its_date() -> None:
    assert all(source["what"] and source["date"] for source in sources().values())
    for shape in shapes().values():
        kind, colon, _ = shape.source.partition(":")
        assert (colon and kind in sources()) or "index" in shape.source or "liquid.ai" in shape.source, shape.name
    assert {tag.shape.name for tag in tags().values()} == set(shapes())


def test_a_size_is_what_the_library_shows() -> None:
    wrong = []
    for name, tag in tags().items():
        row, size = models()[name], (tag.model_bytes or 0) + tag.projector_bytes
        if tag.model_bytes is None:
            size = row.weights_bytes + row.projector_bytes
        if abs(size - tag.listed_bytes) > tag.listed_spread + row.weights_spread + 16 * MB:
            wrong.append((name, size, tag.listed_size))
    assert wrong == []


def test_the_tensors_of_a_shape_leave_of_its_file_a_header_only() -> None:
    assert [(name, left) for name, left in left_over().items() if not 0.6 * MB < left < 27 * MB] == []
    assert len(left_over()) > 80


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_files_with_the_same_tokenizer_have_headers_of_the_same_length(tokenizer: str) -> None:
    """A fact that is wrong by one layer or one head shows here: the smallest such tensor has more bytes."""
    same = {
        name: left for name, left in left_over().items() if tags()[name].shape.name.startswith(TOKENIZERS[tokenizer])
    }
    assert len(same) >= 2
    assert max(same.values()) - min(same.values()) < 0.1 * MB, same


def test_a_digest_is_one_file_in_the_table() -> None:
    digests = sorted(tag.digest for tag in tags().values())
    assert [digest for digest, same in groupby(digests) if len(list(same)) > 1] == []
    assert set(registry().values()) == set(digests)


BY_HAND = read_rows(Path(__file__).with_name("by_hand.csv"))
"""Tag, where it was looked up, and what stands there, typed by hand."""


def test_a_row_says_what_its_source_says() -> None:
    for row in BY_HAND:
        expected = {key: int(value) for key, value in (fact.split("=") for fact in row["facts"].split())}
        assert {key: getattr(models()[row["tag"]], key) for key in expected} == expected, row


@pytest.mark.parametrize(
    ("tag", "total"),
    [
        # Typed by hand from the `/api/tags` answers that catalogue/facts/tags.csv names, and from ollama's docs/api.md.
        ("llama3.2:3b", 2_019_393_189),
        ("mistral:7b", 4_372_824_384),
        ("qwen3.6:35b", 23_938_333_577),
        ("gpt-oss:20b", 13_793_441_244),
        ("gemma3:4b", 3_338_801_804),
        ("gemma4:12b", 7_556_508_396),
        ("lfm2:24b", 14_415_742_358),
        ("smollm2:360m", 725_566_512),
    ],
)
def test_weights_and_projector_are_the_file_without_its_header(tag: str, total: int) -> None:
    row: Model = models()[tag]
    assert 0 <= total - row.weights_bytes - row.projector_bytes < 16 * MB
    assert row.weights_spread == 0
