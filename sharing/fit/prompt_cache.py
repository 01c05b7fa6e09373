"""Whether the engine's prompt cache saves time: what one conversation takes there, and what a copy costs.

llama-server copies a conversation to RAM when another one takes its slot, and back when it returns. The request waits
for both. Source: llama.cpp tools/server, `get_available_slot` and `server_prompt_cache`; decision 0152 measures it.
"""

from sharing.fit.memory import BYTES_PER_WEIGHT
from sharing.hardware.gpus import Gpu
from sharing.models.catalogue import MIB, Model
from sharing.models.kv_cache import kv_bytes
from sharing.models.ollama import checkpoint_bytes, checkpoints
from sharing.models.served import ServedModel
from sharing.stack.pools import GpuPool

CELL_BYTES = 20
"""Position, sequence and place in a picture of one token. Source: llama.cpp llama-kv-cache.cpp, state_write_meta."""
STEP_MIB = 64
"""The sizes to write are multiples of this."""
COPIED_MIB_PER_SECOND = 1_340
"""MiB of a conversation that one second copies from GPU to RAM: 375 in 0.28 s on an H100, with llama2:7b.

A PCIe bus is ten times as fast. The time goes into new pages of RAM, so other nodes are assumed to take the same.
"""
READS = {
    "a100-40gb": 5_800 * 8.03e9,
    "a100-80gb": 5_800 * 8.03e9,
    "l40s": 5_909 * 8.03e9,
    "h100": 621 / 0.065 * 6.74e9,
    "h200": 621 / 0.065 * 6.74e9,
}
"""Tokens of a prompt that a GPU reads in a second, times the weights of the model.

A100 and L40S: Llama 3 8B Q4_K_M, prompts of 1,024 tokens. Source: XiongjieDai/GPU-Benchmarks-on-LLM-Inference, 2024-05
("LLaMA 3/Professional GPUs/L40S_v3.ipynb"); newer engines are faster. H100: llama2:7b, measured
with llama.cpp b10454 (decision 0152); the H200 has the same chip. For other GPUs, no reading could be found.
"""


def state_mib(served: ServedModel) -> float:
    """RAM of one conversation that fills its slot: keys and values, recurrent state and the slot's checkpoints, in MiB.

    Source: llama.cpp tools/server/server-task.cpp, `server_prompt_cache::alloc`.
    """
    kept = kv_bytes(served) / served.effective_slots + checkpoints(served) * checkpoint_bytes(served)
    # Layers with and without a window have caches of their own.
    return (kept + 2 * CELL_BYTES * served.effective_context) / MIB


def enough_mib(served: ServedModel) -> int:
    """The smallest useful cache, in MiB: the conversation that leaves a slot must not evict the one that returns."""
    return int(-(-2 * state_mib(served) // STEP_MIB) * STEP_MIB)


def copies_seconds(served: ServedModel) -> float:
    """How long a conversation that returns and fills its slot waits: it is copied back, and another one to RAM.

    Only copies to RAM are measured. Those back are assumed to take as long.
    """
    return 2 * state_mib(served) / COPIED_MIB_PER_SECOND


def read_seconds(served: ServedModel, gpu: Gpu, part: float = 1.0) -> float | None:
    """How long the same conversation takes as a new prompt, on a `part` of the GPU; None if the GPU is not measured."""
    if gpu.name not in READS:
        return None
    return served.effective_context * _weights(served.model) / (READS[gpu.name] * part)


def _weights(model: Model) -> float:
    """Weights that one token passes through."""
    used = model.experts_used / model.experts if model.experts else 1.0
    return model.weights_bytes / BYTES_PER_WEIGHT * used


def slow_copies(served: ServedModel, pool: GpuPool) -> Gpu | None:
    """A GPU of the pool that reads a conversation faster than its node copies two, when one returns.

    The share of the memory stands for the share of the multiprocessors: the same with MPS, and nearly so with MIG.
    """
    for gpu in (kind.gpu for kind in pool.known_types):
        parts = [(shares.memory_mib or gpu.cuda_mib) / gpu.cuda_mib for shares in pool.sharing.offers(gpu)]
        reads = read_seconds(served, gpu, min(parts, default=1.0))
        if reads is not None and reads < copies_seconds(served):
            return gpu
    return None
