"""The speed of each GPU: `data/gpu_speed.csv`, which `python -m catalogue` makes of published readings."""

from dataclasses import dataclass, replace
from functools import cache

from sharing import tables

EXPERT_LAYERS = 1.4
"""Fixed time of a layer with experts, in that of other layers: the value with the smallest error over all readings."""
MOSTLY_FIXED = 0.4
"""Part of the time from which left-out readings lie further off."""
SPREADS = ("spread", "fixed_spread", "prompt_spread")
"""The columns with ranges."""
PLAIN = ("F16", "BF16", "Q8_0", "Q4_0", "MXFP4")
"""Quantizations whose weights take little computing. K-quants are slower than the memory on GPUs before Ampere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpeed:
    """The speed of one GPU with llama.cpp."""

    gb_s: float
    """Peak memory bandwidth, in GB (10^9 bytes) per second."""
    us_per_layer: float
    """Time of a layer that does not depend on its size, in microseconds: starting kernels, waiting for them."""
    efficiency: float
    """Part of the bandwidth that reading K-quants reaches."""
    plain_efficiency: float
    """Part of the bandwidth that reading other weights reaches."""
    prompt_tflops: float
    """Useful operations per second while reading a prompt: 2 for each weight and token, in 10^12."""
    readings: int
    """Readings of this GPU; 0 if its constants are those of similar GPUs."""
    spread: float
    """Logarithm of the factor within which nine of ten left-out readings lie, if most of the time is for reading."""
    fixed_spread: float
    """The same where more than `MOSTLY_FIXED` of the time is for the layers: small models, experts, fast GPUs."""
    prompt_spread: float
    """The same for prompts."""

    def token_seconds(self, *, layers: int, has_experts: bool, read_bytes: float, quantization: str) -> float:
        """Time per token of one request, in seconds, if it reads `read_bytes` for each."""
        efficiency = self.plain_efficiency if quantization in PLAIN else self.efficiency
        fixed = self.layer_seconds(layers=layers, has_experts=has_experts)
        return fixed + read_bytes / (efficiency * self.gb_s * 1e9)

    def layer_seconds(self, *, layers: int, has_experts: bool) -> float:
        """The part of that time that does not depend on the bytes."""
        return self.us_per_layer * 1e-6 * layers * (EXPERT_LAYERS if has_experts else 1)

    def is_mostly_fixed(self, part: float) -> bool:
        """Whether a token whose time has such a fixed part has the wider range."""
        return part > MOSTLY_FIXED

    def of_a_slice(self) -> "GpuSpeed":
        """The same with the ranges of GPUs without readings: the one known of a MIG slice has 512 requests at once."""
        return replace(self, readings=0, **widest_spreads())

    def prompt_seconds(self, *, tokens: float, weights: float) -> float:
        """Time to evaluate a prompt, in seconds, if a token passes `weights` weights of the model."""
        return 2 * weights * tokens / (self.prompt_tflops * 1e12)


@cache
def gpu_speeds() -> dict[str, GpuSpeed]:
    """The speed of each GPU by its name."""
    return {row["gpu"]: GpuSpeed(**tables.cells_of(row, GpuSpeed)) for row in tables.read("gpu_speed").rows}


@cache
def widest_spreads() -> dict[str, float]:
    """The ranges of GPUs without readings, by column."""
    return {name: max(getattr(speed, name) for speed in gpu_speeds().values()) for name in SPREADS}
