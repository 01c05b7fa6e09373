"""The table of models: made of the facts, true to the sizes of the files, and right where it was looked up by hand."""

from itertools import groupby
from pathlib import Path

import pytest

from catalogue.facts import Tag, registry, shapes, sources, tags
from catalogue.table import names, table
from catalogue.tensors import text_bytes, vision_bytes
from sharing import tables
from sharing.models import Model, models

DATA = Path(__file__).resolve().parents[2] / "sharing" / "data"
MB = 10**6
TEXT_ONLY = [
    tag
    for tag in tags().values()
    if tag.known == "exact"
    and not vision_bytes(tag.shape)
    and text_bytes(tag.shape, tag.quantisation, tag.exceptions) is not None
]
TOKENIZERS = {
    "llama": ("Llama-3", "Llama-3.1", "Llama-3.2", "Llama-3.3"),
    "qwen": ("Qwen2.5", "Qwen3", "QwQ"),
    "gemma": ("gemma-2", "gemma-7b", "codegemma"),
    "tekken": ("Mistral-Nemo", "Mistral-Small-24B", "Magistral", "Devstral-Small"),
    "gpt-oss": ("gpt-oss",),
}


def left_over(tag: Tag) -> int:
    """Bytes of the file besides its tensors."""
    tensors = text_bytes(tag.shape, tag.quantisation, tag.exceptions)
    assert tag.model_bytes is not None
    assert tensors is not None
    return tag.model_bytes - tensors


def test_the_committed_tables_are_those_of_the_facts() -> None:
    assert (DATA / "models.csv").read_text(encoding="utf-8") == table(), "run `python -m catalogue`"
    assert (DATA / "model_names.csv").read_text(encoding="utf-8") == names(), "run `python -m catalogue`"


def test_every_fact_names_its_source_and_every_source_its_date() -> None:
    assert all(source["what"] and source["date"] for source in sources().values())
    for shape in shapes().values():
        kind, colon, _ = shape.source.partition(":")
        assert (colon and kind in sources()) or "index" in shape.source or "liquid.ai" in shape.source, shape.name
    assert {tag.shape.name for tag in tags().values()} == set(shapes())


@pytest.mark.parametrize("name", tags())
def test_a_size_is_what_the_library_shows(name: str) -> None:
    tag, row = tags()[name], models()[name]
    size = row.weights_bytes + row.projector_bytes if tag.model_bytes is None else tag.model_bytes + tag.projector_bytes
    assert abs(size - tag.listed_bytes) <= tag.listed_spread + row.weights_spread + 16 * MB


@pytest.mark.parametrize("tag", TEXT_ONLY, ids=lambda tag: tag.name)
def test_the_tensors_of_a_shape_leave_of_its_file_a_header_only(tag: Tag) -> None:
    assert 0.6 * MB < left_over(tag) < 27 * MB


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_files_with_the_same_tokenizer_have_headers_of_the_same_length(tokenizer: str) -> None:
    """A fact that is wrong by one layer or one head shows here: the smallest such tensor has more bytes."""
    same = [tag for tag in TEXT_ONLY if tag.shape.name.startswith(TOKENIZERS[tokenizer])]
    found = sorted(map(left_over, same))
    assert len(found) >= 2
    assert found[-1] - found[0] < 0.1 * MB, [(tag.name, left_over(tag)) for tag in same]


def test_a_digest_is_one_file_in_the_table() -> None:
    digests = sorted(tag.digest for tag in tags().values())
    assert [digest for digest, same in groupby(digests) if len(list(same)) > 1] == []
    assert set(registry().values()) == set(digests)


