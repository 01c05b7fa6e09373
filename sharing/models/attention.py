"""The heads for which the pinned engine has flash attention on CUDA, and the heads that a quantized cache can hold.

Source: llama.cpp ggml/src/ggml-cuda/fattn.cu, `ggml_cuda_get_best_fattn_kernel`, the same in the releases before and
after b10488. The answer does not depend on the GPU: Volta, Turing and newer GPUs differ only in the kernel.
Check it when `artifacts.csv` gets a newer Ollama.
"""

EQUAL_SIZES = frozenset({40, 64, 72, 80, 96, 112, 128, 256})
"""Values of a key and of a value, with any number of heads."""
GROUPED_SIZES = {(192, 128): 8, (320, 256): 32, (512, 512): 1, (576, 512): 1}
"""Values of a key and of a value that need groups: for each KV head, two or more query heads, a multiple of this."""
LATENT_ROPE = 64
"""RoPE values in `mla_rank`: `qk_rope_head_dim` of every published model with MLA. The rest is also the value."""
QUANTIZED_BLOCK = 32
"""Values in a block of q8_0 and q4_0, which must divide a head. Source: llama.cpp `llama_init_from_model`."""
FORCED_OFF = frozenset({"grok"})
"""Architectures that get no flash attention, regardless of the setting. Source: llama.cpp `llama_init_from_model`."""


def has_kernel(key: int, value: int, heads: int, kv_heads: int) -> bool:
    """Whether flash attention with heads of these sizes runs on the GPU; without a kernel it runs on the CPU."""
    if key in EQUAL_SIZES:
        return key == value
    group, multiple = heads // max(kv_heads, 1), GROUPED_SIZES.get((key, value), 0)
    return multiple > 0 and group >= 2 and group % multiple == 0
