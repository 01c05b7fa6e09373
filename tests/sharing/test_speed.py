"""The forecast of the speed: published figures that no constant was fitted to, and what must hold for every model."""

import dataclasses
from math import copysign, exp, log, sqrt

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as some

from sharing.hardware.gpus import gpus, instance_types
from sharing.models.catalogue import models
from sharing.models.kv_cache import bytes_read
from sharing.models.served import ServedModel
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.speed.estimate import Estimate, within
from sharing.speed.forecast import BITS, Speed, forecast, read_per_token, weights_per_token
from sharing.speed.gpus import gpu_speeds
from tests.sharing.builders import served

GENERATING = sorted(name for name, model in models().items() if not model.encoder)


def of(model: ServedModel, gpu: str, sharing: Sharing, busy: int = 2) -> Speed:
    speed = forecast(model, gpus()[gpu], sharing.offers(gpus()[gpu])[-1], busy)
    assert speed
    return speed


@pytest.mark.parametrize(
    ("tag", "active"),
    [
        ("gpt-oss:20b", 3.6e9),
        ("gpt-oss:120b", 5.1e9),
        ("qwen3:30b", 3.3e9),
        ("mixtral:8x7b", 12.9e9),
        ("llama3.1:8b", 8.0e9),
    ],
)
def test_a_token_passes_the_weights_that_its_model_card_calls_active(tag: str, active: float) -> None:
    assert weights_per_token(models()[tag]) == pytest.approx(active, rel=0.12)


def test_bits_per_weight_are_those_of_llama_cpp() -> None:
    """Blocks by the package gguf; mixtures by the table for Llama 3.1 8B in llama.cpp's tools/quantize/README.md."""
    names = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "Q6_K"]
    blocks = {name: gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]] for name in names}
    mixtures = {"Q2_K": 3.16, "Q3_K_S": 3.64, "Q3_K_M": 4.0, "Q3_K_L": 4.3, "Q4_K_S": 4.67, "Q4_K_M": 4.89}
    mixtures |= {"Q5_K_S": 5.57, "Q5_K_M": 5.7}
    bits = {**{name: 8 * size / values for name, (values, size) in blocks.items()}, **mixtures}
    assert bits == pytest.approx(BITS, abs=0.05)


def test_weights_that_need_little_computing_are_read_faster() -> None:
    """Those without mixtures, offsets and bits kept apart: llama.cpp ggml-common.h."""
    t4 = gpu_speeds()["t4"]

    def seconds(quantization: str) -> float:
        return t4.token_seconds(layers=1, has_experts=False, read_bytes=1e9, quantization=quantization)

    plain = {name for name in BITS if seconds(name) < seconds("Q4_K_M")}
    assert plain == {"F16", "BF16", "Q8_0", "Q4_0", "MXFP4"}


def test_a_token_reads_a_part_of_the_experts() -> None:
    mixtral = models()["mixtral:8x7b"]
    assert read_per_token(mixtral) == pytest.approx(26.44e9 * 12.9 / 46.7, rel=0.05)  # 12.9 of 46.7 billion weights
    assert read_per_token(models()["llama2:7b"]) == 3825065984 - 73728000


@pytest.mark.parametrize(
    ("tag", "gpu", "tokens_per_s"),
    [
        ("llama3:8b", "l4", 47.1),  # Lightning AI, "Chat with Llama 3 8B", Ollama 2024
        ("llama3:8b", "t4", 41.6),  # the same
        ("gemma3:1b", "t4", 134.0),  # llcuda
        (
            "mistral:7b",
            "h100",
            247.6,
        ),  # docs/benchmarks, without the neighbours: see catalogue/facts/speed_readings.csv
    ],
)
def test_a_published_speed_lies_in_the_range(tag: str, gpu: str, tokens_per_s: float) -> None:
    forecasted = of(served(tag, context=512), gpu, Exclusive(), 1).tokens_per_s
    assert forecasted.low <= tokens_per_s <= forecasted.high


