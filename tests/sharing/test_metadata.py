"""Models from GGUF metadata.

Engines printed the expected values, or the models' makers published them; each case names its source.
"""

from typing import Any

import gguf
import pytest

from sharing.models.catalogue import Model
from sharing.models.file_types import FILE_TYPES
from sharing.models.metadata import Tensor, UnclearModelError, derive_model
from tests.sharing.builders import read_cases

WIDTH, VOCABULARY = 64, 1000
LLAMA: dict[str, object] = {
    "general.architecture": "llama",
    "llama.block_count": 32,
    "llama.context_length": 8192,
    "llama.embedding_length": 4096,
    "llama.feed_forward_length": 14336,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
}


def keys(architecture: str, values: dict[str, object]) -> dict[str, object]:
    """Metadata of an architecture; a value of None is left out."""
    named = {"context_length": 4096, "embedding_length": WIDTH, **values}
    return {
        "general.architecture": architecture,
        **{f"{architecture}.{key}": value for key, value in named.items() if value is not None},
    }


def tensors(layers: int, *more: Tensor, dense: bool = True) -> list[Tensor]:
    """One tensor per layer, the embedding, and `more`."""
    kind = "ffn_up" if dense else "ffn_up_exps"
    blocks = [Tensor(f"blk.{layer}.{kind}.weight", (WIDTH, 4), 100) for layer in range(layers)]
    return [Tensor("token_embd.weight", (WIDTH, VOCABULARY), 5000), *blocks, *more]


def described(metadata: dict[str, object], *more: Tensor, dense: bool = True, **settings: Any) -> Model:
    layers = next(value for key, value in metadata.items() if key.endswith(".block_count"))
    assert isinstance(layers, int)
    return derive_model(metadata, tensors(layers, *more, dense=dense), source="a test", **settings)


def test_the_quantization_is_that_of_the_file_type() -> None:
    theirs = {each.value: each.name.partition("_")[2].removesuffix("_MOE") for each in gguf.LlamaFileType}
    # 4 is MXFP4 in files of Ollama's converter (ollama fs/ggml/type.go); 1024 is no type.
    assert {**theirs, 4: "MXFP4", 41: "Q2_0"} == {**FILE_TYPES, 1024: ""}
    assert described({**LLAMA, "general.file_type": 7}).quant == "Q8_0"
    assert described(LLAMA).quant == described({**LLAMA, "general.file_type": "7"}).quant == ""


def test_a_plain_model_keeps_keys_and_values_of_all_layers() -> None:
    """Meta-Llama-3-8B: config.json of its repository."""
    model = derive_model(LLAMA, tensors(32, Tensor("output.weight", (4096, 10), 70)), source="here")
    assert model == Model(
        name="",
        architecture="llama",
        weights_bytes=5000 + 32 * 100 + 70,
        embedding_bytes=5000,
        layers=32,
        heads=32,
        kv_heads=8,
        head_dim=128,
        max_context=8192,
        width=4096,
        feed_forward=14336,
        vocabulary=VOCABULARY,
        source="here",
    )


def test_a_tied_embedding_is_on_the_gpu_but_the_position_table_is_not() -> None:
    assert described(LLAMA).embedding_bytes == 0
    per_layer, types, places = (
        Tensor("per_layer_token_embd.weight", (256, 900), 40),
        Tensor("token_types.weight", (2,), 2),
        Tensor("position_embd.weight", (4,), 3),
    )
    model = described(LLAMA, per_layer, types, places)
    assert (model.embedding_bytes, model.vocabulary) == (45, 900)
    untied = described(LLAMA, per_layer, types, places, Tensor("output.weight", (4096, 10), 70))
    assert untied.embedding_bytes == 45 + 5000


def more_of(case: dict[str, Any]) -> list[Tensor]:
    return [Tensor(tensor, tuple(shape), size) for tensor, shape, size in case.get("more", ())]


CASES = read_cases("metadata")


@pytest.mark.parametrize("name", CASES)
def test_metadata_describe_a_model_as_engines_and_makers_do(name: str) -> None:
    case = CASES[name]
    model = described(keys(case["architecture"], case["keys"]), *more_of(case), dense=case.get("dense", True))
    assert {field: getattr(model, field) for field in case["model"]} == case["model"]


def test_a_projector_in_its_own_file_counts_separately() -> None:
    assert described(LLAMA, projector_bytes=11).projector_bytes == 11


def test_an_embedding_model_keeps_a_cache_and_ollama_embeds_with_it() -> None:
    embedder = described({**LLAMA, "llama.pooling_type": 3})
    assert (embedder.encoder, embedder.architecture) == (True, "llama")


@pytest.mark.parametrize(
    ("architecture", "layers", "windowed", "is_optional"),
    [
        ("afmoe", 7, 6, True),
        ("cohere2", 7, 6, False),
        ("cohere2moe", 7, 5, False),
        ("exaone-moe", 7, 6, False),
        ("gemma-embedding", 11, 10, False),
        ("laguna", 7, 5, True),
        ("mellum", 7, 6, True),
        ("modern-bert", 5, 3, True),
        ("olmo2", 7, 6, True),
        ("plamo3", 15, 14, True),
    ],
)
def test_windows_follow_the_pattern_of_the_engine(
    architecture: str, layers: int, windowed: int, is_optional: bool
) -> None:
    """`swa_period` and `dense_first` in llama.cpp's src/models. Two periods without their last layer
    have one full layer if that is the last of a period, and two if it is the first.
    """
    known: dict[str, object] = {"block_count": layers, "attention.head_count": 4}
    model = described(keys(architecture, {**known, "attention.sliding_window": 512}))
    assert (model.swa_layers, model.swa_window) == (windowed, 512)
    if is_optional:
        assert described(keys(architecture, known)).swa_layers == 0
    else:
        with pytest.raises(UnclearModelError, match="sliding_window"):
            described(keys(architecture, known))


@pytest.mark.parametrize(("layers", "weights"), [(1, 2), (512, 2**42)])
def test_the_smallest_and_the_largest_model_are_described(layers: int, weights: int) -> None:
    """LLAMA_MAX_LAYERS of llama.cpp; and 4 TiB, more than any model has."""
    found = [Tensor("token_embd.weight", (WIDTH, VOCABULARY), weights - layers)]
    found += [Tensor(f"blk.{layer}.ffn_up.weight", (WIDTH, 4), 1) for layer in range(layers)]
    model = derive_model({**LLAMA, "llama.block_count": layers}, found, source="a test")
    assert (model.layers, model.weights_bytes, model.weights_spread) == (layers, weights, 0)


UNCLEAR = read_cases("unclear")


@pytest.mark.parametrize("name", UNCLEAR)
def test_an_unclear_description_is_refused_and_never_guessed(name: str) -> None:
    case = UNCLEAR[name]
    named = keys(case["architecture"], case["keys"]) if "keys" in case else {**LLAMA, **case.get("llama", {})}
    found = tensors(case["tensors"], *more_of(case)) if "tensors" in case else []
    with pytest.raises(UnclearModelError) as refusal:
        derive_model(case.get("metadata", named), found if case.get("embedding", True) else found[1:], source="a test")
    assert case["expected"] in str(refusal.value)
    assert str(refusal.value).endswith(".")
