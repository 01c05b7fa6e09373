"""The memory that a model needs: the formula, the published figures, and smaller settings that never need more."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.fit.memory import Need
from sharing.fit.memory import need as need_on
from sharing.hardware.gpus import gpus
from sharing.models.catalogue import MIB, KvType, Model, find, full_name, models, require_model
from sharing.models.served import ServedModel
from tests.sharing.builders import read_figures, replace, served

GIB = 2**30
T4 = gpus()["t4"]

ANY_MODEL = st.sampled_from(list(models()))
CONTEXTS = st.integers(256, 140_000)
SLOTS = st.integers(1, 64)
KV_TYPES = st.sampled_from(list(KvType))


def need(served: ServedModel) -> Need:
    return need_on(served, T4)


def own(**overrides: int | bool) -> Model:
    """A model with numbers small enough to multiply by hand: 2 layers × 4 heads × 64 values."""
    numbers: dict[str, int | bool] = {
        "weights_bytes": 3 * MIB,
        "layers": 2,
        "kv_heads": 4,
        "head_dim": 64,
        "max_context": 0,
        "vocabulary": 2**10,
        **overrides,
    }
    return Model(name="own", source="test", **numbers)  # type: ignore[arg-type]


def test_what_a_program_does_not_say_of_a_model_is_none_or_unknown() -> None:
    defaults = {each.default for each in dataclasses.fields(Model)} - {dataclasses.MISSING}
    assert defaults == {"", 0}


def test_every_model_of_the_catalogue_is_described_in_full() -> None:
    for tag, model in models().items():
        assert model.name == tag
        assert model.weights_bytes > 40 * MIB
        assert 0 <= model.embedding_bytes < model.weights_bytes
        assert min(model.layers, model.kv_heads, model.head_dim, model.max_context, model.vocabulary) > 0
        assert (model.swa_layers > 0) == (model.swa_window > 0)
        assert model.swa_layers + model.shared_kv_layers + model.recurrent_layers < model.layers
        assert (model.recurrent_layers > 0) == (model.recurrent_state_bytes > 0)
        assert model.experts_used <= model.experts
        assert model.source


@pytest.mark.parametrize("row", read_figures("names"), ids=lambda row: row["name"])
def test_a_name_means_the_file_that_ollama_serves_for_it(row: dict[str, str]) -> None:
    assert full_name(row["name"]) == row["listed"]
    assert find(row["name"]) == (replace(models()[row["file"]], name=row["listed"]) if row["file"] else None)


@pytest.mark.parametrize(
    ("kv_type", "bytes_per_token"),
    # Measured, and for q4_0 a block of 32 values in 18 bytes instead of 34.
    [(KvType.F16, 12_288), (KvType.Q8_0, 6_528), (KvType.Q4_0, 6_528 * 18 / 34)],
)
def test_a_token_of_qwen_takes_the_measured_bytes(kv_type: KvType, bytes_per_token: float) -> None:
    tokens = 4096
    assert need(served("qwen2.5:0.5b", context=tokens, kv_type=kv_type)).kv * MIB / tokens == bytes_per_token


@pytest.mark.parametrize("row", read_figures("weights"), ids=lambda row: row["model"])
def test_weights_and_kv_match_the_table(row: dict[str, str]) -> None:
    model = models()[row["model"]]
    # The table has the whole files, with headers of up to 16 MB.
    assert -0.0051 < float(row["weights"]) - model.file_bytes / GIB < 0.021
    for tokens, gib in ((4096, row["at_4k"]), (8192, row["at_8k"]), (32768, row["at_32k"])):
        if gib:
            # The table's windows are for batches of 512. From 4096 tokens on Ollama's batch is 1024, so windows grow.
            more = 0 if tokens == 4096 else 512
            growth = 2 * model.kv_heads * model.head_dim * 2 * model.swa_layers * more / GIB
            found = need(served(row["model"], context=tokens)).kv / 1024
            assert found == pytest.approx(float(gib) + growth, abs=0.0051), tokens


def test_a_need_is_the_sum_of_its_parts_and_its_bound_adds_the_margin() -> None:
    """512 tokens × (3 × 16 + 2 × 8 + 8) values × 4 bytes; 512 × 1024 cells × 2 bytes; 512 × 16 × 36 / 32 bytes."""
    found = need(ServedModel.of(own(width=8, feed_forward=16, embedding_bytes=MIB), context=1024, slots=2))
    # The embedding stays on the CPU.
    assert found.weights == 3 - 1
    assert found.kv == 2 * (4 * 64) * 2 * (2 * 2048) / MIB
    assert found.compute * MIB == 512 * (3 * 16 + 2 * 8 + 8) * 4 + 512 * 1024 * 2 + 512 * 16 * 36 / 32
    assert found.cuda_context == T4.context_mib
    assert found.buffers == found.compute + found.cuda_context
    assert found.total == found.weights + found.kv + found.buffers
    assert found.bound == found.total + found.margin


def test_a_projector_takes_its_weights_and_its_buffers() -> None:
    """gemma4:e2b: 941 MiB of weights, 1,154 MiB in all (public file 59728474905)."""
    found = need(ServedModel.of(own(projector_bytes=941 * MIB), context=2048, slots=1))
    assert found.projector == pytest.approx(1_154, rel=0.04)


@pytest.mark.parametrize(
    ("projector", "longest", "context", "given"),
    [(0, 0, 512, 512), (1, 0, 512, 2048), (1, 0, 4096, 4096), (1, 1024, 512, 1024), (0, 0, 1_000_000, 1_000_000)],
)
def test_a_vision_model_gets_at_least_2048_tokens_if_it_supports_them(
    projector: int, longest: int, context: int, given: int
) -> None:
    model = own(projector_bytes=projector, max_context=longest)
    assert ServedModel.of(model, context=context, slots=1).effective_context == given


# ollama v0.32.15 server/sched.go, load.
ONE_AT_A_TIME = (
    "mllama qwen3vl qwen3vlmoe qwen35 qwen35moe qwen3next lfm2 lfm2moe nemotron_h nemotron_h_moe nemotron_h_omni"
)


@pytest.mark.parametrize(
    ("architecture", "slots"), [*((name, 1) for name in ONE_AT_A_TIME.split()), ("qwen3", 4), ("qwen25vl", 4)]
)
def test_some_architectures_are_served_one_request_at_a_time(architecture: str, slots: int) -> None:
    model = replace(own(), architecture=architecture)
    assert ServedModel.of(model, context=1024, slots=4).effective_slots == slots


def test_the_margin_grows_by_the_uncertainty_of_the_weights() -> None:
    exact = need(ServedModel.of(own(), context=1024, slots=1))
    rounded = own(weights_spread=50 * MIB)
    found = need(ServedModel.of(rounded, context=1024, slots=1))
    assert found.total == exact.total
    assert found.margin == pytest.approx(exact.margin + 50)


@pytest.mark.parametrize("unknown", ["width", "feed_forward"])
def test_the_margin_grows_if_the_shape_is_unknown(unknown: str) -> None:
    shape = {"width": 4096, "feed_forward": 11_008, "weights_bytes": 3_826_793_677, "layers": 32}
    known = need(ServedModel.of(own(**shape), context=4096, slots=1))
    found = need(ServedModel.of(own(**{**shape, unknown: 0}), context=4096, slots=1))
    assert found.compute == pytest.approx(known.compute, rel=0.5)
    assert found.margin == pytest.approx(known.margin + found.compute, abs=5)


@pytest.mark.parametrize(
    ("context", "slots", "batch"),
    [
        (4096, 1, 512),
        (2048, 2, 512),
        (4097, 1, 1024),
        (2048, 3, 1024),
        (32768, 1, 1024),
        (32769, 1, 2048),
        (131072, 4, 2048),
    ],
)
def test_the_batch_grows_with_the_tokens_of_all_slots_as_ollamas_does(context: int, slots: int, batch: int) -> None:
    assert ServedModel.of(own(), context=context, slots=slots).effective_batch == batch


@pytest.mark.parametrize(
    ("context", "slots", "cells"),
    [
        (8192, 1, 8192 + 2048),  # the window and one batch: 1024 + 1024
        (2048, 1, 2048 + 1536),  # the window and a smaller batch: 1024 + 512
        (1024, 1, 1024 + 1024),  # no more than the context
        (8192, 4, 32768 + 4 * 2048),  # a window and a batch for each slot: 1024 + 1024
        (1000, 1, 1024 + 1024),  # rounded up to 256 cells
        (257, 1, 512 + 512),
        (256, 1, 256 + 256),
    ],
)
def test_a_sliding_window_layer_keeps_only_its_window(context: int, slots: int, cells: int) -> None:
    model = own(swa_layers=1, swa_window=1024)
    found = need(ServedModel.of(model, context=context, slots=slots))
    assert found.kv * MIB == 2 * 4 * 64 * 2 * cells


@given(context=CONTEXTS, slots=SLOTS, kv_type=KV_TYPES)
@settings(max_examples=20)
def test_an_encoder_has_no_cache_and_one_slot(context: int, slots: int, kv_type: KvType) -> None:
    asked = served("nomic-embed-text:latest", context=context, slots=slots, kv_type=kv_type)
    assert need(asked).kv == 0
    assert asked.effective_slots == 1
    assert asked.total_context == asked.effective_batch == min(context, 2048)


def test_a_model_gets_no_more_tokens_than_its_longest_context() -> None:
    asked = served("llama2:7b", context=8192, slots=2)
    assert asked.effective_context == 4096
    assert asked.total_context == 8192
    assert need(asked) == need(served("llama2:7b", context=4096, slots=2))


@given(tag=ANY_MODEL, context=CONTEXTS, slots=SLOTS, kv_type=KV_TYPES, data=st.data())
@settings(max_examples=150)
def test_smaller_settings_never_need_more(
    tag: str, context: int, slots: int, kv_type: KvType, data: st.DataObject
) -> None:
    most = need(served(tag, context=context, slots=slots, kv_type=kv_type)).total
    assert need(served(tag, context=context, slots=data.draw(st.integers(1, slots)), kv_type=kv_type)).total <= most
    assert need(served(tag, context=data.draw(st.integers(256, context)), slots=slots, kv_type=kv_type)).total <= most
    f16, q8_0, q4_0 = (need(served(tag, context=context, slots=slots, kv_type=kind)).total for kind in KvType)
    assert q4_0 <= q8_0 <= f16


def test_a_model_is_found_by_its_tag_or_passed_through() -> None:
    assert require_model("llama2:7b") == models()["llama2:7b"]
    assert require_model("llama3.2").name == "llama3.2:latest"
    own = replace(models()["llama2:7b"], name="mine")
    assert require_model(own) is own
    with pytest.raises(ValueError, match=r"^unknown model 'llama2:7'\. Did you mean llama2:7b"):
        require_model("llama2:7")
