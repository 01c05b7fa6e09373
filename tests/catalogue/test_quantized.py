"""Models in other quantizations: the bytes that llama.cpp gives them, and their tags in Ollama's library."""

from collections import Counter
from pathlib import Path

import pytest

from catalogue.facts import UNITS, Tag, tags
from catalogue.quantized import quantized
from catalogue.tensors import text_bytes
from sharing.models.catalogue import find, models, nearest_names, quantized_stems
from sharing.models.catalogue import quantized as known
from sharing.speed.forecast import weights_per_token
from tests.rows import read_rows

MB = 10**6
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENGINE = read_rows(HERE / "llama_quantize.csv")
FILES = read_rows(HERE / "real_files.csv")
WITH_IMPORTANCES = {("llama3.2:3b", "Q4_0"), ("qwen3-coder:30b", "Q4_0")}
"""Files made with an importance matrix: for Q4_0, llama.cpp then gives `ffn_down` of the first layers Q4_1."""


def tensor_bytes(tag: Tag, quantization: str) -> int:
    """Bytes in a file of llama.cpp, which lacks the exceptions of Ollama's own quantizer."""
    exceptions = {key: value for key, value in tag.exceptions.items() if key == "tied"}
    found = text_bytes(tag.shape, quantization, exceptions)
    assert found
    return found


@pytest.mark.parametrize("row", ENGINE, ids=[row["model"] for row in ENGINE])
def test_tensors_take_the_bytes_that_llama_quantize_gives_them(row: dict[str, str]) -> None:
    expected = {key: float(mib) for key, mib in row.items() if key != "model"}
    found = {key: tensor_bytes(tags()[row["model"]], key) / 2**20 for key in expected}
    assert len(expected) == 16
    assert found == pytest.approx(expected, abs=0.0051), "MiB, which the program rounds to two decimals"


@pytest.mark.parametrize("row", FILES, ids=[row["model"] for row in FILES])
def test_files_on_hugging_face_have_these_tensors_and_the_same_header(row: dict[str, str]) -> None:
    sizes = {key: int(size) for key, size in (pair.split("=") for pair in row["sizes"].split())}
    left_over = {key: size - tensor_bytes(tags()[row["model"]], key) for key, size in sizes.items()}
    alike = [left for key, left in left_over.items() if (row["model"], key) not in WITH_IMPORTANCES]
    assert max(alike) - min(alike) < 0.01 * MB
    # Mixtral's older files have routers of 2 bytes per value instead of 4.
    assert (-1.4 if row["model"] == "mixtral:8x7b" else 0.6) * MB < min(alike) < 8 * MB
    assert all(left_over[key] - min(alike) < 0.005 * size for key, size in sizes.items())


@pytest.mark.slow
def test_a_tag_has_the_size_that_the_library_lists() -> None:
    wrong = []
    for each in quantized():
        model, own = find(each.name), tags()[each.model]
        assert model
        listed = float(each.tag.listed_size[:-2]) * UNITS[each.tag.listed_size[-2:]]
        half_a_digit = UNITS[each.tag.listed_size[-2:]] * (0.05 if "." in each.tag.listed_size else 0.5)
        header = 0 if each.known == "rounded" else 16 * MB
        if not -half_a_digit - header <= model.file_bytes - listed <= half_a_digit or own.shape != each.tag.shape:
            wrong.append((each.name, model.file_bytes, listed))
    assert wrong == []


@pytest.mark.slow
def test_the_documents_have_these_figures() -> None:
    page = " ".join((ROOT / "docs" / "explanation" / "gpu-memory.md").read_text(encoding="utf-8").split())
    tags_of = Counter(each.known for each in quantized())
    sizes = [pair for row in FILES for pair in row["sizes"].split()]
    assert f"| {len(ENGINE)} models × {len(ENGINE[0]) - 1} quantizations | none |" in page
    assert f"| {len(sizes)} files of {len(FILES)} models |" in page
    assert f"| {tags_of.total():,} tags | none beyond their rounding for {tags_of['derived']:,} tags |" in page
    assert f"The other {tags_of['rounded']} tags get the library's rounded size" in page
    assert f" {tags_of.total():,} more tags " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("\n", " ")