@pytest.mark.parametrize(("mode", "keeps"), [(TimeSlicing(), 0.45), (Mps(), 0.65)])
def test_two_busy_models_keep_what_nvidia_measured(mode: Sharing, keeps: float) -> None:
    """A100 40GB, one request each: ai-dynamo/dynamo, "Interpreting GPU Sharing Results"."""
    alone = of(served("qwen3:4b"), "a100-40gb", Exclusive(), 1).tokens_per_s.value
    busy = of(served("qwen3:4b"), "a100-40gb", mode).busy_tokens_per_s
    assert busy.low <= keeps * alone <= busy.high


def test_a_slice_has_its_part_of_the_bandwidth() -> None:
    """NVIDIA's MIG user guide: 3g.40gb of an H100 has 4 of 8 memory slices."""
    model, h100 = served("llama3.1:70b"), gpus()["h100"]
    whole = forecast(model, h100, Exclusive().offers(h100)[0], 1)
    half = forecast(model, h100, Mig(layout="all-3g.40gb").offers(h100)[0], 1)
    assert whole
    assert half
    assert half.tokens_per_s.value == pytest.approx(whole.tokens_per_s.value / 2, rel=0.15)  # the fixed time stays
    assert half.busy_tokens_per_s == half.tokens_per_s
    # No speed of an LLM on a slice has been published.
    for figure in ("tokens_per_s", "first_token_ms"):
        cut, entire = getattr(half, figure), getattr(whole, figure)
        assert cut.high / cut.value > 1.1 * entire.high / entire.value


def test_a_fractional_gpu_has_its_part_of_the_speed() -> None:
    """A quarter of an L4 (g6f.2xlarge): 11.84 tokens/s with Llama 7B Q4_K_M. Source: SpareCores/sc-inspector-data."""
    gpu = instance_types()["g6f.2xlarge"].gpu
    speed = forecast(served("llama2:7b", context=256), gpu, Exclusive().offers(gpu)[0], 1)
    assert speed
    assert speed.tokens_per_s.low <= 11.84 <= speed.tokens_per_s.high


def test_an_encoder_reads_no_cache() -> None:
    assert bytes_read(served("nomic-embed-text:latest"), 512) == 0
    # gemma3n:e4b: 20 layers of 35 have a cache, 16 of them a window of 512 tokens, and the other 15 read theirs with
    # windows as often: 28 windows in total. Keys and values of 2 heads with 256 values, in 16 bits.
    assert bytes_read(served("gemma3n:e4b"), 1000) == (7 * 1000 + 28 * 512) * 2 * 2 * 256 * 2
    # With one of its 16 layers recurrent, llama3.2:1b reads 15 caches of 8 heads with 64 values, and the state.
    hybrid = dataclasses.replace(models()["llama3.2:1b"], recurrent_layers=1, recurrent_state_bytes=2**20)
    assert bytes_read(served("llama3.2:1b").with_model(hybrid), 1000) == 15 * 1000 * 2 * 8 * 64 * 2 + 2**20
    # Keys and values of 32 layers with 4,096 values each, in 16 bits.
    assert bytes_read(served("llama2:7b"), 100) == 100 * 32 * 2 * 4096 * 2


@pytest.mark.parametrize(("tag", "tokens_per_s"), [("gpt-oss:120b", 475.0), ("qwen3-coder:30b", 1520.0)])
def test_a_prompt_passes_experts_slower_than_other_weights(tag: str, tokens_per_s: float) -> None:
    """A100 80GB, Ollama, September 2025, prompts of about 500 tokens: gparemsky/48gb4090."""
    found = of(served(tag), "a100-80gb", Exclusive(), 1).first_token_ms
    assert found.low <= 500 / tokens_per_s * 1000 <= found.high


def test_the_first_token_follows_a_prompt_of_500_tokens() -> None:
    short, long = (
        of(served("llama3.1:8b", context=context), "t4", Exclusive(), 1).first_token_ms.value for context in (500, 8192)
    )
    assert long == pytest.approx(short, rel=0.05)


