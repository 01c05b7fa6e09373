"""Which heads have flash attention on CUDA, and what the others cost. Values are from llama.cpp, not from `sharing`."""

from typing import Any

import pytest

from sharing.fit.host import host_need
from sharing.fit.memory import compute_mib, need
from sharing.hardware.gpus import gpus
from sharing.models.attention import has_kernel
from sharing.models.catalogue import MIB, KvType, Model, models
from sharing.models.ollama import server_environment
from sharing.models.served import ServedModel
from sharing.modes.modes import Exclusive
from sharing.verdict.advice import advise
from sharing.verdict.full import judge_fully
from sharing.verdict.quick import judge_quickly
from sharing.verdict.rules.table import problems
from tests.sharing.builders import changed, pool, read_figures, served, setup, stack, tenants

WITHOUT = {
    *("all-minilm:22m", "all-minilm:33m", "snowflake-arctic-embed:22m", "snowflake-arctic-embed:33m"),
    *("deepseek-coder-v2:16b", "deepseek-r1:671b", "deepseek-v3:671b"),
}
"""By hand: heads of 384 / 12 = 32 values, and keys of 192 with values of 128 in groups of one."""


@pytest.mark.parametrize("row", read_figures("attention_kernels"), ids=lambda row: "-".join(row.values()))
def test_these_head_sizes_have_a_kernel(row: dict[str, str]) -> None:
    sizes = (int(row[name]) for name in ("key", "value", "heads", "kv_heads"))
    assert has_kernel(*sizes) is (row["kernel"] == "yes")


def own(**shape: Any) -> Model:
    numbers = {"layers": 2, "kv_heads": 4, "head_dim": 128, "width": 512, "feed_forward": 256, **shape}
    return Model(name="own", weights_bytes=MIB, max_context=0, vocabulary=1024, source="test", **numbers)


def asked(model: Model, context: int = 2048, slots: int = 1, kv_type: KvType = KvType.F16) -> ServedModel:
    return ServedModel.of(model, context=context, slots=slots, kv_type=kv_type)


@pytest.mark.parametrize(
    ("shape", "flash"),
    [
        ({"mla_rank": 576, "heads": 20, "kv_heads": 20, "head_dim": 256}, True),
        ({"mla_rank": 320, "heads": 16, "kv_heads": 16}, False),
        ({"mla_rank": 576}, False),
        # gemma4:12b: full layers and windows are both grouped. All layers share one switch.
        ({"heads": 16, "head_dim": 512, "kv_heads": 1, "swa_layers": 1, "swa_head_dim": 256, "swa_kv_heads": 8}, True),
        ({"heads": 16, "swa_layers": 1, "swa_head_dim": 48}, False),
        ({"heads": 8, "head_dim": 512, "kv_heads": 1, "swa_layers": 1, "swa_kv_heads": 8}, False),
        ({"architecture": "grok"}, False),
    ],
)
def test_every_kind_of_layer_needs_a_kernel(shape: dict[str, Any], flash: bool) -> None:
    assert own(**shape).has_flash_attention is flash


def test_a_server_gets_flash_attention_only_where_the_gpu_can_compute_it() -> None:
    without = {
        name for name, model in models().items() if server_environment(asked(model))["OLLAMA_FLASH_ATTENTION"] == "0"
    }
    assert without == WITHOUT
    with_it = models().keys() - WITHOUT
    assert {server_environment(asked(models()[name]))["OLLAMA_FLASH_ATTENTION"] for name in with_it} == {"1"}


@pytest.mark.parametrize("context", [4096, 8192, 65_536])
def test_without_flash_attention_the_batch_stays_at_512(context: int) -> None:
    # ollama v0.32.15 server/sched.go, automaticGenerationBatch: llamaServerGenerationBatchDefault.
    assert served("deepseek-coder-v2:16b", context=context).effective_batch == 512