BY_HAND: list[tuple[str, str, dict[str, int | bool]]] = [
    ("llama3.2:3b", "Hugging Face meta-llama/Llama-3.2-3B-Instruct config.json",
     {"layers": 28, "kv_heads": 8, "head_dim": 128, "vocabulary": 128_256, "width": 3072}),
    ("llama3.1:8b", "Hugging Face meta-llama/Llama-3.1-8B-Instruct config.json",
     {"layers": 32, "kv_heads": 8, "head_dim": 128, "max_context": 131_072}),
    ("llama3.3:70b", "Hugging Face meta-llama/Llama-3.3-70B-Instruct config.json",
     {"layers": 80, "kv_heads": 8, "width": 8192, "feed_forward": 28_672}),
    ("mixtral:8x7b", "Hugging Face mistralai/Mixtral-8x7B-v0.1 config.json: two of eight experts of 14336",
     {"layers": 32, "experts": 8, "experts_used": 2, "feed_forward": 28_672}),
    ("qwen2.5:7b", "Hugging Face Qwen/Qwen2.5-7B-Instruct config.json",
     {"layers": 28, "kv_heads": 4, "vocabulary": 152_064, "width": 3584}),
    ("qwen3:4b", "`ollama show qwen3:4b` of 2026-08: context length 262144, embedding length 2560",
     {"max_context": 262_144, "width": 2560, "layers": 36}),
    ("qwen3-coder:30b", "/api/tags of 2026-07: context 262144, embedding 2048; config.json of Qwen3-30B-A3B",
     {"max_context": 262_144, "width": 2048, "layers": 48, "kv_heads": 4, "experts_used": 8}),
    ("qwen3-vl:8b", "Hugging Face Qwen/Qwen3-VL-8B-Instruct config.json",
     {"layers": 36, "kv_heads": 8, "width": 4096, "max_context": 262_144}),
    ("qwen3.5:9b", "Hugging Face Qwen/Qwen3.5-9B config.json: 24 linear layers, 32 value heads and 16 key heads of 128",
     {"layers": 32, "recurrent_layers": 24, "kv_heads": 4, "head_dim": 256,
      "recurrent_state_bytes": 4 * 24 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096)}),
    ("gemma3:12b", "Hugging Face google/gemma-3-12b-it config.json: every sixth layer is full",
     {"layers": 48, "swa_layers": 40, "swa_window": 1024, "kv_heads": 8, "head_dim": 256}),
    ("gemma4:e4b", "ollama.com/library/gemma4:e4b/blobs/4c27e0f5b5ad: every sixth layer is full, the last 18 share",
     {"layers": 42, "shared_kv_layers": 18, "swa_layers": 20, "head_dim": 512, "swa_head_dim": 256, "kv_heads": 2}),
    ("gemma4:12b", "manifest of registry.ollama.ai for 4eb23ef187e2: model 7 381 382 048 B, projector 175 115 584 B",
     {"weights_bytes": 7_381_382_048, "projector_bytes": 175_115_584}),
    ("gemma4:26b", "ollama.com/library/gemma4:26b-a4b-it-q4_K_M/blobs/7121486771cb",
     {"layers": 30, "kv_heads": 2, "swa_kv_heads": 8, "swa_window": 1024, "experts": 128, "max_context": 262_144}),
    ("gemma4:31b", "Hugging Face google/gemma-4-31B-it config.json: 50 sliding layers, 4 global KV heads",
     {"layers": 60, "swa_layers": 50, "kv_heads": 4, "swa_kv_heads": 16, "width": 5376}),
    ("magistral:24b", "`ollama show` of 27bcbbf6d324: context length 40,000; its page says 39K, of qwen3:8b 40K",
     {"max_context": 40_000}),
    ("granite4:latest", "ollama.com/library/granite4 of 2026-08-21: 2.1GB, 128K; `/api/show`: 3.4B, Q4_K_M",
     {"layers": 40, "kv_heads": 8, "width": 2560, "max_context": 131_072, "encoder": False}),
    ("phi4:14b", "Hugging Face microsoft/phi-4 config.json",
     {"layers": 40, "kv_heads": 10, "width": 5120, "feed_forward": 17_920, "max_context": 16_384}),
    ("gpt-oss:120b", "Hugging Face openai/gpt-oss-120b config.json; the embedding is BF16, 201088 × 2880",
     {"layers": 36, "swa_layers": 18, "swa_window": 128, "experts": 128, "embedding_bytes": 1_158_266_880}),
    ("deepseek-r1:671b", "ollama.com/library/deepseek-r1:671b/blobs/439dd1a5e052, without key_length_mla",
     {"layers": 61, "kv_heads": 128, "head_dim": 192, "value_dim": 128, "mla_rank": 0}),
    ("glm-4.7-flash:latest", "transformers 5.23 Glm4MoeLiteConfig: kv_lora_rank 512, qk_rope_head_dim 64",
     {"layers": 47, "mla_rank": 576, "experts": 64, "experts_used": 4}),
    ("nemotron-3-nano:30b", "Hugging Face nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16: 6 `*` in the pattern of 52",
     {"layers": 52, "recurrent_layers": 46, "kv_heads": 2, "width": 2688}),
    ("granite4:tiny-h", "ollama.com/library/granite4:tiny-h/blobs/9811e90b0eec",
     {"layers": 40, "recurrent_layers": 36, "kv_heads": 4, "width": 1536, "experts": 64}),
    ("lfm2:24b", "lmstudio.ai/models/lfm2-24b-a2b: 40 layers (30 conv + 10 attn), 32,768 tokens, vocabulary 65,536",
     {"layers": 40, "recurrent_layers": 30, "max_context": 32_768, "vocabulary": 65_536}),
    ("embeddinggemma:300m", "ollama.com/library/embeddinggemma:300m-qat-q4_0/blobs/98e0321ff447",
     {"layers": 24, "width": 768, "max_context": 2048, "encoder": True, "kv_heads": 1}),
    ("qwen3-embedding:8b", "Hugging Face Qwen/Qwen3-Embedding-8B config.json",
     {"layers": 36, "vocabulary": 151_665, "max_context": 40_960, "encoder": True}),
]  # fmt: skip
"""Tag, where it was looked up, and what stands there, typed by hand."""


@pytest.mark.parametrize(("tag", "source", "expected"), BY_HAND, ids=[tag for tag, _, _ in BY_HAND])
def test_a_row_says_what_its_source_says(tag: str, source: str, expected: dict[str, int | bool]) -> None:
    assert {key: getattr(models()[tag], key) for key in expected} == expected, source


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


def test_a_size_is_exact_or_says_by_how_much_it_may_be_wrong() -> None:
    for row in tables.read("models").rows:
        assert (row["weights_spread"] == "0") == (row["weights_known"] == "exact"), row["model"]
        assert row["weights_known"] in ("exact", "derived", "rounded")