def test_the_first_token_takes_the_time_of_its_prompt_and_of_a_token() -> None:
    """A prompt takes a time for each of its tokens: of two, one twice as long, what is left is the time of a token."""
    short, long = (of(served("llama3.1:8b", context=context), "t4", Exclusive(), 1) for context in (250, 500))
    for end in ("value", "low", "high"):
        left = 2 * getattr(short.first_token_ms, end) - getattr(long.first_token_ms, end)
        assert left == pytest.approx(1000 / long.tokens_per_s.value, rel=0.02)


def test_ranges_are_wider_where_the_layers_take_most_of_the_time() -> None:
    """A model of 0.6 billion weights on an H100, and one of 70 billion."""
    small, large = (
        of(served(tag, context=512), "h100", Exclusive(), 1).tokens_per_s for tag in ("qwen3:0.6b", "llama3.1:70b")
    )
    assert small.high / small.value > 1.1 * large.high / large.value


def test_mps_threads_are_those_of_all_shares_and_time_slices_those_of_busy_models() -> None:
    """k8s-device-plugin sets the active thread percentage to 100 / replicas, also while others are idle."""
    two_of_four = of(served("llama2:7b"), "l4", Mps(replicas=4), 2)
    two_of_two = of(served("llama2:7b"), "l4", Mps(replicas=2), 2)
    assert two_of_four.tokens_per_s.value < two_of_two.tokens_per_s.value
    slices = [of(served("llama2:7b"), "l4", TimeSlicing(replicas=replicas), 2) for replicas in (2, 4)]
    assert slices[0] == slices[1]


OWN = Mps(limits="per-model")


def of_client(model: ServedModel, gpu: str, threads: float) -> Speed:
    """A model with limits of its own, beside one neighbour."""
    shares = dataclasses.replace(OWN.offers(gpus()[gpu])[0], threads=threads)
    speed = forecast(model, gpus()[gpu], shares, 2)
    assert speed
    return speed


@pytest.mark.parametrize(("tag", "whole", "half"), [("llama2:7b", 3.38, 5.03), ("mistral:7b", 4.04, 6.42)])
def test_a_client_keeps_of_its_speed_what_was_measured_with_half_of_the_threads(
    tag: str, whole: float, half: float
) -> None:
    """H100, milliseconds between tokens beside an idle neighbour: docs/explanation/speed.md."""
    model = served(tag)
    every, limited = of_client(model, "h100", 1.0).tokens_per_s, of_client(model, "h100", 0.5).tokens_per_s
    assert limited.value / every.value == pytest.approx(whole / half, rel=0.05)
    assert limited.low <= 1000 / half <= limited.high


@pytest.mark.parametrize(("end", "keeps"), [("low", 0.5), ("high", 0.81)])
def test_half_of_the_threads_keep_from_half_of_the_speed_to_four_fifths(end: str, keeps: float) -> None:
    """Half if computing is all that a model does. If it is a third of its time, that takes twice as long: 2 ** -0.3."""
    every, limited = (of_client(served("llama2:7b"), "h100", threads).tokens_per_s for threads in (1.0, 0.5))
    # Ranges of independent factors add up like the sides of a right triangle.
    whole, product = (log(getattr(each, end) / each.value) for each in (every, limited))
    factor = copysign(sqrt(product**2 - whole**2), product)
    assert limited.value / every.value * exp(factor) == pytest.approx(keeps, rel=0.01)


def test_an_idle_neighbour_costs_nothing_where_all_threads_are_allowed() -> None:
    """An MPS client without a limit of threads saw all 132 multiprocessors: docs/benchmarks, MPS on an H100."""
    model = served("llama2:7b")
    alone = of(model, "t4", Exclusive(), 1)
    client, equal = of_client(model, "t4", 1.0), of(model, "t4", Mps())
    assert client.tokens_per_s == alone.tokens_per_s
    assert client.first_token_ms == alone.first_token_ms
    assert equal.tokens_per_s.high < client.tokens_per_s.value
    assert equal.first_token_ms.value > client.first_token_ms.value
    # A busy one takes what it takes under equal limits, and perhaps as much as with time-slicing: all readings are of
    # clients with a part of the threads.
    assert client.busy_tokens_per_s.value == pytest.approx(equal.busy_tokens_per_s.value)
    assert client.busy_tokens_per_s.low < equal.busy_tokens_per_s.low


