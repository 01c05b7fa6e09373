"""What GGUF metadata say about a model.

Expected values are what engines printed of such models, or what the models' makers published; each case says where.
"""

from typing import Any

import pytest

from sharing import architectures
from sharing.metadata import Tensor, UnclearModelError, describe
from sharing.models import MIB, Model

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


def keys(architecture: str, **values: object) -> dict[str, object]:
    """Metadata of an architecture; `__` in a name stands for the dot in a key."""
    named = {f"{architecture}.{key.replace('__', '.')}": value for key, value in values.items()}
    common = {f"{architecture}.context_length": 4096, f"{architecture}.embedding_length": WIDTH}
    return {"general.architecture": architecture, **common, **named}


def tensors(layers: int, *more: Tensor, dense: bool = True) -> list[Tensor]:
    """A tensor for each layer, the embedding, and `more`."""
    kind = "ffn_up" if dense else "ffn_up_exps"
    blocks = [Tensor(f"blk.{layer}.{kind}.weight", (WIDTH, 4), 100) for layer in range(layers)]
    return [Tensor("token_embd.weight", (WIDTH, VOCABULARY), 5000), *blocks, *more]


def described(metadata: dict[str, object], *more: Tensor, dense: bool = True, **settings: Any) -> Model:
    layers = next(value for key, value in metadata.items() if key.endswith(".block_count"))
    assert isinstance(layers, int)
    return describe("mine", metadata, tensors(layers, *more, dense=dense), source="a test", **settings)