def test_the_scores_of_a_batch_take_memory_without_flash_attention() -> None:
    """32 heads of 100 values, a residual stream of 3,200 and 4,096 cells."""
    model = own(heads=32, kv_heads=32, head_dim=100, width=3200, feed_forward=8640)
    scores = 32 * 512 * 4096 * 4
    mask = 512 * 4096 * 4
    beside = 512 * 4 * (2 * 3200 + 2 * 3200 + 2 * 3200)
    assert compute_mib(asked(model, 4096)) == (scores + mask + beside) / MIB == 301.5
    # cuBLAS: the scores again in f16, and what it computes.
    in_f16 = scores / 2 + 512 * 3200 * 2
    assert need(asked(model, 4096), gpus()["t4"]).compute == pytest.approx(301.5 + in_f16 / MIB)


def test_many_slots_unpack_the_keys_of_all_of_them() -> None:
    model = own(heads=8, kv_heads=8, head_dim=160, width=1280, feed_forward=64)
    wanted = asked(model, 4096, 8)
    unpacked = 8 * 4096 * 8 * 160 * 4
    assert need(wanted, gpus()["t4"]).compute - compute_mib(wanted) == unpacked / MIB == 160


def test_an_encoder_multiplies_its_scores_as_they_are() -> None:
    """12 heads of 32 values, 256 tokens: the engine counts 5.13 MiB."""
    wanted = asked(models()["all-minilm:33m"], 256)
    scores, mask, beside = 12 * 256 * 256 * 4, 256 * 256 * 4, 256 * 4 * 5 * 384
    assert compute_mib(wanted) == (scores + mask + beside) / MIB == 5.125
    # Activations of the widest layer, 1,536 values, in 36 bytes for 32.
    assert need(wanted, gpus()["t4"]).compute == 5.125 + 256 * 1536 * 36 / 32 / MIB


def test_inputs_in_ram_have_32_bits_and_the_places_of_v_without_flash_attention() -> None:
    """The engine counts 20.01 MiB of inputs for deepseek-coder-v2 and 512 × 2,048 tokens, and 24.01 for 4,096."""
    for context, mib in ((2048, 20), (4096, 24)):
        assert host_need(served("deepseek-coder-v2:16b", context=context)).buffers == mib


def refusals(model: Model, kind: KvType) -> list[str]:
    whole = setup(pools=(pool(sharing=Exclusive()),), models=tenants(asked(model, kv_type=kind)))
    return [str(problem) for problem in problems(whole) if problem.path.endswith("kv-type")]


def test_the_heads_of_an_own_model_decide_about_flash_attention() -> None:
    assert not refusals(own(heads=16), KvType.Q8_0)
    assert refusals(own(heads=16, value_dim=64), KvType.Q8_0)
    # It has flash attention, but no whole blocks of 32 values, so llama_init_from_model refuses it.
    assert own(heads=16, head_dim=80).has_flash_attention
    assert refusals(own(heads=16, head_dim=80), KvType.Q8_0)
    # Only `heads` shows whether they are grouped.
    (unknown,) = refusals(own(head_dim=512, kv_heads=1), KvType.Q8_0)
    assert unknown.endswith("Write `kv-type: f16`, or add `heads`.")
    (hopeless,) = refusals(own(head_dim=48), KvType.Q8_0)
    assert hopeless.endswith("Write `kv-type: f16`.")


def test_a_quantized_cache_is_not_offered_for_such_a_model() -> None:
    whole = stack("g4dn.xlarge", Exclusive(), served("deepseek-coder-v2:16b", context=65_536))
    found = judge_fully(whole)
    assert found.problems
    settings = [setting for each in found.advice["gpu"] for setting in each.settings]
    assert settings
    assert not [setting for setting in settings if "kv-type" in setting]


def test_advice_for_a_cache_that_the_engine_refuses_makes_it_f16() -> None:
    whole = stack("g4dn.xlarge", Exclusive(), served("deepseek-coder-v2:16b", context=65_536, kv_type=KvType.Q8_0))
    offered = advise(whole, judge_quickly(whole), whole.pools[0])
    assert offered
    for each in offered:
        assert "models[0].kv-type: f16" in each.settings
        assert judge_quickly(changed(whole, each.settings)).accepted