@pytest.mark.slow
def test_nearly_all_tags_follow_the_rules() -> None:
    """The others: architectures whose tensors are not known one by one, and files of an older llama.cpp."""
    rounded = [each for each in quantized() if each.known == "rounded"]
    assert (len(quantized()), len(rounded)) == (1467, 87)
    unknown = [each for each in rounded if text_bytes(each.tag.shape, each.tag.quantization, {}) is None]
    assert len(unknown) == 37
    assert {each.tag.quantization for each in rounded} - {each.tag.quantization for each in unknown} <= {
        *("Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_0", "Q4_1", "Q4_K_S", "Q4_K_M", "Q5_0", "Q5_K_S", "Q5_K_M"),
        "F16",
    }


@pytest.mark.parametrize(
    ("name", "model", "quant", "file_bytes"),
    [
        # Files on Hugging Face, from the repositories that real_files.csv names, and sizes on ollama.com/library.
        ("llama3.1:8b-instruct-q8_0", "llama3.1:8b", "Q8_0", 8_540_775_840),
        ("registry.ollama.ai/library/llama3.1:8b-instruct-q2_K", "llama3.1:8b", "Q2_K", 3_179_136_416),
        ("llama3.2:3b-instruct-fp16", "llama3.2:3b", "F16", 6_433_687_616),
        ("mistral:7b-instruct-q4_K_M", "mistral:7b", "Q4_K_M", 4_372_811_936),
        ("mixtral:8x7b-instruct-v0.1-q6_K", "mixtral:8x7b", "Q6_K", 38_378_760_064),
        ("qwen2.5-coder:7b-instruct-q5_K_M", "qwen2.5-coder:7b", "Q5_K_M", 5_444_831_232),
        # The library has this name for llama2:7b-text-q4_0. The manifest of llama2:7b, also Q4_0, has this size.
        ("llama2:text", "llama2:7b", "Q4_0", 3_826_781_184),
        # Ollama's own files of qwen3 have `attn_v` in F16: 36 layers of 4096 times 1024 values, 15/16 of a byte more.
        ("qwen3:8b-q8_0", "qwen3:8b", "Q8_0", 8_709_518_112 + 36 * 4096 * 1024 * 15 // 16),
    ],
)
def test_a_tag_of_another_quantization_is_the_known_model(name: str, model: str, quant: str, file_bytes: int) -> None:
    found, own = find(name), models()[model]
    assert found
    assert (found.name, found.quant) == (name.removeprefix("registry.ollama.ai/library/"), quant)
    assert file_bytes - 9 * MB < found.file_bytes < file_bytes + 2 * MB
    assert found.weights_spread == found.weights_bytes // 100
    assert found.source == f"size: derived; shape: that of {model}"
    shape = ("architecture", "layers", "heads", "kv_heads", "head_dim", "max_context", "width", "vocabulary")
    assert [getattr(found, key) for key in shape] == [getattr(own, key) for key in shape]


def test_a_size_that_is_not_derived_is_the_rounded_one() -> None:
    # ollama.com/library/llama2/tags: 2.8GB. llama.cpp of 2023 gave Q2_K more bits than today's 2.53 GB.
    old = find("llama2:7b-chat-q2_K")
    assert old
    assert (old.weights_bytes, old.weights_spread) == (2_800_000_000, 50_000_000)
    assert old.source == "size: rounded, from Ollama's library; shape: that of llama2:7b"


@pytest.mark.parametrize(
    ("name", "embedding", "experts"),
    [
        # 128,256 rows of 4,096 values, 34 bytes for each 32: llama3.1 has an output matrix of its own.
        ("llama3.1:8b-instruct-q8_0", 128_256 * 4096 // 32 * 34, 0),
        # llama3.2 uses the embedding as its output, so it is on the GPU.
        ("llama3.2:3b-instruct-fp16", 0, 0),
        # 48 layers of 128 experts: three matrices of 2,048 times 768 values.
        ("qwen3-coder:30b-a3b-q8_0", 151_936 * 2048 // 32 * 34, 48 * 128 * 3 * 2048 * 768 // 32 * 34),
    ],
)
def test_embedding_and_experts_have_the_quantization_too(name: str, embedding: int, experts: int) -> None:
    found = find(name)
    assert found
    assert (found.embedding_bytes, found.expert_bytes) == (embedding, experts)


@pytest.mark.parametrize(
    "name",
    [
        "llama3.1:8b-instruct-q5_1x",
        "qwen3:8b-q5_1",  # a tag that the library lacks
        "qwen3:4b-q8_0",  # of the first qwen3, which is another model than today's qwen3:4b
        "deepseek-r1:8b-llama-distill-q8_0",
        "gemma3:12b-it-qat",
        "qwen3.5:9b-mlx-bf16",
        "llama3.1:q8_0",
        "me/llama3.1:8b-instruct-q8_0",
        "hf.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q8_0",
    ],
)
def test_a_tag_that_may_be_another_model_is_not_derived(name: str) -> None:
    assert find(name) is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("qwen3:8b-q5_1", "Ollama's library has qwen3:8b in fp16, q4_K_M and q8_0."),
        ("gemma4:12b-it-fp16", "Ollama's library has gemma4:12b-it in bf16, q4_K_M and q8_0."),
        ("qwen3:8b-Q8_0", "Did you mean qwen3:8b-q8_0?"),
        ("qwen2.5-coder:7b-instruct-q8-0", "Did you mean qwen2.5-coder:7b-instruct-q8_0?"),
        (
            "qwen2.5-coder:7b-q8_0",
            "Did you mean qwen2.5-coder:7b-instruct-q8_0 or qwen2.5-coder:7b-base-q8_0?",
        ),
        (
            "qwen3:8b-q8_O",
            "Did you mean qwen3:8b-q8_0, qwen3:8b-q4_K_M or qwen3:8b-fp16?",
        ),
        (
            "llama3.1:q8_0",
            "Did you mean llama3.1:8b-instruct-q8_0, llama3.1:8b-text-q8_0 or llama3.1:70b-instruct-q8_0?",
        ),
        (
            "QWEN2.5-coder:7b-q8_0",
            "Did you mean qwen2.5-coder:7b-instruct-q8_0 or qwen2.5-coder:7b-base-q8_0?",
        ),
        ("glm-4.7-flash:q5_0", "Did you mean glm-4.7-flash:latest?"),
        ("gpt-oss:20b-q8_0", "Did you mean gpt-oss:20b or gpt-oss:120b?"),
        ("qwen3-embeding:8b", "Did you mean qwen3-embedding:8b, qwen3-embedding:4b or qwen3-embedding:0.6b?"),
    ],
)
def test_an_unknown_quantization_gets_those_that_exist(name: str, sentence: str) -> None:
    assert nearest_names(name) == sentence


def test_a_quantization_changes_the_size_of_the_weights_and_not_their_number() -> None:
    found = [model for name, model in known().items() if name.startswith("llama3.1:8b")]
    assert len(found) > 10
    # 8.03 billion parameters (Hugging Face, Meta-Llama-3.1-8B), of which a token passes all but the embedding.
    parameters = pytest.approx(8.03e9 - 128_256 * 4096, rel=0.035)
    assert [model for model in found if weights_per_token(model) != parameters] == []


def test_the_tags_of_a_model_have_that_of_its_own_file_first() -> None:
    """`qwen2.5-coder:7b` is `7b-instruct-q4_K_M` (ollama.com/library/qwen2.5-coder/tags)."""
    assert quantized_stems()["qwen2.5-coder:7b"] == ["qwen2.5-coder:7b-instruct", "qwen2.5-coder:7b-base"]


def test_users_write_no_tag_where_ollama_adds_it() -> None:
    named = find("nomic-embed-text")
    assert named
    assert (named.name, named.short_name) == ("nomic-embed-text:latest", "nomic-embed-text")
