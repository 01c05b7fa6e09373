"""The forecast for one model: alone on its share, beside busy neighbours, with all slots in use, and its first token.

Time per token = fixed time of its layers + bytes that it reads / (efficiency x bandwidth). The bytes are the weights
that a token uses, the KV cache at half of the context, and the states. `docs/explanation/speed.md` derives it.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import median
from typing import Literal, Protocol

from sharing import tables
from sharing.hardware.gpus import Gpu, gpus
from sharing.hardware.mig import profiles
from sharing.models.catalogue import Model
from sharing.models.engine import ModelInEngine
from sharing.models.kv_cache import bytes_read
from sharing.speed.estimate import Estimate, within
from sharing.speed.gpus import GpuSpeed, gpu_speeds, widest_spreads

PROMPT_TOKENS = 500
"""Length of the prompt for the time to the first token."""
BITS = {
    **{"F16": 16.0, "BF16": 16.0, "Q8_0": 8.5, "Q4_0": 4.5, "Q4_1": 5.0, "Q5_0": 5.5, "Q5_1": 6.0, "MXFP4": 4.25},
    **{"Q2_K": 3.16, "Q3_K_S": 3.64, "Q3_K_M": 4.0, "Q3_K_L": 4.3, "Q4_K_S": 4.67, "Q4_K_M": 4.85},
    **{"Q5_K_S": 5.57, "Q5_K_M": 5.7, "Q6_K": 6.56},
}
"""Bits per weight, by quantization. Source: ggml-common.h; Q4_K_M mixes 4.5 and 6.56 (llama-quant.cpp). The other
mixtures: Llama 3.1 8B in tools/quantize/README.md of llama.cpp b10454."""
OTHER_BITS = BITS["Q4_K_M"]
NOT_EXPERTS_BITS = {"MXFP4": 16.0}
"""Bits of the weights that are not experts, where they differ."""
EXPERTS_PART = 0.9
"""Part of the weights on the GPU that are experts, if it is unknown: the median of the catalogue."""
SHARED = "a100-40gb"
"""The GPU of the readings of busy neighbours in `data/shared_speed.csv`."""
SLOWEST_THREADS = 1.0
"""A model with half of the threads keeps half of its speed at least: computing is all that they limit."""
FASTEST_THREADS = 0.3
"""And at most as much as if only a third of its time were computing: no reading of a small GPU is known."""

Basis = Literal["forecast", "measured"]


class Share(Protocol):
    """What the speed depends on of a share: `sharing.modes.modes.Shares` has it."""

    @property
    def sharers(self) -> int: ...
    @property
    def enforced(self) -> bool: ...
    @property
    def profile(self) -> str: ...
    @property
    def threads(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast one model answers."""

    tokens_per_s: Estimate
    """One request, while the other models of the GPU are idle."""
    busy_tokens_per_s: Estimate
    """One request, while each other model of the GPU works on one, too."""
    full_tokens_per_s: Estimate
    """All of its slots in total, while all slots of all models of the GPU are in use."""
    first_token_ms: Estimate
    """Until the first token after a prompt of `PROMPT_TOKENS`, or of the whole context, while the others are idle."""
    measured: frozenset[str] = frozenset()
    """Names of the figures above that a measurement has replaced."""

    @property
    def basis(self) -> Basis:
        """`measured` if at least one figure is."""
        return "measured" if self.measured else "forecast"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What a share has of a GPU while its neighbours are idle: parts of the whole."""

    bandwidth: float = 1.0
    compute: float = 1.0


@lru_cache(maxsize=4096)
def forecast(served: ModelInEngine, gpu: Gpu, share: Share, busy: int) -> Speed | None:
    """The speed on a share of `gpu`, which `busy` models use, this one included.

    None for an embedding model, which generates nothing, and for a GPU without a known bandwidth.
    """
    whole = gpu_speeds().get(_chip(gpu))
    if served.model.encoder or whole is None:
        return None
    if share.profile:
        whole = whole.of_a_slice()
    part = _hardware_part(gpu, share)
    alone = _tokens_per_s(served, whole, part)
    prompt = _prompt_seconds(served, whole, part)
    if gpu.is_slice:
        # Its time is cut, so also the time of its layers is longer.
        fraction = gpu.nvml_mib / gpus()[_chip(gpu)].nvml_mib
        alone = alone.times(_shared("vgpu")).times(fraction)
        prompt = prompt.times(_shared("vgpu-prompt").times(fraction).inverse())
    sharers = min(busy, share.sharers)
    beside = alone.times(_kept(gpu, share, sharers)) if sharers > 1 else alone
    if share.threads < 1:
        fewer = 1 / share.threads
        alone = alone.times(_kept_threads(fewer))
        # Threads limit computing, and a prompt is computing.
        prompt = prompt.times(Estimate(fewer, fewer**FASTEST_THREADS, fewer))
        # A busy neighbour cannot make it faster.
        beside = Estimate(*(min(pair) for pair in zip(_numbers(beside), _numbers(alone), strict=True)))
    first = prompt.times(1000)
    step = 1000 / alone.value
    return Speed(
        tokens_per_s=alone,
        busy_tokens_per_s=beside,
        full_tokens_per_s=beside.times(_more_slots(served)),
        first_token_ms=Estimate(first.value + step, first.low + step, first.high + step),
    )


def read_per_token(model: Model) -> float:
    """Bytes of weights that one token reads."""
    return sum(_used_bytes(model))


def weights_per_token(model: Model) -> float:
    """Weights that one token passes through, about two operations for each."""
    of_experts, others = _used_bytes(model)
    bits = BITS.get(model.quant, OTHER_BITS)
    return 8 * (of_experts / bits + others / NOT_EXPERTS_BITS.get(model.quant, bits))


def _used_bytes(model: Model) -> tuple[float, float]:
    """Bytes of the experts and of the other weights that one token uses."""
    # A custom model may claim that nearly all of it is the embedding.
    on_gpu = max(float(model.weights_bytes - model.embedding_bytes), 1.0)
    if not model.experts:
        return 0.0, on_gpu
    experts = float(model.expert_bytes) or EXPERTS_PART * on_gpu
    return experts * model.experts_used / model.experts, on_gpu - experts


def _numbers(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def _chip(gpu: Gpu) -> str:
    return gpu.name.partition("/")[0]


def _hardware_part(gpu: Gpu, share: Share) -> _Part:
    """The part of a MIG slice, which is its own, whatever its neighbours do.

    Its multiprocessors are counted as NVIDIA's MIG guide does: 1/7 for `1g`. An H100 gives it 16 of 132.
    """
    if not share.profile:
        return _Part()
    every = profiles(gpu)
    computing = {name: int(name.partition("g.")[0]) for name in every}
    slices = max(profile.slices for profile in every.values())
    return _Part(
        bandwidth=every[share.profile].slices / slices, compute=computing[share.profile] / max(computing.values())
    )


def _tokens_per_s(served: ModelInEngine, speed: GpuSpeed, part: _Part) -> Estimate:
    cache_bytes = bytes_read(served, served.effective_context / 2)
    layers, has_experts = served.model.layers, bool(served.model.experts)
    seconds = speed.token_seconds(
        layers=layers,
        has_experts=has_experts,
        read_bytes=(read_per_token(served.model) + cache_bytes) / part.bandwidth,
        quantization=served.model.quant,
    )
    fixed = speed.layer_seconds(layers=layers, has_experts=has_experts) / seconds
    return within(1 / seconds, speed.fixed_spread if speed.is_mostly_fixed(fixed) else speed.spread)


def _prompt_seconds(served: ModelInEngine, speed: GpuSpeed, part: _Part) -> Estimate:
    tokens = min(PROMPT_TOKENS, served.effective_context)
    seconds = speed.prompt_seconds(tokens=tokens, weights=weights_per_token(served.model))
    dense = within(seconds / part.compute, speed.prompt_spread)
    # A prompt needs all experts, each for few of its tokens.
    return dense.times(_shared("expert-prompt").inverse()) if served.model.experts else dense


def _kept(gpu: Gpu, share: Share, busy: int) -> Estimate:
    """The part of its speed that a model keeps beside busy neighbours; on another GPU than that of the readings, it may
    differ as much as GPUs without readings do.
    """
    together = _together(share)
    if _chip(gpu) != SHARED:
        together = together.times(within(1.0, widest_spreads()["spread"]))
    return together.times(1 / busy)


def _together(share: Share) -> Estimate:
    """The speed of all busy models in total, in that of one alone."""
    in_turns, by_mps = _shared("timeslice"), _shared("mps")
    if not share.enforced:
        return in_turns
    if share.threads < 1:
        return by_mps
    # Every reading of MPS is one with a part of the threads for each.
    return Estimate(by_mps.value, min(in_turns.low, by_mps.low), by_mps.high)


def _kept_threads(fewer: float) -> Estimate:
    """The part of its speed that a model keeps with one in `fewer` threads."""
    return Estimate(fewer ** -_shared("mps-threads").value, fewer**-SLOWEST_THREADS, fewer**-FASTEST_THREADS)


def _more_slots(served: ModelInEngine) -> Estimate:
    """The total speed of all slots, in that of one. Requests of a model with experts read different experts."""
    slots, longer = served.effective_slots, _shared("expert-slots" if served.model.experts else "slots")
    return Estimate(slots ** (1 - longer.value), slots ** (1 - longer.high), slots ** (1 - longer.low))


@cache
def _shared(what: str) -> Estimate:
    """The middle of the readings in `data/shared_speed.csv`, and their range."""
    values = [float(row["value"]) for row in tables.read("shared_speed").rows if row["what"] == what]
    return Estimate(median(values), min(values), max(values))