def test_a_plain_model_keeps_keys_and_values_of_all_layers() -> None:
    """Meta-Llama-3-8B: config.json of its repository."""
    model = describe("llama3:8b", LLAMA, tensors(32, Tensor("output.weight", (4096, 10), 70)), source="here")
    assert model == Model(
        name="llama3:8b",
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


def test_a_tied_embedding_is_on_the_gpu_and_the_position_table_is_not() -> None:
    assert described(LLAMA).embedding_bytes == 0
    model = described(
        LLAMA, Tensor("per_layer_token_embd.weight", (256, 900), 40), Tensor("token_types.weight", (2,), 2)
    )
    assert (model.embedding_bytes, model.vocabulary) == (42, 900)


def test_models_without_a_number_of_kv_heads_have_as_many_as_heads() -> None:
    model = described(keys("phi2", block_count=2, attention__head_count=8, feed_forward_length=9))
    assert (model.kv_heads, model.head_dim) == (8, 8)


@pytest.mark.parametrize(
    ("architecture", "layers", "windowed", "window", "more"),
    [
        # KV of gpt-oss:20b at 131072: 3072 + 54 MiB, half of 24 layers each (llama.cpp logs).
        ("gpt-oss", 24, 12, 128, {"attention__sliding_window": 128}),
        ("gptoss", 24, 12, 128, {"attention__sliding_window": 128}),
        # google/gemma-3-12b-it config.json: sliding_window_pattern 6, 48 layers, so 8 full ones.
        ("gemma3", 48, 40, 1024, {"attention__sliding_window": 1024}),
        ("gemma3", 48, 0, 0, {}),
        # google/gemma-2-9b-it: every second layer, 4096 where the file is silent (src/models/gemma2.cpp).
        ("gemma2", 42, 21, 4096, {}),
        # allenai/Olmo-3-7B config.json: three of four layers slide over 4096.
        ("olmo3", 32, 24, 4096, {"attention__sliding_window": 4096}),
        # meta-llama/Llama-4-Scout: chunks of 8192 in three of four layers, whatever the file says; 0 turns them off.
        ("llama4", 48, 36, 8192, {"attention__sliding_window": 4}),
        ("llama4", 48, 0, 0, {"attention__sliding_window": 0}),
        # LGAI-EXAONE/EXAONE-4.0: only the 32B, of 64 layers, is hybrid.
        ("exaone4", 64, 48, 4096, {}),
        ("exaone4", 30, 0, 0, {"attention__sliding_window": 4096}),
        # poolside Laguna XS.2: the first of four layers is full (src/models/laguna.cpp).
        ("laguna", 5, 3, 512, {"attention__sliding_window": 512}),
        # A list in the file, and one number in it, say it themselves (`load_swa_pattern`).
        ("gemma3", 4, 3, 512, {"attention__sliding_window": 512, "attention__sliding_window_pattern": [1, 0, 1, 1]}),
        ("cohere2", 6, 3, 512, {"attention__sliding_window": 512, "attention__sliding_window_pattern": 2}),
    ],
)
def test_windowed_layers_are_counted_as_the_engine_does(
    architecture: str, layers: int, windowed: int, window: int, more: dict[str, object]
) -> None:
    model = described(keys(architecture, block_count=layers, attention__head_count=4, feed_forward_length=9, **more))
    assert (model.layers, model.swa_layers, model.swa_window) == (layers, windowed, window)


def test_gemma4_has_heads_of_their_own_for_windowed_layers() -> None:
    """gemma4:12b: at 65536 × 4, 4096 MiB of 8 full layers and 3840 of 40 windowed ones (public log 67663730134).

    Full: 2 × 1 head × 512 × 2 B × 65536 × 4 slots × 8 layers; windowed: 8 heads × 256.
    """
    pattern = [(layer + 1) % 6 != 0 for layer in range(48)]
    model = described(
        keys(
            "gemma4",
            block_count=48,
            attention__head_count=16,
            attention__head_count_kv=[8 if windowed else 1 for windowed in pattern],
            attention__key_length=512,
            attention__value_length=512,
            attention__key_length_swa=256,
            attention__value_length_swa=256,
            attention__sliding_window=1024,
            attention__sliding_window_pattern=pattern,
            feed_forward_length=15360,
        )
    )
    assert (model.layers - model.swa_layers, model.kv_heads, model.head_dim, model.value_dim) == (8, 1, 512, 0)
    assert (model.swa_layers, model.swa_kv_heads, model.swa_head_dim, model.swa_window) == (40, 8, 256, 1024)


def test_a_model_of_windowed_layers_alone_has_their_heads() -> None:
    windows = {"attention__sliding_window": 512, "attention__sliding_window_pattern": [True, True]}
    model = described(keys("step35", block_count=2, attention__head_count=4, attention__head_count_kv=2, **windows))
    assert (model.kv_heads, model.swa_kv_heads, model.swa_layers) == (2, 0, 2)


def test_gemma3n_has_four_full_layers_sixteen_windowed_and_fifteen_without_a_cache() -> None:
    """gemma3n:e4b, 35 layers: 256 MiB for 32768 cells of 4 layers, layers 20 to 34 reuse (llama.cpp issue 14604)."""
    model = described(
        keys(
            "gemma3n",
            block_count=35,
            attention__head_count=8,
            attention__head_count_kv=2,
            attention__key_length=256,
            attention__value_length=256,
            attention__sliding_window=512,
            feed_forward_length=[16384] * 35,
        )
    )
    full = model.layers - model.swa_layers - model.shared_kv_layers
    assert (full, model.swa_layers, model.shared_kv_layers) == (4, 16, 15)
    assert 2 * model.kv_heads * model.head_dim * 2 * 32768 * full == 256 * MIB


def test_gemma4_says_how_many_layers_share() -> None:
    """gemma4:e2b: 35 layers, `shared_kv_layers` 20."""
    pattern = [(layer + 1) % 5 != 0 for layer in range(35)]
    facts = keys(
        "gemma4",
        block_count=35,
        attention__head_count=8,
        attention__sliding_window=512,
        attention__sliding_window_pattern=pattern,
        attention__shared_kv_layers=20,
    )
    model = described(facts)
    assert (model.swa_layers, model.shared_kv_layers, model.feed_forward) == (12, 20, 0)


SSM = {"ssm__conv_kernel": 4, "ssm__state_size": 128, "attention__head_count": 16, "feed_forward_length": 9}


def test_linear_attention_in_three_of_four_layers() -> None:
    """Qwen3.6-27B: R 5.62 and S 144.00 MiB for one slot of 64 layers (public log 58671331675)."""
    facts = keys("qwen35", block_count=65, nextn_predict_layers=1, ssm__inner_size=6144, ssm__group_count=16, **SSM)
    model = describe("qwen3.6:27b", facts, tensors(65), source="a test")
    assert (model.layers, model.recurrent_layers) == (64, 48)
    assert model.recurrent_state_bytes / MIB == pytest.approx(5.625 + 144)


def test_linear_attention_as_the_file_says() -> None:
    """Qwen3-Next-80B-A3B: 301.50 MiB for four slots (public log 63174159519)."""
    facts = keys("qwen3next", block_count=48, ssm__inner_size=4096, ssm__group_count=16, **SSM)
    assert described(facts).recurrent_state_bytes / MIB == 301.5 / 4
    assert described({**facts, "qwen3next.full_attention_interval": 8}).recurrent_layers == 42
    listed = {**facts, "qwen3next.attention.recurrent_layers": [True] * 10 + [False] * 38}
    assert described(listed).recurrent_layers == 10


def test_layers_without_kv_heads_are_recurrent() -> None:
    """granite4:small-h, 40 layers, attention in four of them (ollama issue 12982); LFM2-1.2B has shortconv layers."""
    heads = [8 if layer in (5, 15, 25, 35) else 0 for layer in range(40)]
    facts = {**SSM, "attention__head_count_kv": heads, "ssm__inner_size": 8192, "ssm__group_count": 1}
    model = described(keys("granitehybrid", block_count=40, **facts))
    assert (model.recurrent_layers, model.kv_heads) == (36, 8)
    lfm = keys(
        "lfm2",
        block_count=16,
        attention__head_count=32,
        attention__head_count_kv=[8 if layer in (2, 5, 8, 10, 12, 14) else 0 for layer in range(16)],
        shortconv__l_cache=3,
        feed_forward_length=12288,
    )
    lfm["lfm2.embedding_length"] = 2048
    # LiquidAI/LFM2-1.2B: 10 layers × 2048 × 2 values; the feed-forward network is 8192 wide, not as its metadata claim.
    model = described(lfm, Tensor("blk.0.ffn_gate.weight", (2048, 8192), 1))
    assert (model.recurrent_layers, model.recurrent_state_bytes, model.feed_forward) == (10, 10 * 2048 * 2 * 4, 8192)


def test_layers_with_a_feed_forward_network_alone_keep_nothing() -> None:
    facts = {**SSM, "ssm__inner_size": 4096, "ssm__group_count": 8, "feed_forward_length": [0, 9, 0, 9]}
    model = described(
        keys("nemotron_h", block_count=4, **facts, **{"attention__head_count_kv": [0, 0, 8, 0]}),
        Tensor("mtp.layers.0.proj.weight", (4,), 9999),
        Tensor("s.patch.weight", (4,), 9999),
    )
    assert (model.layers, model.recurrent_layers, model.shared_kv_layers, model.kv_heads) == (4, 3, 0, 8)
    assert model.recurrent_state_bytes == (3 * (4096 + 2 * 8 * 128) + 128 * 4096) * 4, "of one layer"
    assert model.weights_bytes == 5400


def test_latent_attention_keeps_one_vector() -> None:
    """DeepSeek-V3's config.json: kv_lora_rank 512, 64 dimensions of RoPE, 61 layers: 2 B × 576 × 61 × 4096 cells."""
    facts = keys(
        "deepseek2",
        block_count=61,
        attention__head_count=128,
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__kv_lora_rank=512,
        rope__dimension_count=64,
        feed_forward_length=18432,
        expert_feed_forward_length=2048,
        expert_count=256,
        expert_used_count=8,
    )
    latent = {**facts, "deepseek2.attention.key_length_mla": 192, "deepseek2.attention.value_length_mla": 128}
    model = described(latent)
    assert (model.mla_rank, model.heads, model.kv_heads, model.head_dim, model.value_dim) == (576, 128, 128, 192, 128)
    assert model.mla_rank * 2 * 4096 * model.layers == 274.5 * MIB
    old = described({**facts, "deepseek2.attention.head_count_kv": 128, "deepseek2.attention.key_length": 192})
    assert (old.mla_rank, old.kv_heads, old.head_dim, old.value_dim) == (0, 128, 192, 512)


def test_ollamas_glm_flash_is_latent_without_saying_so() -> None:
    facts = {"attention__kv_lora_rank": 512, "rope__dimension_count": 64, "attention__head_count": 20}
    assert described(keys("glm4moelite", block_count=2, **facts, attention__head_count_kv=20)).mla_rank == 576


def test_linear_attention_of_kimi_has_a_state_for_each_head() -> None:
    """Kimi-Linear-48B: 3 × 3 × 32 × 128 of convolution, 32 × 128 × 128 of state (src/llama-hparams.cpp)."""
    facts = keys(
        "kimi-linear",
        block_count=4,
        attention__head_count=32,
        attention__head_count_kv=[0, 0, 0, 32],
        attention__key_length_mla=192,
        attention__kv_lora_rank=512,
        rope__dimension_count=64,
        kda__head_dim=128,
        ssm__conv_kernel=4,
    )
    model = described(facts)
    assert (model.mla_rank, model.recurrent_layers) == (576, 3)
    assert model.recurrent_state_bytes == 3 * (36864 + 524288) * 4


@pytest.mark.parametrize(
    ("more", "dense", "width"),
    [
        # Mixtral-8x7B: two of eight experts of 14336. Qwen3-30B-A3B: eight of 128 of 768; its dense 6144 is not used.
        ({"feed_forward_length": 14336, "expert_count": 8, "expert_used_count": 2}, False, 28672),
        (
            {
                "feed_forward_length": 6144,
                "expert_feed_forward_length": 768,
                "expert_count": 128,
                "expert_used_count": 8,
            },
            False,
            6144,
        ),
        # Qwen3.5-35B-A3B: eight of 256 of 512, and a shared one of 512. Nemotron-3-Nano: six of 1856, and two shared.
        (
            {
                "expert_feed_forward_length": 512,
                "expert_shared_feed_forward_length": 512,
                "expert_count": 256,
                "expert_used_count": 8,
            },
            False,
            4608,
        ),
        (
            {
                "expert_feed_forward_length": 1856,
                "expert_shared_count": 2,
                "expert_count": 128,
                "expert_used_count": 6,
            },
            False,
            14848,
        ),
        # DeepSeek-V2-Lite: six of 64 of 1408, and a first dense layer of 10944.
        (
            {
                "feed_forward_length": 10944,
                "expert_feed_forward_length": 1408,
                "expert_count": 64,
                "expert_used_count": 6,
            },
            True,
            10944,
        ),
    ],
)
def test_the_feed_forward_width_is_that_of_the_experts_in_use(more: dict[str, Any], dense: bool, width: int) -> None:
    model = described(keys("llama", block_count=2, attention__head_count=4, **more), dense=dense)
    assert (model.feed_forward, model.experts) == (width, more["expert_count"])
    assert model.experts_used == more["expert_used_count"]


def test_a_projector_counts_apart_where_ollama_loads_it() -> None:
    vision = (Tensor("v.blk.0.attn.weight", (4,), 30), Tensor("mm.0.weight", (4,), 7))
    windowed = {"attention__sliding_window": 512, "attention__head_count": 4}
    model = described(keys("gemma3", block_count=6, **windowed), *vision)
    assert (model.projector_bytes, model.weights_bytes) == (37, 5600)
    assert described(keys("gemma3n", block_count=6, **windowed), *vision).projector_bytes == 0
    assert described(LLAMA, projector_bytes=11).projector_bytes == 11


def test_encoders_are_known_by_their_architecture() -> None:
    facts = {"attention__head_count": 12, "feed_forward_length": 3072, "attention__sliding_window": 512}
    assert described(keys("nomic-bert", block_count=12, **facts)).encoder
    model = described(keys("gemma3", block_count=24, **facts), Tensor("dense.0.weight", (768, 3072), 1))
    assert (model.architecture, model.encoder, model.embedding_bytes) == ("gemma-embedding", True, 0)
    assert (model.swa_layers, model.swa_window) == (20, 512), "google/embeddinggemma-300m: 24 layers"
    embedder = described({**LLAMA, "llama.pooling_type": 3})
    assert (embedder.encoder, embedder.architecture) == (True, "llama"), "it keeps a cache, and Ollama embeds with it"
    assert described(keys("bert", block_count=12, **facts)).embedding_bytes == 5000, "an encoder needs no output"


UNCLEAR: dict[str, tuple[dict[str, object], list[Tensor], str]] = {
    "no architecture": ({}, [], "name no architecture"),
    "an architecture of another kind": ({**LLAMA, "general.architecture": 7}, [], "name no architecture"),
    "an unknown architecture": (
        {"general.architecture": "warp\x1b[2J9"},
        [],
        "Its architecture `warp?[2J9` is unknown. Describe the model by the own-model keys of the stack file.",
    ),
    # llama.cpp pull request 25505; not yet in 4df29be4f (b10454), the nearest to the pinned b10488 that was read.
    "an architecture of a newer engine": (
        keys("granite_swa"),
        tensors(32),
        "Its architecture `granite_swa` is unknown.",
    ),
    "a projector": ({"general.architecture": "clip"}, [], "It is a projector, not a language model."),
    "an adapter": ({**LLAMA, "general.type": "adapter"}, [], "It is an adapter"),
    "a number missing": (keys("llama"), [], "no usable number `llama.block_count` (missing; 0 to 2,147,483,647)"),
    "a text for a number": ({**LLAMA, "llama.block_count": "32"}, [], "`llama.block_count` ('32'"),
    "a negative number": ({**LLAMA, "llama.context_length": -1}, tensors(32), "`llama.context_length` ('-1'"),
    "a huge number": ({**LLAMA, "llama.embedding_length": 2**40}, tensors(32), "`llama.embedding_length` ("),
    "no layers": ({**LLAMA, "llama.block_count": 0}, [], "It has 0 layers, and 1 to 512 are possible"),
    "too many layers": ({**LLAMA, "llama.block_count": 2**31 - 1}, [], "It has 2147483647 layers"),
    "a part of a model": (LLAMA, tensors(30), "It lacks the tensors of 2 of its 32 layers"),
    "a short list": (
        {**LLAMA, "llama.attention.head_count_kv": [8] * 4},
        tensors(32),
        "`llama.attention.head_count_kv` for 4 of its 32 layers",
    ),
    "layers of different kinds": (
        {**LLAMA, "llama.attention.head_count_kv": [8, 4] * 16},
        tensors(32),
        "different numbers of KV heads (4, 8), which no rule covers",
    ),
    "no attention at all": (
        keys("lfm2", block_count=1, attention__head_count=4, attention__head_count_kv=0, shortconv__l_cache=3),
        tensors(1),
        "different numbers of KV heads (0)",
    ),
    "no embedding": (LLAMA, tensors(32)[1:], "It has no tensor `token_embd.weight`"),
    "a window missing": (
        keys("gpt-oss", block_count=2, attention__head_count=4),
        tensors(2),
        "`gpt-oss.attention.sliding_window` (missing",
    ),
    "windows not listed": (
        keys("gemma4", block_count=2, attention__head_count=4, attention__sliding_window=512),
        tensors(2),
        "`gemma4.attention.sliding_window_pattern` (missing",
    ),
    "tensors larger than any disk": (
        LLAMA,
        tensors(32, Tensor("rope_freqs.weight", (2,), 2**43)),
        "Its tensors have 8,7",
    ),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_is_no_clear_description_is_refused_and_never_guessed(case: str) -> None:
    metadata, found, told = UNCLEAR[case]
    with pytest.raises(UnclearModelError) as refusal:
        describe("mine", metadata, found, source="a test")
    assert told in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_projectors_in_the_model_s_file_are_those_that_ollama_loads() -> None:
    """`compatClipArches` in llm/llama_server.go of Ollama 0.32.15, typed by hand."""
    assert {
        *("gemma3", "gemma4", "qwen35", "qwen35moe", "qwen25vl", "qwen3vl", "qwen3vlmoe", "mistral3"),
        *("deepseekocr", "glmocr", "llama4", "nemotron_h_omni"),
    } == architectures.INLINE_PROJECTOR


def test_every_architecture_is_in_one_group_unless_it_is_a_hybrid_of_two() -> None:
    windowed = {*architectures.WINDOWS} - architectures.ENCODERS
    groups = [architectures.PLAIN, architectures.ENCODERS, architectures.HYBRIDS, windowed]
    listed = sorted(name for group in groups for name in group)
    assert len(listed) == len(set(listed))
    assert {*listed} <= architectures.KNOWN


def test_full_layers_and_windows_alternate_as_the_engine_says_where_the_file_does_not() -> None:
    """`load_swa_pattern` in src/models/ of llama.cpp, typed by hand: period, and whether the full layer is first."""
    listed = {
        **{"afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "exaone-moe": (4, False)},
        **{"exaone4": (4, False), "gemma-embedding": (6, False), "gemma2": (2, False), "gemma3": (6, False)},
        **{"gemma3n": (5, False), "gpt-oss": (2, False), "laguna": (4, True), "llama4": (4, False)},
        **{"mellum": (4, False), "modern-bert": (3, True), "olmo2": (4, False), "plamo3": (8, False)},
    }
    windows = architectures.WINDOWS.items()
    assert {name: (window.every, window.first) for name, window in windows if window.every} == listed
    # `attention.sliding_window` is optional in their loaders, and in those of exaone4 and llama4.
    optional = {"afmoe", "gemma3", "laguna", "mellum", "modern-bert", "olmo2", "plamo3"}
    assert {name for name, window in windows if window.optional} == optional