@given(
    tag=some.sampled_from(GENERATING),
    gpu=some.sampled_from(["t4", "l4", "h100"]),
    parts=some.tuples(some.integers(1, 100), some.integers(1, 100)),
)
def test_fewer_threads_are_never_faster(tag: str, gpu: str, parts: tuple[int, int]) -> None:
    few, many = (of_client(served(tag, context=512), gpu, part / 100) for part in sorted(parts))
    for name in ("tokens_per_s", "busy_tokens_per_s", "full_tokens_per_s"):
        assert getattr(few, name).value <= getattr(many, name).value * 1.0001
    assert few.first_token_ms.value >= many.first_token_ms.value * 0.9999
    for speed in (few, many):
        assert speed.busy_tokens_per_s.value <= speed.tokens_per_s.value


def test_a_slice_that_models_share_is_time_sliced() -> None:
    alone, turns = (of(served("llama2:7b"), "h100", Mig(layout="all-3g.40gb", replicas=number)) for number in (None, 2))
    assert turns.tokens_per_s == alone.tokens_per_s
    assert turns.busy_tokens_per_s.value < 0.6 * alone.busy_tokens_per_s.value


def test_a_context_longer_than_the_models_changes_nothing() -> None:
    """llama2:7b has 4,096 tokens."""
    assert of(served("llama2:7b", context=100_000), "l4", Exclusive(), 1) == of(
        served("llama2:7b", context=4096), "l4", Exclusive(), 1
    )


@pytest.mark.parametrize("embedding_bytes", [0, 2**29, 2**30])
@pytest.mark.parametrize("experts", [0, 64])
def test_a_model_of_which_only_the_needed_keys_are_known_has_a_speed(embedding_bytes: int, experts: int) -> None:
    """Also one that claims to be nothing but its embedding, which stays on the CPU."""
    sizes = {"weights_bytes": 2**30, "embedding_bytes": embedding_bytes, "experts": experts, "experts_used": 1}
    shape = dataclasses.replace(models()["llama3.2:1b"], quant="", **sizes)  # type: ignore[arg-type]
    assert 0 < read_per_token(shape) <= shape.weights_bytes
    assert weights_per_token(shape) > 0


def test_an_embedding_model_has_no_speed() -> None:
    t4 = gpus()["t4"]
    assert forecast(served("nomic-embed-text:latest"), t4, Exclusive().offers(t4)[0], 1) is None


@given(some.sampled_from(GENERATING), some.sampled_from(["t4", "l4", "a10g", "h100"]), some.integers(1, 8), some.data())
def test_more_work_is_never_faster(tag: str, gpu: str, slots: int, data: some.DataObject) -> None:
    modes: list[Sharing] = [Exclusive(), TimeSlicing(replicas=4), Mps(replicas=4)]
    mode = data.draw(some.sampled_from(modes))
    short, long = (of(served(tag, context=context, slots=slots), gpu, mode) for context in (512, 8192))
    for speed in (short, long):
        for estimate in (speed.tokens_per_s, speed.busy_tokens_per_s, speed.full_tokens_per_s, speed.first_token_ms):
            assert 0 < estimate.low <= estimate.value <= estimate.high
        assert speed.busy_tokens_per_s.value <= speed.tokens_per_s.value
        assert speed.full_tokens_per_s.value >= speed.busy_tokens_per_s.value
    assert long.tokens_per_s.value <= short.tokens_per_s.value


def test_independent_ranges_grow_less_than_their_product() -> None:
    product = within(10, 0.3).times(Estimate(2, 1, 4))
    assert product.value == 20
    assert 10 * 0.74 * 1 < product.low < 20 * 0.74
    assert 20 * 1.35 < product.high < 20 * 1.35 * 2
